// SPDX-License-Identifier: Apache-2.0
//
// Leaky bucket as a queue: units leave one per T = ceil(window/limit) ns, and a
// request is told how long to wait for its turn.
//
// The state is the instant at which the queue is empty and the next unit may leave.
// A request of n units leaves with its last unit: delay = max(word, now) + (n-1)*T - now.
// It is refused at once when delay > wait, and for ever when (n-1)*T > wait.
//
// Guarantee: in any closed interval of length t at most floor(t/T) + n units leave, n
// the largest request (floor(t/T) + 1 for requests of one unit): idleness earns nothing.
//
// Numbers: limit is the largest request that an idle queue takes, floor(wait/T) + 1;
// remaining is the largest that it would take now (not the rate left over: there is
// no stock of units in a queue).  reset_after: until the queue is empty.
//
// The word, refusals, peeks and clock steps: as token_bucket.h, with the capacity
// wait + T.
//
// Threads: the caller owns the word.
#pragma once

#include <cstdint>

#include "flowguard/result.h"

#include "limit/divisor.h"
#include "limit/numbers.h"

namespace flowguard::limit {

struct LeakyBucket {
  struct Spec {
    int64_t interval_ns = 0;  // T; 0: limit is 0, everything is refused
    int64_t largest = 0;      // units: floor(wait/T) + 1
    int64_t capacity_ns = 0;  // wait + T
    int64_t horizon_ns = 0;   // capacity + T * max_debt
    int64_t step_ns = 0;      // horizon + kLateStampMax
    Divisor per_interval;     // by T
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);

  // Requires: cost >= 0 (0: peek), now >= 0, word >= 0.
  static Numbers Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, int64_t word, Instant now,
                                    int64_t cost) noexcept {
    Receipt receipt;
    return Decide(spec, word, now, cost, receipt);
  }
  // Only while nothing is queued behind the take; else its turn passes unused, since
  // those behind were told their waits already.
  static void GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                       Instant now) noexcept;
  // Later requests queue behind the units, at most capacity + T * max_debt from now.
  static void Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept;
  // Queues min(cost, remaining) units.  allowed: all of `cost`.
  static Numbers TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;
};

}  // namespace flowguard::limit
