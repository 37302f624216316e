// SPDX-License-Identifier: Apache-2.0
//
// Sliding log: at most `limit` units in every window, exactly, whatever the timing.
//
// A ring of `limit` slots, each holding the instant at which its unit leaves the window
// (0: never used).  n units go iff the n-th oldest slot is free by now, and they
// replace the n oldest.  Windows are half-open: a unit taken at s leaves at s + W.
//
// Guarantee: of limit + 1 units in a row the last replaced the first, so it came at
// least W after it.
//
// A prioritised request that finds no free slots takes the next to free, and goes when the
// last of them does: it counts as taken then.  Nobody gets ahead of it: all other slots
// free later.
//
// State: words [0] oldest slot, [1] debt, [2..] the ring; 8*limit + 16 bytes a key, so
// the limit is bounded (kSlidingLogLimitMax).  Only admissions are stored.
//
// Invariants
//   (1) The ring is sorted from its oldest slot on, also when time stamps are late.
//   (2) debt > 0 implies that every slot was taken when the debt was made; it takes
//       slots as they free, before any later request.
//
// Threads: the caller holds a lock on the state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

struct SlidingLog {
  struct Spec {
    int64_t limit = 0;      // units; 0: everything is refused
    int64_t window_ns = 1;  // W
    int64_t max_debt = 0;   // units
    int64_t ahead_ns = 0;   // how far ahead prioritised requests take slots
    int64_t wait_ns = 0;    // how long a request may wait: ahead_ns if it is prioritised, else 0
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed
  // (limit and max_debt: at most kSlidingLogLimitMax).
  static Result<Spec> Make(const Config& config);
  [[nodiscard]] static size_t Words(const Spec& spec) noexcept;

  // Requires: cost >= 0 (0: peek), now >= 0, state.size() == Words(spec).
  // allowed with wait > 0: not yet, but after `wait` (at most spec wait_ns); booked.
  // A refusal writes nothing, save the repair after a step back of the clock by more
  // than kLateStampMax (no slot stays taken longer than a window from now).
  // Cost: O(cost + log limit).
  static Numbers Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                    int64_t cost) noexcept;
  // Removes the units of the take that are still in the window.  They pay debt first.  Slots
  // taken ahead become free when the take could have gone, as those before them may count
  // until then.
  // Cost: O(units taken since).
  static void GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                       Instant now) noexcept;
  // Takes free slots now and, as debt, the next ones to free; at most max_debt of those.
  static void Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                     Instant now) noexcept;
  // Takes min(cost, remaining).  allowed: all of `cost`.
  static Numbers TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;
  // Carries `from`, a state of `old`, over to a fresh one.  Of more units than the limit
  // the latest count; a higher limit is there at once.  Debt stays, up to max_debt.
  // Requires: the two have one window.
  static void Adopt(const Spec& spec, std::span<uint64_t> state, const Spec& old,
                    std::span<const uint64_t> from) noexcept;
  // When the state equals a fresh one.
  [[nodiscard]] static Instant KeepUntil(const Spec& spec,
                                         std::span<const uint64_t> state) noexcept;
};

}  // namespace flowguard::limit
