// SPDX-License-Identifier: Apache-2.0
//
// Sliding buckets, the conservative count: at most `limit` units in every window.
//
// The window is cut into N buckets of b = ceil(W/N) ns, aligned to the epoch of
// Instant, and N + 1 of them are counted in full.  Any interval of length W meets at most
// N + 1 buckets, and the sum over the last N + 1 never exceeds the limit.  The price: a
// greedy client gets N/(N+1) of the rate (10 buckets: 9.1 % less, 60: 1.6 %).
//
// A prioritised request that does not fit now is booked in the first bucket to come that
// it fits in, with all that are booked after it, and goes when that begins.
//
// State: words [0] newest bucket + 1, [1] sum of the last N + 1, [2..] N + 1 counters of 32
// bits, bucket j at j mod (N+1); 4*(N+1) + 16 bytes a key, rounded up to 8.  Where units
// can be borrowed, F counters more of the buckets to come, and a last word: the latest of
// them with units + 1.
//
// Invariant: the sum over any N + 1 buckets in a row, those to come among them, is at most
// limit + max_debt, and without debt at most the limit.
//
// Threads: the caller holds a lock on the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

struct SlidingBuckets {
  static constexpr int kDefaultBuckets = 10;

  struct Spec {
    int64_t limit = 0;      // units; 0: everything is refused
    int64_t buckets = 1;    // N
    int64_t bucket_ns = 1;  // b
    int64_t max_debt = 0;   // units
    int64_t ahead = 0;      // F: buckets to come that prioritised requests are booked in
    int64_t wait_ns = 0;    // how long a request may wait; 0 if it is not prioritised
  };

  // config.buckets 0: kDefaultBuckets.  Units are borrowed for at most W.
  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);
  [[nodiscard]] static size_t Words(const Spec& spec) noexcept;

  // Requires: cost >= 0 (0: peek), now >= 0, state.size() == Words(spec).
  // Time: an earlier `now` than before takes from the newest bucket.  After a step back by
  // more than kLateStampMax all units count as taken in the current bucket.
  // allowed with wait > 0: not yet, but after `wait` (at most spec wait_ns); booked.
  // Cost: O(buckets passed since the last take); a refusal, and while units are booked in
  // buckets to come, O(N + F).
  static Numbers Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                    int64_t cost) noexcept;
  // Only while the bucket of the take is counted, or yet to come.
  static void GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                       Instant now) noexcept;
  // Books the units in the current bucket; the sum may exceed the limit by max_debt.
  static void Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                     Instant now) noexcept;
  // Takes min(cost, remaining).  allowed: all of `cost`.
  static Numbers TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;
  // When the state equals a fresh one.
  [[nodiscard]] static Instant KeepUntil(const Spec& spec,
                                         std::span<const uint64_t> state) noexcept;
};

}  // namespace flowguard::limit
