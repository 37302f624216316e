// SPDX-License-Identifier: Apache-2.0
//
// Fixed window: at most `limit` units between two multiples of `window` since the
// epoch of Instant.  Twice the limit can pass around a boundary; for coarse statistics.
//
// The word packs window and count so that it is an instant like any other one-word
// state: word = (k+1)*W + count, 1 <= count <= limit <= W (in ns).  It lies just after
// the end of window k, and from then on equals absent.  k+1 = (word-1) / W.
//
// Debt fills the windows that follow: a word whose k is ahead of the current window
// says that all windows before k are full.  Without max_debt it can only be a late
// time stamp, and the request takes from window k.
//
// Threads: the caller owns the word.
#pragma once

#include <cstdint>

#include "flowguard/result.h"

#include "limit/divisor.h"
#include "limit/numbers.h"

namespace flowguard::limit {

struct FixedWindow {
  struct Spec {
    int64_t limit = 0;         // units; 0: everything is refused
    int64_t window_ns = 1;     // W
    int64_t max_debt = 0;      // units
    int64_t debt_windows = 0;  // ceil(max_debt / limit)
    Divisor per_window;        // by W
  };

  // Errors: kInvalidArgument naming the field, what was found and what is allowed.
  static Result<Spec> Make(const Config& config);

  // Requires: cost >= 0 (0: peek), now >= 0, word >= 0.
  // A refusal writes nothing, save that a word from after a step back of the clock by
  // more than kLateStampMax becomes "the current window is full".
  static Numbers Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                        Receipt& receipt) noexcept;
  [[nodiscard]] static Numbers Look(const Spec& spec, int64_t word, Instant now,
                                    int64_t cost) noexcept {
    Receipt receipt;
    return Decide(spec, word, now, cost, receipt);
  }
  // Only while the window of the take is the one that is counted.
  static void GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                       Instant now) noexcept;
  // Fills the current window, then the following ones, at most max_debt units of them.
  static void Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept;
  // Takes min(cost, remaining).  allowed: all of `cost`.
  static Numbers TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                          Receipt& receipt) noexcept;
};

}  // namespace flowguard::limit
