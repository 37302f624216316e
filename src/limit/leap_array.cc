// SPDX-License-Identifier: Apache-2.0
#include "limit/leap_array.h"

#include <cstdint>

#include "limit/two_windows_impl.h"

namespace flowguard::limit {

struct LeapEstimate {
  static constexpr int64_t kWindows = 2;

  static int64_t Used(const TwoWindowsSpec& /*spec*/, const WindowPair& pair) noexcept {
    return pair.current + pair.previous;
  }

  static int64_t Room(const TwoWindowsSpec& spec, const WindowPair& pair) noexcept {
    return spec.limit - Used(spec, pair);
  }

  static int64_t RoomAfter(const TwoWindowsSpec& /*spec*/, const WindowPair& /*pair*/, int64_t room,
                           int64_t cost) noexcept {
    return room - cost;
  }

  // The previous half goes first, the current one a half later.
  static Duration RetryAfter(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t cost,
                             Instant now) noexcept {
    const int64_t halves = pair.current + cost <= spec.limit ? 1 : 2;
    return Duration(pair.start_ns + halves * spec.window_ns - Nanos(now));
  }

  static Duration ResetAfter(const TwoWindowsSpec& spec, const WindowPair& pair,
                             int64_t /*remaining*/, Instant now) noexcept {
    return UntilBothArePast(spec, pair, now);
  }
};

template struct TwoWindows<LeapEstimate>;

}  // namespace flowguard::limit
