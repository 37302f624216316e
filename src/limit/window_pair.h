// SPDX-License-Identifier: Apache-2.0
//
// The state of TwoWindows: the counts of the current and the previous window.  Words:
// [0] window + 1 (0: fresh), [1] current count, [2] previous count; and, where units are
// borrowed, [3] those of the next window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounds.h"
#include "limit/numbers.h"
#include "limit/wide.h"

namespace flowguard::limit {

struct WindowPair {
  static constexpr size_t kWords = 3;
  static constexpr size_t kBorrowingWords = 4;

  int64_t index = 0;
  int64_t current = 0;
  int64_t previous = 0;
  int64_t next = 0;        // booked in the window to come
  int64_t start_ns = 0;    // of window `index`
  int64_t elapsed_ns = 0;  // since then; 0 for a late time stamp
  bool repaired = false;   // the clock stepped back: to be written, whatever is decided

  // The state as it counts now.  The window never moves back for a late time stamp; a
  // step back makes all units count as taken in the current window, at most `most`.
  [[nodiscard]] static WindowPair Read(std::span<const uint64_t> state, int64_t window_ns,
                                       int64_t most, int64_t now_ns) noexcept {
    WindowPair pair;
    const int64_t index = now_ns / window_ns;
    const int64_t stored = static_cast<int64_t>(state[0]) - 1;
    const int64_t current = static_cast<int64_t>(state[1]);
    const int64_t previous = static_cast<int64_t>(state[2]);
    const int64_t next = state.size() > kWords ? static_cast<int64_t>(state[3]) : 0;
    pair.index = index;
    if (stored > index && stored * window_ns - now_ns > base::kLateStampMax.count()) {
      pair.current = std::min(current + previous + next, most);
      pair.repaired = true;
    } else if (stored >= index) {
      pair.index = stored;
      pair.current = current;
      pair.previous = previous;
      pair.next = next;
    } else if (stored >= 0 && stored == index - 1) {
      pair.previous = current;
      pair.current = next;
    } else if (stored >= 0 && stored == index - 2) {
      pair.previous = next;
    }
    pair.start_ns = pair.index * window_ns;
    pair.elapsed_ns = std::max<int64_t>(now_ns - pair.start_ns, 0);
    return pair;
  }

  void Write(std::span<uint64_t> state) const noexcept {
    state[0] = static_cast<uint64_t>(index + 1);
    state[1] = static_cast<uint64_t>(current);
    state[2] = static_cast<uint64_t>(previous);
    if (state.size() > kWords) state[3] = static_cast<uint64_t>(next);
  }

  // Takes receipt.cost units back where their window is still counted.
  void GiveBack(const Receipt& receipt) noexcept {
    if (receipt.cost <= 0) return;
    if (receipt.mark == index + 1) next -= std::min(receipt.cost, next);
    if (receipt.mark == index) current -= std::min(receipt.cost, current);
    if (receipt.mark == index - 1) previous -= std::min(receipt.cost, previous);
  }

  // When a state equals a fresh one.
  [[nodiscard]] static Instant KeepUntil(std::span<const uint64_t> state,
                                         int64_t window_ns) noexcept {
    const int64_t following = static_cast<int64_t>(state[0]);
    if (state.size() > kWords && state[3] > 0)
      return Instant(Duration((following + 2) * window_ns));
    if (state[1] > 0) return Instant(Duration((following + 1) * window_ns));
    if (state[2] > 0) return Instant(Duration(following * window_ns));
    return Instant{};
  }
};

}  // namespace flowguard::limit
