// SPDX-License-Identifier: Apache-2.0
#include "limit/leap_array.h"

#include <algorithm>
#include <cstdint>

#include "limit/two_windows_impl.h"

namespace flowguard::limit {

struct LeapEstimate {
  static constexpr int64_t kWindows = 2;
  static constexpr bool kBorrows = true;

  // What is borrowed will count beside the current half.
  static int64_t Used(const TwoWindowsSpec& /*spec*/, const WindowPair& pair) noexcept {
    return pair.current + std::max(pair.previous, pair.next);
  }

  static int64_t Room(const TwoWindowsSpec& spec, const WindowPair& pair) noexcept {
    return spec.limit - Used(spec, pair);
  }

  static int64_t RoomAfter(const TwoWindowsSpec& /*spec*/, const WindowPair& /*pair*/, int64_t room,
                           int64_t cost) noexcept {
    return room - cost;
  }

  // How many halves on what is counted then, the half before it among that, leaves room.
  static int64_t HalvesUntilRoom(const TwoWindowsSpec& spec, const WindowPair& pair,
                                 int64_t cost) noexcept {
    const int64_t room = spec.limit - cost;
    if (pair.current + pair.next <= room) return 1;
    return pair.next <= room ? 2 : 3;
  }

  // The previous half goes first, the current one a half later, what was borrowed last.
  static Duration RetryAfter(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t cost,
                             Instant now) noexcept {
    const int64_t halves = HalvesUntilRoom(spec, pair, cost);
    return Duration(pair.start_ns + halves * spec.window_ns - Nanos(now));
  }

  // It is booked in the half before there is room, once that is about to end.
  static Duration RetryBorrowing(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t cost,
                                 Instant now) noexcept {
    const int64_t half_ns = spec.window_ns;
    const int64_t begin_ns = pair.start_ns + HalvesUntilRoom(spec, pair, cost) * half_ns;
    return Duration(begin_ns - std::min(half_ns, spec.borrow_ns - 1) - Nanos(now));
  }

  static Duration ResetAfter(const TwoWindowsSpec& spec, const WindowPair& pair,
                             int64_t /*remaining*/, Instant now) noexcept {
    return UntilBothArePast(spec, pair, now);
  }
};

template struct TwoWindows<LeapEstimate>;

}  // namespace flowguard::limit
