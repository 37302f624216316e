// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's bucket of a hot parameter: it fills up in steps, at the first request after
// more than a window; for those who must reproduce it.
//
// A bucket holds `rest` units, at most B, since it was filled.  Of a request at the time e
// after that,
//   e <= W   n units go iff n <= rest;
//   e > W    the bucket would hold s = min(rest + floor(e*L/W), B); n units go iff n <= s.
//            Then it was filled at the time of the request.
// A key that was never seen is filled to B by its first request.  So what is left of a
// window is not lost, but nothing comes back before the window is over, and the time in
// which nobody asked is cut to what B holds.
//
// Guarantee: at most 2*B + floor(t*L/W) units in any interval of length t.  Before its first
// filling in the interval B at most go; from there to the last one the fillings add L in W,
// to the B that the bucket holds at most.
//
// Numbers: limit is B, remaining what the bucket would hold.  retry_after and reset_after
// are exact.
//
// State: two words, [0] when it was filled + 1 (0: fresh, which is full), [1] rest, as a
// signed number (below 0: debt); 16 bytes a key.
//
// Threads: the caller holds a lock on the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

struct StepBucket {
  struct Spec {
    int64_t limit = 0;       // B; 0: everything is refused
    int64_t per_window = 0;  // L
    int64_t window_ns = 1;   // W
    int64_t max_debt = 0;    // units
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);
  [[nodiscard]] static size_t Words(const Spec& spec) noexcept;

  // Requires: cost >= 0 (0: peek), now >= 0, state.size() == Words(spec).
  // Time: an earlier `now` than that of the filling counts as that.  After a step back by
  // more than kLateStampMax the bucket was filled now, with what it held.
  static Numbers Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                    int64_t cost) noexcept;
  // Only until the bucket is filled again.
  static void GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                       Instant now) noexcept;
  // Takes what the bucket holds, then debt up to max_debt.
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
