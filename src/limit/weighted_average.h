// SPDX-License-Identifier: Apache-2.0
//
// Weighted average: the two-window formula that weighs the current count by the elapsed
// share of the window, for those who must reproduce it, with a hard cap.
//
// With c units in the current window, p in the previous one, and e ns elapsed of W, the
// formula refuses when (e*c + (W-e)*p) / W >= limit.  It discounts fresh traffic twice:
// alone it admits 60 times the limit in the first second of a minute, and any number at
// e = 0.  The cap c + n <= limit is therefore always on, and makes this a fixed window in
// effect: at most 2*limit in any window.
//
// State: three words (window + 1, c, p), 24 bytes a key.
//
// Threads: the caller holds a lock on the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

struct WeightedAverage {
  struct Spec {
    int64_t limit = 0;      // units; 0: everything is refused
    int64_t window_ns = 1;  // W
    int64_t max_debt = 0;   // units
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);
  [[nodiscard]] static size_t Words(const Spec& spec) noexcept;

  // Requires: cost >= 0 (0: peek), now >= 0, state.size() == Words(spec).
  // Time: an earlier `now` than before counts as the start of the newest window.  After a
  // step back by more than kLateStampMax all units count as taken in the current window.
  static Numbers Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                    int64_t cost) noexcept;
  // Only while the window of the take is the current or the previous one.
  static void GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                       Instant now) noexcept;
  // Books the units in the current window, whose count may exceed the limit by max_debt.
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
