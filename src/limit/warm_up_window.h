// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's warm-up: a limit per window that rises from limit/c to limit as it is used,
// c the cold factor, and falls again while it is not.  It counts by windows: requests of
// one window are not spaced.
//
// Heat is kept as stored permits, most of them when cold.  With Q = floor(P*limit/W), the
// units of a warm-up period P at full rate,
//   warning = Q / (c-1), most = warning + max(floor(2*P*limit / (W*(1+c))), 1),
// and the limit of a window that begins with s permits is
//   limit                                            where s <= warning, else
//   floor(limit * r / ((s - warning)*(c-1) + r)),    r = most - warning,
// which is limit/c at s = most.  When a window ends in which n units went,
//   s = min(s + limit, most)   if s < warning, or n < floor(limit/c): it cools;
//   s = max(s - n, 0).
// A window without requests counts like any other, n = 0.
//
// Never less than one request goes in a window, whatever it costs (up to limit): a cold
// limit below a request's cost would let nothing pass, so that nothing could warm it.
// For the same reason "n < floor(limit/c)" is "n < 1" where that is 0, and s = warning
// cools as what is above it does.
//
// Guarantee: in [k*W, (k+1)*W) at most the limit of that window, or one request.
//
// Numbers: limit is the limit when warm.  remaining is what is left of this window's
// limit; at the start of a window one request of up to `limit` goes whatever it says.
// retry_after and reset_after: the end of the window.
//
// State: three words, [0] window + 1 (0: fresh, which is cold), [1] units that went in
// it, [2] stored permits at its start; 24 bytes a key.
//
// Threads: the caller holds a lock on the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

struct WarmUpWindow {
  struct Spec {
    int64_t limit = 0;        // units when warm; 0: everything is refused
    int64_t window_ns = 1;    // W
    int64_t cold_factor = 2;  // c
    int64_t idle_below = 1;   // units of a window that keep it from cooling
    int64_t warning = 0;      // stored permits: with more of them it is cold
    int64_t range = 0;        // r
    int64_t max_debt = 0;     // units
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed
  // (warm_up: at least the window; cold_factor: at least 2).
  static Result<Spec> Make(const Config& config);
  [[nodiscard]] static size_t Words(const Spec& spec) noexcept;

  // Requires: cost >= 0 (0: peek), now >= 0, state.size() == Words(spec).
  // Time: an earlier `now` than before takes from the newest window.  After a step back by
  // more than kLateStampMax all of its units count as taken in the current window.
  static Numbers Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                    int64_t cost) noexcept;
  // Only in the window of the take.
  static void GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                       Instant now) noexcept;
  // Books the units in the current window, whose count may exceed the limit by max_debt.
  static void Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                     Instant now) noexcept;
  // Takes min(cost, remaining).  allowed: all of `cost`.
  static Numbers TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;
  // When the state equals a fresh one: cold.
  [[nodiscard]] static Instant KeepUntil(const Spec& spec,
                                         std::span<const uint64_t> state) noexcept;
};

}  // namespace flowguard::limit
