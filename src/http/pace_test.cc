// SPDX-License-Identifier: Apache-2.0
#include "http/pace.h"

#include <gtest/gtest.h>

namespace flowguard::http {
namespace {

using std::chrono::seconds;

constexpr Duration kIdle = seconds(30);
constexpr Instant kStart{Duration(seconds(1'000))};

TEST(PaceTest, WhoMovesNothingHasTheIdleTime) {
  Pace pace;
  pace.Begin(kStart, kIdle);

  EXPECT_EQ(pace.until(), kStart + kIdle);
}

TEST(PaceTest, ABytePutsTheEndOffByItsShareOfTheRateOnly) {
  Pace pace;
  pace.Begin(kStart, kIdle);
  for (int second = 1; second < 30; ++second)
    pace.Add(1, kStart + seconds(second), kIdle);

  EXPECT_LT(pace.until(), kStart + kIdle + seconds(1));
}

TEST(PaceTest, WhoKeepsTheRateIsNeverCutOffAndNeverHasMoreThanTheIdleTime) {
  Pace pace;
  pace.Begin(kStart, kIdle);
  for (int turn = 1; turn < 1'000; ++turn) {
    const Instant now = kStart + turn * seconds(20);
    ASSERT_GE(pace.until(), now) << turn;
    pace.Add(20 * base::kTransferRateMin + 1, now, kIdle);
    ASSERT_LE(pace.until(), now + kIdle) << turn;
  }
}

TEST(PaceTest, ManyBytesAtOnceAreWorthTheIdleTime) {
  Pace pace;
  pace.Begin(kStart, kIdle);
  pace.Add(size_t{1} << 62, kStart + seconds(1), kIdle);

  EXPECT_EQ(pace.until(), kStart + seconds(1) + kIdle);
}

}  // namespace
}  // namespace flowguard::http
