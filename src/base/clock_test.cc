// SPDX-License-Identifier: Apache-2.0
#include "flowguard/clock.h"

#include <ctime>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/system_now.h"

namespace flowguard {
namespace {

int64_t KernelNs() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

TEST(SystemClockTest, NeverGoesBackOnOneThreadWhileOthersReadAndCorrectIt) {
  std::vector<std::thread> threads;
  std::atomic<int> backward{0};
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&backward] {
      Instant last = base::SystemNow();
      for (int j = 0; j < 300'000; ++j) {
        const Instant now = base::SystemNow();
        if (now < last) backward.fetch_add(1);
        last = now;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(backward.load(), 0);
}

TEST(SystemClockTest, RunsAsFastAsTheKernelsClock) {
  const int64_t kernel_start = KernelNs();
  const Instant start = SystemClock().Now();

  int64_t kernel_passed = 0;
  while (kernel_passed < 30'000'000)
    kernel_passed = KernelNs() - kernel_start;
  const Duration passed = SystemClock().Now() - start;

  EXPECT_NEAR(static_cast<double>(passed.count()), static_cast<double>(kernel_passed), 3e6);
}

// Daily and weekly windows start at midnight UTC, and on Monday.
TEST(SystemClockTest, EpochIsAMondayAtMidnight) {
  constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;
  const Instant now = SystemClock().Now();
  const WallTime wall = SystemClock().WallNow();

  const Duration epoch = wall.time_since_epoch() - now.time_since_epoch();
  const int64_t into_week = (epoch.count() - 4 * kDayNs) % (7 * kDayNs);
  const int64_t off = std::min(into_week, 7 * kDayNs - into_week);

  EXPECT_LT(off, int64_t{1'000'000'000});
  EXPECT_GE(now.time_since_epoch().count(), 7 * kDayNs);
  EXPECT_LT(now.time_since_epoch().count(), 15 * kDayNs);
}

TEST(SystemClockTest, SleepUntilThePastReturnsAtOnce) {
  const Instant now = SystemClock().Now();

  SystemClock().SleepUntil(now - std::chrono::hours(1));

  EXPECT_LT(SystemClock().Now() - now, std::chrono::seconds(5));
}

}  // namespace
}  // namespace flowguard
