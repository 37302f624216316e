// SPDX-License-Identifier: Apache-2.0
//
// What token_bucket and leaky_bucket share: reading and moving a theoretical arrival
// time (TAT), the one word of their state.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/numbers.h"
#include "limit/wide.h"

namespace flowguard::limit {

// Result: how far the TAT lies ahead of `now_ns`; 0 when it is in the past.
// A word that a monotone clock cannot have left (beyond step_ns) is first drawn back to
// the horizon: it stays exhausted, but no longer than one horizon from now.
[[nodiscard]] inline int64_t ReadAhead(int64_t& word, int64_t now_ns, int64_t horizon_ns,
                                       int64_t step_ns) noexcept {
  if (word - now_ns > step_ns) [[unlikely]] {
    word = now_ns + horizon_ns;
  }
  return std::max<int64_t>(word - now_ns, 0);
}

// Result: cost * interval, at most `most`.
[[nodiscard]] inline int64_t SpanOf(int64_t cost, int64_t interval_ns, int64_t most) noexcept {
  return std::min(Saturate(static_cast<Int128>(cost) * interval_ns), most);
}

// Draws the word back by what has not drained yet of the take, never below now.
inline void ReturnUndrained(int64_t& word, const Receipt& receipt, int64_t interval_ns,
                            int64_t now_ns) noexcept {
  const int64_t undrained_ns =
      SpanOf(receipt.cost, interval_ns, std::max<int64_t>(receipt.mark - now_ns, 0));
  if (undrained_ns > 0 && word > now_ns) word = std::max(word - undrained_ns, now_ns);
}

// Moves the word ahead by `units`, at most to now + horizon; never back.  A call charges
// by the numbers that it was admitted by: a word beyond their horizon may be that of
// later numbers, not of a clock that stepped back, and is left as it is.
inline void BookCharge(int64_t& word, int64_t units, int64_t interval_ns, int64_t now_ns,
                       int64_t horizon_ns) noexcept {
  const int64_t ahead_ns = std::max<int64_t>(word - now_ns, 0);
  const int64_t room_ns = horizon_ns - ahead_ns;
  if (units <= 0 || room_ns <= 0) return;
  word = now_ns + ahead_ns + SpanOf(units, interval_ns, room_ns);
}

}  // namespace flowguard::limit
