// SPDX-License-Identifier: Apache-2.0
#include "limit/sliding_log.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86'400 * kSecond;

TestCell Log(int64_t limit, Duration window, int64_t max_debt = 0) {
  return TestCell(Algorithm::kSlidingLog, {.rate = {limit, window}, .max_debt = max_debt});
}

// Ruled out: twice the limit across a window boundary.
TEST(SlidingLogTest, ABurstAtABoundaryGetsTheLimitOnce) {
  TestCell cell = Log(10, minutes(1));
  int admitted = 0;
  for (int call = 0; call < 10; ++call)
    admitted += cell.Decide(59'999 * kMs, 1).allowed ? 1 : 0;
  for (int call = 0; call < 10; ++call)
    admitted += cell.Decide(60'001 * kMs, 1).allowed ? 1 : 0;
  EXPECT_EQ(admitted, 10);
  EXPECT_EQ(cell.Decide(60'001 * kMs, 1).retry_after.count(), 59'998 * kMs);
  EXPECT_TRUE(cell.Decide(119'999 * kMs, 1).allowed);
}

// Ruled out: a window end that every hit pushes before it.
TEST(SlidingLogTest, AClientBelowItsRateIsNeverRefused) {
  TestCell cell = Log(2, seconds(6));
  for (int64_t second = 0; second <= 60; second += 5) {
    EXPECT_TRUE(cell.Decide(second * kSecond, 1).allowed) << second;
  }
}

TEST(SlidingLogTest, RefusalsAreNotCountedSoAHammeringClientGetsItsRate) {
  TestCell cell = Log(5, seconds(10));
  int admitted = 0;
  for (int64_t second = 0; second < 60; ++second) {
    admitted += cell.Decide(second * kSecond, 1).allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 30);
}

TEST(SlidingLogTest, RetryIsWhenTheNthOldestUnitLeaves) {
  TestCell cell = Log(3, seconds(10));
  cell.Decide(0, 1);
  cell.Decide(2 * kSecond, 1);
  cell.Decide(5 * kSecond, 1);
  EXPECT_EQ(cell.Decide(6 * kSecond, 1).retry_after, seconds(4));
  EXPECT_EQ(cell.Decide(6 * kSecond, 2).retry_after, seconds(6));
  EXPECT_EQ(cell.Decide(6 * kSecond, 3).retry_after, seconds(9));
  EXPECT_EQ(cell.Decide(6 * kSecond, 4).retry_after, kNever);
  EXPECT_EQ(cell.Look(6 * kSecond, 0).reset_after, seconds(9));
}

TEST(SlidingLogTest, AUnitLeavesTheWindowAtExactlyItsEnd) {
  TestCell cell = Log(1, seconds(1));
  cell.Decide(5, 1);
  EXPECT_FALSE(cell.Decide(kSecond + 4, 1).allowed);
  EXPECT_TRUE(cell.Decide(kSecond + 5, 1).allowed);
}

// The first-ever call may be too large; later ones are not refused for it.
TEST(SlidingLogTest, AFirstCallAboveTheLimitIsRefusedAndCostsNothing) {
  TestCell cell = Log(5, seconds(10));
  EXPECT_EQ(cell.Decide(9'900 * kMs, 6).retry_after, kNever);
  EXPECT_TRUE(cell.Decide(9'900 * kMs, 5).allowed);
  EXPECT_EQ(cell.Decide(10'100 * kMs, 5).retry_after.count(), 9'800 * kMs);
}

TEST(SlidingLogTest, ALateStampKeepsTheLogSorted) {
  TestCell cell = Log(3, seconds(1));
  cell.Decide(5 * kSecond, 1);
  EXPECT_TRUE(cell.Decide(5 * kSecond - 400 * kMs, 1).allowed);
  EXPECT_EQ(cell.Look(6 * kSecond - 1, 0).remaining, 1);
  EXPECT_EQ(cell.Look(6 * kSecond, 0).remaining, 3);
}

TEST(SlidingLogTest, AfterAStepBackOneWindowIsTheLongestLockOut) {
  TestCell cell = Log(2, seconds(1));
  cell.Decide(9 * kDay, 2);
  EXPECT_EQ(cell.Decide(8 * kDay, 1).retry_after, seconds(1));
  EXPECT_TRUE(cell.Decide(8 * kDay + kSecond, 2).allowed);
}

TEST(SlidingLogTest, AGiveBackRemovesItsOwnUnitsWhileTheyAreInTheWindow) {
  TestCell cell = Log(4, seconds(1));
  cell.Decide(0, 2);
  const Receipt first = cell.receipt();
  cell.Decide(300 * kMs, 2);
  cell.GiveBack(400 * kMs, first);
  EXPECT_EQ(cell.Look(400 * kMs, 0).remaining, 2);
  EXPECT_EQ(cell.Look(400 * kMs, 0).reset_after.count(), 900 * kMs);
  cell.GiveBack(kSecond, first);
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 2);
}

TEST(SlidingLogTest, AGiveBackAfterTheWindowReturnsNothing) {
  TestCell cell = Log(2, seconds(1));
  cell.Decide(0, 2);
  const Receipt old = cell.receipt();
  cell.Decide(kSecond, 2);
  cell.GiveBack(kSecond, old);
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 0);
}

TEST(SlidingLogTest, DebtTakesSlotsAsTheyFree) {
  TestCell cell = Log(2, seconds(1), 3);
  cell.Decide(0, 1);
  cell.Decide(100 * kMs, 1);
  cell.Charge(200 * kMs, 3);  // takes the slots of 1.0 s, 1.1 s and, again, 2.0 s
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 0);
  EXPECT_EQ(cell.Look(200 * kMs, 1).retry_after.count(), 1'900 * kMs);
  EXPECT_FALSE(cell.Decide(2'100 * kMs - 1, 1).allowed);
  EXPECT_TRUE(cell.Decide(2'100 * kMs, 1).allowed);
}

TEST(SlidingLogTest, AChargeTakesFreeSlotsFirstAndStopsAtTheMaximumDebt) {
  TestCell cell = Log(3, seconds(1), 1);
  cell.Decide(0, 1);
  cell.Charge(0, 1'000'000);
  EXPECT_EQ(cell.Look(0, 1).retry_after, seconds(1));
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 2);
}

TEST(SlidingLogTest, ALimitOfZeroRefusesEverything) {
  TestCell cell = Log(0, seconds(1));
  EXPECT_EQ(cell.Decide(0, 1).retry_after, kNever);
  EXPECT_TRUE(cell.Decide(0, 0).allowed);
  cell.Charge(0, 3);
}

// Memory per key is bounded by the limit, and so the limit is bounded.
TEST(SlidingLogTest, TheLargestLimitIsStated) {
  EXPECT_TRUE(SlidingLog::Make({.rate = {100'000, minutes(1)}}).ok());
  const auto refused = SlidingLog::Make({.rate = {100'001, minutes(1)}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().message,
      "limit: found 100001; allowed 0 to 100000 units with sliding_log (8 bytes each, a key)");
}

TEST(SlidingLogTest, AnotherLimitAdoptsWhatIsUsed) {
  TestCell cell = Log(10, seconds(1));
  cell.Decide(0, 4);
  cell.Reload({.rate = {6, seconds(1)}});
  EXPECT_EQ(cell.Look(100 * kMs, 0).remaining, 2);
  EXPECT_EQ(cell.Look(1'100 * kMs, 0).remaining, 6);
}

TEST(SlidingLogTest, AHigherLimitGivesAnExhaustedLogWhatItAddsAtOnce) {
  TestCell cell = Log(3, seconds(1));
  cell.Decide(0, 2);
  cell.Decide(300 * kMs, 1);
  cell.Reload({.rate = {5, seconds(1)}});
  EXPECT_EQ(cell.Look(500 * kMs, 0).remaining, 2);
  EXPECT_EQ(cell.Look(999 * kMs, 0).remaining, 2);
  EXPECT_EQ(cell.Look(1'000 * kMs, 0).remaining, 4) << "old units leave when they would have";
  EXPECT_EQ(cell.Look(1'300 * kMs, 0).remaining, 5);
}

TEST(SlidingLogTest, ALowerLimitKeepsAnExhaustedLogExhaustedUntilItsLatestUnitsLeave) {
  TestCell cell = Log(3, seconds(1));
  cell.Decide(0, 1);
  cell.Decide(400 * kMs, 2);
  cell.Reload({.rate = {2, seconds(1)}});
  EXPECT_FALSE(cell.Look(1'399 * kMs, 1).allowed);
  EXPECT_EQ(cell.Look(1'400 * kMs, 0).remaining, 2);
}

TEST(SlidingLogTest, DebtTakesWhatAHigherLimitAdds) {
  TestCell cell(Algorithm::kSlidingLog, {.rate = {3, seconds(1)}, .max_debt = 2});
  cell.Decide(0, 3);
  cell.Charge(0, 2);
  cell.Reload({.rate = {6, seconds(1)}, .max_debt = 2});
  EXPECT_EQ(cell.Look(100 * kMs, 0).remaining, 1);
}

}  // namespace
}  // namespace flowguard::limit
