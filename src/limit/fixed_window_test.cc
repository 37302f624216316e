// SPDX-License-Identifier: Apache-2.0
#include "limit/fixed_window.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHour = 3600 * kSecond;

TestCell Window(int64_t limit, Duration window, int64_t max_debt = 0) {
  return TestCell(Algorithm::kFixedWindow, {.rate = {limit, window}, .max_debt = max_debt});
}

// Ruled out: one unit more or less than the limit.
TEST(FixedWindowTest, AdmitsExactlyTheLimit) {
  TestCell cell = Window(3, minutes(1));
  for (int64_t call = 1; call <= 7; ++call) {
    EXPECT_EQ(cell.Decide(kSecond, 1).allowed, call <= 3) << call;
  }
}

TEST(FixedWindowTest, TwiceTheLimitPassesAroundABoundary) {
  TestCell cell = Window(10, minutes(1));
  int admitted = 0;
  for (int call = 0; call < 10; ++call)
    admitted += cell.Decide(59'999 * kMs, 1).allowed ? 1 : 0;
  for (int call = 0; call < 10; ++call)
    admitted += cell.Decide(60'001 * kMs, 1).allowed ? 1 : 0;
  EXPECT_EQ(admitted, 20);
}

TEST(FixedWindowTest, ResetAndRetryAreTheEndOfTheWindow) {
  TestCell cell = Window(2, minutes(1));
  EXPECT_EQ(cell.Decide(10 * kSecond, 2).reset_after, seconds(50));
  EXPECT_EQ(cell.Decide(20 * kSecond, 1).retry_after, seconds(40));
  EXPECT_EQ(cell.Decide(20 * kSecond, 3).retry_after, kNever);
}

// Ruled out: hits that push the end of the window before them.
TEST(FixedWindowTest, AClientBelowItsRateIsNeverLockedOut) {
  TestCell cell = Window(120, minutes(1));
  for (int64_t call = 0; call < 240; ++call) {
    EXPECT_TRUE(cell.Decide(call * 30 * kSecond, 1).allowed);
  }
}

// Ruled out: reset test and reset action that disagree about the day.
TEST(FixedWindowTest, ADayIsResetExactlyOnceAtMidnight) {
  TestCell cell = Window(100, hours(24));
  const int64_t day = 24 * kHour;
  EXPECT_TRUE(cell.Decide(7 * day + 20 * kHour, 100).allowed);
  int64_t admitted = 0;
  for (const int64_t minute : {5, 10, 19 * 60}) {
    for (int call = 0; call < 50; ++call) {
      admitted += cell.Decide(8 * day + minute * 60 * kSecond, 1).allowed ? 1 : 0;
    }
  }
  EXPECT_EQ(admitted, 100);
}

TEST(FixedWindowTest, TheWordIsAnInstantJustAfterTheWindow) {
  TestCell cell = Window(5, seconds(1));
  cell.Decide(7 * kSecond + 1, 2);
  EXPECT_EQ(cell.KeepUntil(), 8 * kSecond + 2);
  cell.Decide(7 * kSecond + 2, 3);
  EXPECT_EQ(cell.KeepUntil(), 8 * kSecond + 5);
}

TEST(FixedWindowTest, ALimitAsLargeAsTheWindowInNanosecondsFitsTheWord) {
  TestCell cell = Window(1'000'000, milliseconds(1));
  EXPECT_TRUE(cell.Decide(5 * kMs, 1'000'000).allowed);
  EXPECT_EQ(cell.Look(5 * kMs, 0).remaining, 0);
  EXPECT_EQ(cell.Look(6 * kMs, 0).remaining, 1'000'000);
}

TEST(FixedWindowTest, ALimitOfZeroRefusesEverything) {
  TestCell cell = Window(0, seconds(1));
  EXPECT_EQ(cell.Decide(kSecond, 1).retry_after, kNever);
  cell.Charge(kSecond, 5);
  EXPECT_EQ(cell.state()[0], 0u);
}

// Two threads at a boundary: the later stamp came first.
TEST(FixedWindowTest, AStampJustBeforeTheNewestWindowTakesFromThatWindow) {
  TestCell cell = Window(2, seconds(1));
  EXPECT_TRUE(cell.Decide(2 * kSecond, 1).allowed);
  EXPECT_TRUE(cell.Decide(2 * kSecond - 1000, 1).allowed);
  EXPECT_EQ(cell.Decide(2 * kSecond - 1000, 1).retry_after, nanoseconds(kSecond + 1000));
}

TEST(FixedWindowTest, AfterAStepBackTheCurrentWindowIsFullAndTheNextIsNot) {
  TestCell cell = Window(2, seconds(1));
  cell.Decide(48 * kHour, 1);
  const Numbers refused = cell.Decide(24 * kHour, 1);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.retry_after, seconds(1));
  EXPECT_TRUE(cell.Decide(24 * kHour + kSecond, 2).allowed);
}

TEST(FixedWindowTest, AChargeBeyondTheLimitFillsTheNextWindows) {
  TestCell cell = Window(10, seconds(1), 25);
  cell.Decide(0, 4);
  cell.Charge(0, 18);  // 10 now, 10 in the next, 2 in the one after
  EXPECT_EQ(cell.Look(0, 1).retry_after, seconds(2));
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 0);
  EXPECT_EQ(cell.Look(2 * kSecond, 0).remaining, 8);
  EXPECT_EQ(cell.Look(3 * kSecond, 0).remaining, 10);
}

