// SPDX-License-Identifier: Apache-2.0
//
// Guava's SmoothWarmingUp: an even flow whose spacing shrinks from c*T to T as it is
// used, and grows again while it is idle; T = ceil(window/limit) ns, c the cold factor.
// A request pays forward, as in smooth_bursty.h: it goes when its predecessors are paid
// for, and what it costs itself is waited for by those after it.
//
// By Guava's variables, for a warm-up period P: idleness stores permits, P/most of them a
// ns, at most
//   most = threshold + 2P / (T + cT), threshold = P / 2T,
// and a stored permit x above the threshold costs T + x * (cT - T) / (most - threshold);
// below it, and when none is stored, T.  A limiter starts cold, with all of them stored.
//
// Here the store is told by what is gone of it, in ns of idleness that would bring it
// back: `warmth` is 0 when cold and P at most.  A permit warms by
//   D = ceil(T * 2(c+1)/(c+5)),
// and those above the threshold lie within 4P/(c+5) of cold.  Of n permits, u = min(n*D,
// what is left of that, a) warm it up, and by the area of the trapezoid the request costs
//   n*T + ceil((c-1) * u*(2a - u) * (c+5)^2 / (16 (c+1) P)).
//
// Guarantee: in any closed interval of length t at most floor(t/T) + n units go, n the
// largest request; colder, fewer.  n itself is not bounded, see smooth_bursty.h.
//
// Numbers: there is no stock, so limit is 1 and remaining 1 or 0: a request goes at once
// (of any cost), or does not.  reset_after: until what was taken is paid for.
//
// State: three words, [0] the next free ticket, [1] warmth when it was written, [2] the
// latest time stamp; 24 bytes a key.
//
// Threads: the caller holds a lock on the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

struct WarmUp {
  struct Spec {
    int64_t limit = 0;        // 1; 0: everything is refused
    int64_t interval_ns = 0;  // T
    int64_t period_ns = 0;    // P
    int64_t cold_factor = 1;  // c
    int64_t warming_ns = 0;   // D
    int64_t cold_ns = 0;      // 4P/(c+5): less warmth than this is cold
    int64_t wait_ns = 0;
    int64_t horizon_ns = 0;  // wait + cT * max_debt: how far charges go
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);
  [[nodiscard]] static size_t Words(const Spec& spec) noexcept;

  // allowed with wait > 0: not yet, but after `wait` (at most spec wait); booked.
  // Refused: retry_after is exact, and the same for every cost.
  // Requires: cost >= 0 (0: peek), now >= 0, state.size() == Words(spec).
  // Time: an earlier `now` than before makes the wait longer.  After a step back by more
  // than kLateStampMax the state goes back with the clock: what was owed is owed from now.
  static Numbers Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                    int64_t cost) noexcept;
  // Only while nothing was taken since: those behind were told their waits already.
  static void GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                       Instant now) noexcept;
  // As a take, but for how far it goes: later requests wait for at most wait + cT * max_debt.
  static void Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                     Instant now) noexcept;
  // Takes min(cost, remaining).  allowed: all of `cost`.
  static Numbers TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;
  // When the state equals a fresh one: paid for, and cold.
  [[nodiscard]] static Instant KeepUntil(const Spec& spec,
                                         std::span<const uint64_t> state) noexcept;
};

}  // namespace flowguard::limit
