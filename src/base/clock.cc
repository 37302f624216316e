// SPDX-License-Identifier: Apache-2.0
//
// The only file that reads clocks.
#include "flowguard/clock.h"

#include <ctime>

namespace flowguard {
namespace {

int64_t ReadNs(clockid_t id) noexcept {
  timespec ts{};
  clock_gettime(id, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;
constexpr int64_t kWeekNs = 7 * kDayNs;

// Nanoseconds from the epoch of Instant to the zero of CLOCK_MONOTONIC.  1970-01-05
// was a Monday.
int64_t EpochOffsetNs() noexcept {
  const int64_t wall = ReadNs(CLOCK_REALTIME);
  const int64_t since_monday = (wall - 4 * kDayNs) % kWeekNs;
  return since_monday + kWeekNs - ReadNs(CLOCK_MONOTONIC);
}

class ProcessClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const noexcept override {
    return Instant(Duration(ReadNs(CLOCK_MONOTONIC) + offset_ns_));
  }
  [[nodiscard]] WallTime WallNow() const noexcept override {
    return WallTime(Duration(ReadNs(CLOCK_REALTIME)));
  }

 private:
  const int64_t offset_ns_ = EpochOffsetNs();
};

}  // namespace

const Clock& SystemClock() noexcept {
  static const ProcessClock clock;
  return clock;
}

}  // namespace flowguard
