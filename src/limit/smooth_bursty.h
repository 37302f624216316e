// SPDX-License-Identifier: Apache-2.0
//
// Guava's SmoothBursty: up to `burst` unused permits are stored, and a request pays
// forward: it goes as soon as what its predecessors took is paid for, whatever it costs
// itself, and those after it wait for its cost.
//
// By Guava's variables, with T = ceil(window/limit) ns per permit: a request goes at
// max(next free ticket, now), takes stored permits first, and moves the next free ticket
// by T for each permit that was not stored.  Of the two only their sum is needed,
//   word = next free ticket + T * (burst - stored),
// the instant at which the store is full if nothing is taken.  So this is a token bucket
// (token_bucket.h) that is asked before the cost is added: a request waits for
// word - T*burst - now, and then word = max(word, now) + n*T.
//
// Guarantee: in any closed interval of length t at most burst + floor(t/T) + n units go,
// n the largest request (burst + floor(t/T) + 1 for requests of one unit).  n itself is
// not bounded: one over-large request goes, and the key then stays shut for n*T.
//
// A limiter starts with nothing stored (see Spec::start_ns).
//
// Numbers: limit is burst + 1 and remaining the units that go at once in requests of
// one: those stored, and one more that is paid forward.  Where remaining is not 0, a
// request of any cost goes.  reset_after: until the store is full.
//
// The word, refusals and peeks: as token_bucket.h.  A word in the future may be the debt
// of a large request, so a step back of the clock is not found: it locks the key out
// for its own length, and mints nothing.
//
// Threads: the caller owns the word.
#pragma once

#include <cstdint>

#include "flowguard/result.h"

#include "limit/divisor.h"
#include "limit/numbers.h"

namespace flowguard::limit {

struct SmoothBursty {
  struct Spec {
    int64_t interval_ns = 0;  // T; 0: limit is 0, everything is refused
    int64_t burst = 0;        // permits that can be stored
    int64_t stored_ns = 0;    // T * burst
    int64_t admit_ns = 0;     // T * burst + wait
    int64_t horizon_ns = 0;   // admit + T * max_debt: how far charges go
    // The word of a key that was never seen: that of a limiter which has been idle since
    // it came to be with nothing stored.  0: for longer than the store takes to fill.
    int64_t start_ns = 0;
    Divisor per_interval;  // by T
  };

  // config.burst 0: the limit (of a rate per second what Guava stores, one second's).
  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);
  // Limiters of this spec come to be at `start`.
  static void StartAt(Spec& spec, Instant start) noexcept;

  // allowed with wait > 0: not yet, but after `wait` (at most spec wait); booked.
  // Refused: retry_after is the wait until what was taken before is paid for, less the
  // wait that is allowed; exact, and the same for every cost.
  // No request is in debt for more than kHorizonNsMax.
  // Requires: cost >= 0 (0: peek), now >= 0, word >= 0 (0: never seen).
  static Numbers Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, int64_t word, Instant now,
                                    int64_t cost) noexcept {
    Receipt receipt;
    return Decide(spec, word, now, cost, receipt);
  }
  // Returns at most what of the take is not paid for or stored anew yet.
  static void GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                       Instant now) noexcept;
  // Takes `units` afterwards: those stored, then debt, at most wait + T * max_debt of it.
  static void Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept;
  // Takes min(cost, remaining).  allowed: all of `cost`.
  static Numbers TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;
};

}  // namespace flowguard::limit
