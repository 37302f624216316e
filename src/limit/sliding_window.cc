// SPDX-License-Identifier: Apache-2.0
#include "limit/sliding_window.h"

#include <algorithm>
#include <cstdint>

#include "limit/two_windows_impl.h"

namespace flowguard::limit {
namespace {

// The least elapsed time at which ceil(count * (W - elapsed) / W) <= most.
// Requires: most >= 0.
int64_t ElapsedUntil(const TwoWindowsSpec& spec, int64_t count, int64_t most) noexcept {
  if (count <= most) return 0;
  return spec.window_ns - MulDivFloor(most, spec.window_ns, count);
}

}  // namespace

struct SlidingEstimate {
  static constexpr int64_t kWindows = 1;
  static constexpr bool kBorrows = false;

  static int64_t Used(const TwoWindowsSpec& spec, const WindowPair& pair) noexcept {
    return pair.current + MulDivCeil(pair.previous,
                                     std::max<int64_t>(spec.window_ns - pair.elapsed_ns, 0),
                                     spec.window_ns);
  }

  static int64_t Room(const TwoWindowsSpec& spec, const WindowPair& pair) noexcept {
    return spec.limit - Used(spec, pair);
  }

  static int64_t RoomAfter(const TwoWindowsSpec& /*spec*/, const WindowPair& /*pair*/, int64_t room,
                           int64_t cost) noexcept {
    return room - cost;
  }

  static Duration RetryAfter(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t cost,
                             Instant now) noexcept {
    const int64_t room = spec.limit - cost - pair.current;
    const int64_t at_ns = room >= 0 ? pair.start_ns + ElapsedUntil(spec, pair.previous, room)
                                    : pair.start_ns + spec.window_ns +
                                          ElapsedUntil(spec, pair.current, spec.limit - cost);
    return Duration(at_ns - Nanos(now));
  }

  static Duration ResetAfter(const TwoWindowsSpec& spec, const WindowPair& pair,
                             int64_t /*remaining*/, Instant now) noexcept {
    return UntilBothArePast(spec, pair, now);
  }
};

template struct TwoWindows<SlidingEstimate>;

}  // namespace flowguard::limit
