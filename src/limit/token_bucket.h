// SPDX-License-Identifier: Apache-2.0
//
// Token bucket, kept as one time stamp (the generic cell rate algorithm, GCRA).
//
// A key may take `burst` units at once and one unit per T = ceil(window/limit) ns in
// the long run.  The state is the theoretical arrival time (TAT): the instant at which
// the bucket is full again.  There is no token count, hence no refill and no rounding
// that adds up; a TAT in the past equals a key that was never seen.
//
// Guarantee: takes less give-backs in any closed interval of length t are at most
// burst + floor(t/T).  Units that are charged or that wait are booked later by the
// amount they exceed; docs/decisions/0003-gcra.md has the algebra.
//
// Invariants
//   (1) word <= now + horizon after every call, horizon = T*(burst + max_debt) + the
//       longer of wait and borrow.
//   (2) A refusal and a peek leave the word as it is, with one exception: a word more
//       than kLateStampMax beyond the horizon (the clock stepped back, or a reload made
//       the horizon shorter) is drawn back to now + horizon, where it is exhausted.
//       Callers write the word back whenever it changed.
//
// Threads: the caller owns the word (one load, one compare-and-swap if it changed).
#pragma once

#include <algorithm>
#include <cstdint>

#include "flowguard/result.h"

#include "base/check.h"
#include "limit/arrival_time.h"
#include "limit/divisor.h"
#include "limit/numbers.h"
#include "limit/wide.h"

namespace flowguard::limit {

struct TokenBucket {
  struct Spec {
    int64_t interval_ns = 0;  // T; 0: limit is 0, everything is refused
    int64_t burst = 0;        // units
    int64_t capacity_ns = 0;  // T * burst
    int64_t admit_ns = 0;     // capacity + wait, or of prioritised requests + borrow if more
    int64_t horizon_ns = 0;   // capacity + the longer of wait and borrow + T * max_debt
    int64_t step_ns = 0;      // horizon + kLateStampMax
    Divisor per_interval;     // by T
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);

  // Decides whether `cost` units may go at `now`, and books them if so.
  //
  // allowed with wait > 0: not yet, but after `wait` (at most spec wait); booked.
  // Refused: retry_after is the shortest wait after which the same cost would be allowed
  // if nobody else took meanwhile, exact to the nanosecond; kNever when cost > burst.
  // cost 0 is a peek: always allowed, takes nothing.
  //
  // Requires: cost >= 0, now >= 0, word >= 0 (0: never seen).
  // Time:     an earlier `now` than before makes the test stricter, never looser.
  // Cost:     no allocation, no division; two multiplications.
  static Numbers Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;

  // What Decide would answer.  Takes nothing.
  [[nodiscard]] static Numbers Look(const Spec& spec, int64_t word, Instant now,
                                    int64_t cost) noexcept {
    Receipt receipt;
    return Decide(spec, word, now, cost, receipt);
  }

  // Returns receipt.cost units (or fewer: lower receipt.cost to give a part back), at
  // most what of the take has not drained yet: min(cost*T, TAT after the take - now).
  static void GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                       Instant now) noexcept;

  // Takes `units` afterwards, allowed or not; beyond the capacity they become debt, at
  // most max_debt units, and what is above that is forgotten.
  static void Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept;

  // Takes min(cost, what is there), for rules that count refused requests; never debt,
  // never a wait.  Short of `cost`, the begun unit is lost too: the bucket is exactly
  // empty.  allowed: all of `cost` was taken; else retry_after holds for the state after.
  static Numbers TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;

 private:
  // Out of line: inlined, it makes the path that allows three times as slow.
  static Numbers Refusal(const Spec& spec, int64_t ahead_ns, int64_t cost) noexcept;
};

inline Numbers TokenBucket::Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                                   Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && word >= 0);
  const int64_t now_ns = Nanos(now);
  const int64_t ahead_ns = ReadAhead(word, now_ns, spec.horizon_ns, spec.step_ns);
  receipt = {};
  if (cost > spec.burst) [[unlikely]] {
    return Refusal(spec, ahead_ns, cost);
  }
  // No overflow: cost <= burst, so the product is at most the capacity.
  const int64_t after_ns = ahead_ns + cost * spec.interval_ns;
  if (after_ns > spec.admit_ns && cost > 0) {
    return Refusal(spec, ahead_ns, cost);
  }
  if (cost > 0) word = now_ns + after_ns;
  receipt = {.cost = cost, .mark = now_ns + after_ns};
  const int64_t left_ns = spec.capacity_ns - after_ns;
  Numbers numbers;
  numbers.allowed = true;
  numbers.limit = spec.burst;
  numbers.remaining = spec.per_interval.Quotient(std::max<int64_t>(left_ns, 0));
  numbers.reset_after = Duration(after_ns);
  numbers.wait = Duration(cost > 0 ? std::max<int64_t>(-left_ns, 0) : 0);
  return numbers;
}

}  // namespace flowguard::limit