TEST(FixedWindowTest, ChargesStopAtTheMaximumDebt) {
  TestCell cell = Window(10, seconds(1), 25);
  cell.Charge(0, 1'000'000);
  EXPECT_EQ(cell.Look(3 * kSecond, 0).remaining, 5);
}

TEST(FixedWindowTest, AGiveBackCountsOnlyInItsOwnWindow) {
  TestCell cell = Window(5, seconds(1));
  cell.Decide(0, 3);
  const Receipt receipt = cell.receipt();
  cell.GiveBack(kSecond - 1, receipt);
  EXPECT_EQ(cell.Look(kSecond - 1, 0).remaining, 5);
  cell.Decide(kSecond, 2);
  cell.GiveBack(kSecond, receipt);
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 3);
}

// A call that was admitted at 10/h settles on a cell that holds 60 of 100/h by now.
TEST(FixedWindowTest, SettlingByOlderNumbersKeepsTheCountOfTheLaterOnes) {
  const AnySpec later = TestCell::MustMake(Algorithm::kFixedWindow, {.rate = {100, hours(1)}});
  for (const int64_t max_debt : {0, 100}) {
    const AnySpec older =
        TestCell::MustMake(Algorithm::kFixedWindow, {.rate = {10, hours(1)}, .max_debt = max_debt});
    int64_t word = 0;
    Receipt receipt;
    Receipt of_later;
    ASSERT_TRUE(older.Decide(word, TestCell::At(kSecond), 5, receipt).allowed);
    ASSERT_TRUE(later.Decide(word, TestCell::At(kSecond), 60, of_later).allowed);

    receipt.cost = 4;
    older.GiveBack(word, receipt, TestCell::At(kSecond));
    EXPECT_EQ(later.Look(word, TestCell::At(kSecond), 0).remaining, 39);
    older.Charge(word, 10, TestCell::At(kSecond));
    EXPECT_EQ(later.Look(word, TestCell::At(kSecond), 0).remaining, max_debt == 0 ? 39 : 29);
  }
}

TEST(FixedWindowTest, TakesUpToWhatIsLeft) {
  TestCell cell = Window(5, seconds(1));
  const Numbers numbers = cell.TakeUpTo(0, 8);
  EXPECT_FALSE(numbers.allowed);
  EXPECT_EQ(numbers.remaining, 0);
  EXPECT_EQ(cell.receipt().cost, 5);
}

TEST(FixedWindowTest, ALoweredLimitNeverShowsANegativeRest) {
  TestCell cell = Window(100, minutes(1));
  cell.Decide(kSecond, 80);
  cell.Reload({.rate = {50, minutes(1)}});
  EXPECT_EQ(cell.Look(kSecond, 1).remaining, 0);
  EXPECT_EQ(cell.Look(kSecond, 1).retry_after, seconds(59));
}

TEST(FixedWindowTest, ARaisedLimitAddsToWhatIsLeft) {
  TestCell cell = Window(100, minutes(1));
  cell.Decide(kSecond, 100);
  cell.Reload({.rate = {150, minutes(1)}});
  EXPECT_EQ(cell.Look(kSecond, 1).remaining, 49);
}

}  // namespace
}  // namespace flowguard::limit
