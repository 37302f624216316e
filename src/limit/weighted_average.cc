// SPDX-License-Identifier: Apache-2.0
#include "limit/weighted_average.h"

#include <algorithm>
#include <cstdint>

#include "limit/two_windows_impl.h"

namespace flowguard::limit {
namespace {

// Whether the formula itself lets a request go: (e*c + (W-e)*p) / W < limit.
bool BelowAverage(const TwoWindowsSpec& spec, const WindowPair& pair) noexcept {
  const int64_t left_ns = std::max<int64_t>(spec.window_ns - pair.elapsed_ns, 0);
  const Int128 weighted = static_cast<Int128>(pair.elapsed_ns) * pair.current +
                          static_cast<Int128>(left_ns) * pair.previous;
  return weighted < static_cast<Int128>(spec.limit) * spec.window_ns;
}

// The least elapsed time at which e*c + (W-e)*p < limit*W.  Requires: c < limit.
int64_t ElapsedUntil(const TwoWindowsSpec& spec, int64_t current, int64_t previous) noexcept {
  if (previous < spec.limit) return 0;
  return MulDivFloor(previous - spec.limit, spec.window_ns, previous - current) + 1;
}

}  // namespace

struct WeightedEstimate {
  static constexpr int64_t kWindows = 1;
  static constexpr bool kBorrows = false;

  static int64_t Used(const TwoWindowsSpec& /*spec*/, const WindowPair& pair) noexcept {
    return pair.current;
  }

  static int64_t Room(const TwoWindowsSpec& spec, const WindowPair& pair) noexcept {
    return BelowAverage(spec, pair) ? spec.limit - pair.current : 0;
  }

  // What was booked weighs in the average too.
  static int64_t RoomAfter(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t /*room*/,
                           int64_t /*cost*/) noexcept {
    return Room(spec, pair);
  }

  static Duration RetryAfter(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t cost,
                             Instant now) noexcept {
    const int64_t at_ns =
        pair.current + cost <= spec.limit
            ? pair.start_ns + ElapsedUntil(spec, pair.current, pair.previous)
            : pair.start_ns + spec.window_ns + ElapsedUntil(spec, 0, pair.current);
    return Duration(at_ns - Nanos(now));
  }

  static Duration ResetAfter(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t remaining,
                             Instant now) noexcept {
    return remaining < spec.limit ? RetryAfter(spec, pair, spec.limit, now) : Duration{};
  }
};

template struct TwoWindows<WeightedEstimate>;

}  // namespace flowguard::limit
