// SPDX-License-Identifier: Apache-2.0
//
// What a circuit breaker watches, when it opens and how it closes again.
#pragma once

#include <cstdint>

#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

namespace flowguard::breaker {

enum class BreakerCondition : uint8_t {
  kSlowRatio,   // of the calls, those that take longer than slow_over
  kErrorRatio,  // of the calls, those that fail
  kErrorCount,  // calls that fail
};

// Calls of a window, and how many of them were bad: slow or failed, by the condition.
struct CallCounts {
  int64_t calls = 0;
  int64_t bad = 0;
  friend bool operator==(const CallCounts&, const CallCounts&) = default;
};

struct BreakerSpec {
  BreakerCondition condition = BreakerCondition::kErrorRatio;
  Duration slow_over{};  // kSlowRatio: a call of exactly this length is not slow
  double ratio = 0.5;    // kSlowRatio, kErrorRatio: opens above it; 1: when all calls are bad
  int64_t errors = 0;    // kErrorCount: opens above it

  int64_t min_calls = 20;  // below, nothing opens it
  // The window slides by buckets of window / buckets (rounded down), aligned to the epoch
  // of Instant.  Of the oldest bucket nothing counts any more when a new one begins, so
  // no call counts for longer than the window.  1 bucket: the window tumbles.
  Duration window = std::chrono::seconds(10);
  int buckets = 10;

  Duration open_for = std::chrono::seconds(5);  // until it probes; also how long a probe may take
  int probes = 1;                               // calls let through while half-open
  int probe_successes = 0;  // of them, until it closes; 0: all.  One bad probe opens it again

  bool all_errors_open = true;  // false: an error ratio of 1 never opens, as in Sentinel

  friend bool operator==(const BreakerSpec&, const BreakerSpec&) = default;
};

// Errors: kInvalidArgument naming the field, what was found and what is allowed.
[[nodiscard]] Result<void> CheckSpec(const BreakerSpec& spec);

// The same breaker as Sentinel counts: one bucket, which aligns the window to its length;
// one probe; an error ratio of 1 never opens.
[[nodiscard]] BreakerSpec SentinelForm(BreakerSpec spec) noexcept;

// What the end of a call says about what was called.
enum class CallMark : uint8_t {
  kGood,
  kBad,
  kNeutral,  // nothing: it is not counted
};

// A call that was cancelled, or whose error is to be ignored, is neutral.  But one that had
// taken too long by then was slow: who waits for something that hangs gives up some time,
// and what is overloaded may say no late; else both would hide it.
[[nodiscard]] inline CallMark MarkOf(const BreakerSpec& spec, Outcome outcome,
                                     Duration took) noexcept {
  const bool by_time = spec.condition == BreakerCondition::kSlowRatio;
  if (by_time && took > spec.slow_over) return CallMark::kBad;
  if (outcome == Outcome::kCancelled || outcome == Outcome::kIgnoredError)
    return CallMark::kNeutral;
  return outcome == Outcome::kError && !by_time ? CallMark::kBad : CallMark::kGood;
}

// Whether a closed breaker opens by these counts of its window.
[[nodiscard]] inline bool Opens(const BreakerSpec& spec, const CallCounts& counts) noexcept {
  if (counts.bad == 0 || counts.calls < spec.min_calls) return false;
  if (spec.condition == BreakerCondition::kErrorCount) return counts.bad > spec.errors;
  // Rounding does no harm: the quotient of two integers that equals a ratio as it was
  // written rounds to the same double as the text did.
  const double ratio = static_cast<double>(counts.bad) / static_cast<double>(counts.calls);
  if (ratio > spec.ratio) return true;
  const bool at_one = spec.condition == BreakerCondition::kSlowRatio || spec.all_errors_open;
  return at_one && spec.ratio == 1 && counts.bad == counts.calls;
}

}  // namespace flowguard::breaker
