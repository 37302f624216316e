// SPDX-License-Identifier: Apache-2.0
//
// Any algorithm with its numbers: the closed set of algorithms, chosen by a switch.
//
// State of a key: one word for token_bucket, leaky_bucket, fixed_window and
// smooth_bursty (8 bytes; an instant in ns after which the key may be forgotten; 0: never
// seen); words() words, all
// zero when fresh, for the others.  What each call means is said in the header of the
// algorithm.
//
// Threads: immutable once made; the caller owns the state that it passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "flowguard/result.h"
#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "base/check.h"
#include "limit/fixed_window.h"
#include "limit/leaky_bucket.h"
#include "limit/leap_array.h"
#include "limit/numbers.h"
#include "limit/sliding_buckets.h"
#include "limit/sliding_log.h"
#include "limit/sliding_window.h"
#include "limit/smooth_bursty.h"
#include "limit/step_bucket.h"
#include "limit/token_bucket.h"
#include "limit/warm_up.h"
#include "limit/warm_up_window.h"
#include "limit/weighted_average.h"

namespace flowguard::limit {

class AnySpec {
 public:
  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<AnySpec> Make(Algorithm algorithm, const Config& config);

  [[nodiscard]] Algorithm algorithm() const noexcept { return algorithm_; }
  [[nodiscard]] bool one_word() const noexcept { return words_ == 1; }
  // Words of state a key: 1, or the size of the span.
  [[nodiscard]] size_t words() const noexcept { return words_; }
  // Units that can be had at once at most, as in Numbers.
  [[nodiscard]] int64_t limit() const noexcept { return limit_; }
  // A request may cost any number of units; those after it wait for what it cost.
  [[nodiscard]] bool pays_forward() const noexcept {
    return algorithm_ == Algorithm::kSmoothBursty || algorithm_ == Algorithm::kWarmUp;
  }
  // A decision on a state of more than one word may be to wait.
  [[nodiscard]] bool state_waits() const noexcept { return state_waits_; }
  // Of a refusal of `cost`, what is told a caller that waits at most `wait_max`: where others
  // may wait longer, it is to come as much later.
  void DelayRetry(int64_t cost, Duration wait_max, Numbers& numbers) const noexcept;
  // When a caller is to come that waits at most `wait_max`, where `cost` could be booked now
  // for after a `wait` that is longer; kNever: it waits longer than that whenever it comes.
  [[nodiscard]] Duration RetryAfterWait(int64_t cost, Duration wait,
                                        Duration wait_max) const noexcept;
  // When its cells came to be matters: they start with less than the whole quota.
  [[nodiscard]] bool has_start() const noexcept { return algorithm_ == Algorithm::kSmoothBursty; }
  // Cells come to be at `start`; without this, long ago.  Requires: has_start().
  void StartAt(Instant start) noexcept {
    SmoothBursty::StartAt(*std::get_if<SmoothBursty::Spec>(&spec_), start);
  }
  // As configured.
  [[nodiscard]] Duration window() const noexcept { return window_; }

  // --- one-word algorithms.  Requires: one_word().
  // A word that differs after the call is written back, also after a refusal.
  Numbers Decide(int64_t& word, Instant now, int64_t cost, Receipt& receipt) const noexcept {
    if (algorithm_ == Algorithm::kTokenBucket) [[likely]] {
      return TokenBucket::Decide(*std::get_if<TokenBucket::Spec>(&spec_), word, now, cost, receipt);
    }
    return DecideOther(word, now, cost, receipt);
  }
  [[nodiscard]] Numbers Look(int64_t word, Instant now, int64_t cost) const noexcept {
    Receipt receipt;
    return Decide(word, now, cost, receipt);
  }
  void GiveBack(int64_t& word, const Receipt& receipt, Instant now) const noexcept;
  void Charge(int64_t& word, int64_t units, Instant now) const noexcept;
  Numbers TakeUpTo(int64_t& word, Instant now, int64_t cost, Receipt& receipt) const noexcept;

  // --- the others.  Requires: !one_word(), state.size() == words().
  Numbers Decide(std::span<uint64_t> state, Instant now, int64_t cost,
                 Receipt& receipt) const noexcept;
  [[nodiscard]] Numbers Look(std::span<const uint64_t> state, Instant now,
                             int64_t cost) const noexcept;
  void GiveBack(std::span<uint64_t> state, const Receipt& receipt, Instant now) const noexcept;
  void Charge(std::span<uint64_t> state, int64_t units, Instant now) const noexcept;
  Numbers TakeUpTo(std::span<uint64_t> state, Instant now, int64_t cost,
                   Receipt& receipt) const noexcept;
  // When the state equals a fresh one; an instant in the past: now already.
  [[nodiscard]] Instant KeepUntil(std::span<const uint64_t> state) const noexcept;

  // --- reload
  // Carries the state of a key over to a log of another limit.  The others read their
  // states as they are: buckets keep debt in time, and windows another limit's counts.
  // Requires: both are sliding_logs of one window; `to` is fresh.
  void Adopt(const AnySpec& old, std::span<const uint64_t> from,
             std::span<uint64_t> to) const noexcept;

 private:
  using Specs = std::variant<TokenBucket::Spec, LeakyBucket::Spec, SlidingLog::Spec,
                             SlidingBuckets::Spec, SlidingWindow::Spec, FixedWindow::Spec,
                             WeightedAverage::Spec, SmoothBursty::Spec, WarmUp::Spec,
                             WarmUpWindow::Spec, LeapArray::Spec, StepBucket::Spec>;

  AnySpec(Algorithm algorithm, const Config& config, const Specs& spec, size_t words) noexcept
      : algorithm_(algorithm),
        state_waits_(words > 1 && (algorithm == Algorithm::kWarmUp || config.prioritised)),
        longest_wait_(LongestWait(algorithm, config)),
        words_(words),
        window_(config.rate.window),
        spec_(spec) {}
  // The wait of `cost` on a state that is fresh: units of one request leave one by one.
  [[nodiscard]] Duration LeastWait(int64_t cost) const noexcept;
  static Duration LongestWait(Algorithm algorithm, const Config& config) noexcept;
  Numbers DecideOther(int64_t& word, Instant now, int64_t cost, Receipt& receipt) const noexcept;

  Algorithm algorithm_;
  bool state_waits_;
  Duration longest_wait_;  // that a request is allowed with
  size_t words_;
  int64_t limit_ = 0;
  Duration window_;
  Specs spec_;
};

}  // namespace flowguard::limit
