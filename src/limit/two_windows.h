// SPDX-License-Identifier: Apache-2.0
//
// An algorithm over the counts of the current and the previous window; what it makes of
// them is its Estimate.
//
// State: three words (window + 1, current, previous), 24 bytes a key; and of an algorithm
// whose units can be borrowed a fourth (booked in the next window).
//
// Threads: the caller holds a lock on the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

struct WindowPair;

struct TwoWindowsSpec {
  int64_t limit = 0;      // units; 0: everything is refused
  int64_t window_ns = 1;  // of one window
  int64_t max_debt = 0;   // units
  int64_t borrow_ns = 0;  // prioritised requests wait for less than this; 0: they do not
};

// Estimate has kWindows, of how many windows W is made (of each the length is W / kWindows,
// rounded down); and, of a spec and a pair of windows:
//   Used         units that a charge finds in the stock of limit + max_debt
//   Room         units that may go now; negative in debt
//   RoomAfter    the same after `cost` of `room` were booked in `pair`
//   RetryAfter   the shortest wait for a cost that does not fit now, 0 < cost <= limit
//   ResetAfter   the wait until `remaining` is the limit
// and kBorrows: prioritised requests may be booked in the next window, if what is counted
// when that begins leaves them room; with
//   RetryBorrowing  as RetryAfter, for those
template <typename Estimate>
struct TwoWindows {
  struct Spec : TwoWindowsSpec {};

  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);
  [[nodiscard]] static size_t Words(const Spec& spec) noexcept;

  // allowed with wait > 0: not yet, but after `wait`; booked.
  // Requires: cost >= 0 (0: peek), now >= 0, state.size() == Words(spec).
  // Time: an earlier `now` than before counts as the start of the newest window.  After a
  // step back by more than kLateStampMax all units count as taken in the current window.
  static Numbers Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                    int64_t cost) noexcept;
  // Only while the window of the take is the next, the current or the previous one.
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
