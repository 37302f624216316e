// SPDX-License-Identifier: Apache-2.0
#include "base/tsc.h"

#include <algorithm>
#include <limits>

namespace flowguard::base {
namespace {

constexpr int64_t kMillion = 1'000'000;

}  // namespace

int64_t TscLine::Extrapolate(int64_t start_ns, uint64_t passed, uint64_t slope) noexcept {
  // Ticks that went back show as a huge distance; such a stamp stands still.
  if (passed > uint64_t{1} << 62) return start_ns;
  const Wide ns = (Wide{passed} * slope) >> kSlopeShift;
  const auto room = static_cast<Wide>(std::numeric_limits<int64_t>::max() - start_ns);
  return start_ns + static_cast<int64_t>(std::min(ns, room));
}

void TscLine::Publish(const ClockPair& start, uint64_t slope, uint64_t due_ticks) noexcept {
  const uint64_t version = version_.load(std::memory_order_relaxed) + 1;
  Line& line = lines_[version % kLines];
  // A reader that still holds this line from kLines corrections ago sees another
  // version before it sees another value.
  line.version.store(~uint64_t{0}, std::memory_order_relaxed);
  line.start_ticks.store(start.ticks, std::memory_order_release);
  line.start_ns.store(start.ns, std::memory_order_release);
  line.slope.store(slope, std::memory_order_release);
  line.due_after.store(due_ticks, std::memory_order_release);
  line.version.store(version, std::memory_order_release);
  version_.store(version, std::memory_order_release);
}

bool TscLine::Start(const ClockPair& first, const ClockPair& second, uint64_t due_ticks) noexcept {
  if (second.ticks <= first.ticks || second.ns <= first.ns) return false;
  const uint64_t ticks = second.ticks - first.ticks;
  const Wide slope = (static_cast<Wide>(second.ns - first.ns) << kSlopeShift) / ticks;
  // 1 kHz to 100 GHz; anything else is no time stamp counter.
  if (slope > Wide{kMillion} << kSlopeShift || slope < (Wide{1} << kSlopeShift) / 100) return false;
  first_ = first;
  Publish(second, static_cast<uint64_t>(slope), due_ticks);
  return true;
}

bool TscLine::Correct(const ClockPair& reading, uint64_t due_ticks) noexcept {
  const Line& line = lines_[version_.load(std::memory_order_relaxed) % kLines];
  const uint64_t start = line.start_ticks.load(std::memory_order_relaxed);
  if (reading.ticks <= start || reading.ticks <= first_.ticks || reading.ns <= first_.ns) {
    return false;
  }
  const auto old_slope = static_cast<int64_t>(line.slope.load(std::memory_order_relaxed));
  const int64_t shown = Extrapolate(line.start_ns.load(std::memory_order_relaxed),
                                    reading.ticks - start, static_cast<uint64_t>(old_slope));
  const int64_t behind = reading.ns - shown;
  if (behind > kErrorNsMax || behind < -kErrorNsMax) return false;

  const auto measured = static_cast<int64_t>(
      (static_cast<Wide>(reading.ns - first_.ns) << kSlopeShift) / (reading.ticks - first_.ticks));
  // |behind| < 2^20, so the shift by 32 fits.
  const int64_t bend = (behind * (int64_t{1} << kSlopeShift)) /
                       static_cast<int64_t>(std::max<uint64_t>(due_ticks, 1));
  const int64_t most = std::max<int64_t>(old_slope / kMillion * kSlopeChangePpmMax, 1);
  const int64_t slope = std::clamp(measured + bend, old_slope - most, old_slope + most);
  Publish({reading.ticks, shown}, static_cast<uint64_t>(slope), due_ticks);
  return true;
}

}  // namespace flowguard::base
