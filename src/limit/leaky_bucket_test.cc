// SPDX-License-Identifier: Apache-2.0
#include "limit/leaky_bucket.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

TestCell Queue(Rate rate, Duration wait = {}, int64_t max_debt = 0) {
  return TestCell(Algorithm::kLeakyBucket, {.rate = rate, .wait = wait, .max_debt = max_debt});
}

TEST(LeakyBucketTest, RequestsLeaveOneIntervalApart) {
  TestCell cell = Queue({10, seconds(1)}, milliseconds(500));
  for (int64_t turn = 0; turn <= 5; ++turn) {
    EXPECT_EQ(cell.Decide(0, 1).wait, milliseconds(100 * turn));
  }
  const Numbers refused = cell.Decide(0, 1);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.retry_after, milliseconds(100));
}

TEST(LeakyBucketTest, TheLastOfSeveralUnitsDecidesTheDelay) {
  TestCell cell = Queue({10, seconds(1)}, milliseconds(500));
  EXPECT_EQ(cell.Decide(0, 3).wait, milliseconds(200));
  EXPECT_EQ(cell.Decide(0, 2).wait, milliseconds(400));
  EXPECT_FALSE(cell.Decide(0, 2).allowed);
}

TEST(LeakyBucketTest, ARequestLongerThanTheWaitCanNeverGo) {
  TestCell cell = Queue({10, seconds(1)}, milliseconds(500));
  EXPECT_EQ(cell.Decide(0, 7).retry_after, kNever);
  EXPECT_TRUE(cell.Decide(0, 6).allowed);
}

// Ruled out: an over-large request at the head that blocks those behind it.
TEST(LeakyBucketTest, AnImpossibleRequestTakesNoPlaceInTheQueue) {
  TestCell cell = Queue({10, seconds(1)}, milliseconds(900));
  EXPECT_FALSE(cell.Decide(0, 15).allowed);
  EXPECT_EQ(cell.Decide(0, 1).wait, milliseconds(0));
}

TEST(LeakyBucketTest, RemainingIsTheLargestRequestThatItWouldTakeNow) {
  TestCell cell = Queue({10, seconds(1)}, milliseconds(550));
  EXPECT_EQ(cell.Look(0, 0).limit, 6);
  EXPECT_EQ(cell.Decide(0, 2).remaining, 4);
  EXPECT_TRUE(cell.Look(0, 4).allowed);
  EXPECT_FALSE(cell.Look(0, 5).allowed);
}

// Ruled out: credit for idleness in a mode that is to be smooth.
TEST(LeakyBucketTest, APauseEarnsNoBurst) {
  TestCell cell = Queue({1, seconds(1)}, seconds(10));
  for (const int64_t at : {int64_t{0}, 40 * kSecond}) {
    EXPECT_EQ(cell.Decide(at, 1).wait, seconds(0));
    EXPECT_EQ(cell.Decide(at, 1).wait, seconds(1));
    EXPECT_EQ(cell.Decide(at, 1).wait, seconds(2));
  }
}

// Ruled out: whole-millisecond spacing that is wrong, or no limit, at high rates.
TEST(LeakyBucketTest, PassesTheRateWithinOnePercentAlsoAboveOneThousandASecond) {
  for (const int64_t rate : {1500, 2000, 5000}) {
    TestCell cell = Queue({rate, seconds(1)}, milliseconds(500));
    int64_t left = 0;
    for (int64_t at = 0; at < 4 * kSecond; at += 100'000) {
      const Numbers numbers = cell.Decide(at, 1);
      const int64_t leaves_at = at + numbers.wait.count();
      left += numbers.allowed && leaves_at >= kSecond && leaves_at < 3 * kSecond ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(left), static_cast<double>(2 * rate),
                static_cast<double>(rate) / 50);
  }
}

// Ruled out: a full refill at the end of each period.
TEST(LeakyBucketTest, DrainsEvenlyAndNotByPeriods) {
  TestCell cell = Queue({3, seconds(1)}, milliseconds(700));
  int64_t admitted = 0;
  int64_t stock = cell.Look(0, 0).remaining;
  for (int64_t at = 0; at < 10 * kSecond; at += 100 * kMs) {
    const int64_t before = cell.Look(at, 0).remaining;
    EXPECT_LE(before - stock, 1);
    admitted += cell.Decide(at, 1).allowed ? 1 : 0;
    stock = cell.Look(at, 0).remaining;
  }
  EXPECT_LE(admitted, 33);
}

// Ruled out: reset told for one unit however many are queued.
TEST(LeakyBucketTest, ResetIsTheTimeUntilTheQueueIsEmpty) {
  TestCell cell = Queue({10, seconds(30)}, minutes(1));
  EXPECT_EQ(cell.Decide(0, 5).reset_after, seconds(15));
}

// Ruled out: a leak that each hit starts anew.
TEST(LeakyBucketTest, ThePartialLeakIsKeptBetweenHits) {
  TestCell cell = Queue({10, seconds(30)}, seconds(27));
  for (int64_t second = 0; second < 9; ++second)
    cell.Decide(second * kSecond, 1);
  EXPECT_EQ(cell.Decide(9 * kSecond, 1).remaining, 3);
}

TEST(LeakyBucketTest, WithoutAWaitOnlyOneUnitGoesAtATime) {
  TestCell cell = Queue({10, seconds(1)});
  EXPECT_TRUE(cell.Decide(0, 1).allowed);
  EXPECT_EQ(cell.Decide(0, 1).retry_after, milliseconds(100));
  EXPECT_EQ(cell.Decide(0, 2).retry_after, kNever);
}

TEST(LeakyBucketTest, ALimitOfZeroRefusesEverythingButAPeek) {
  TestCell cell = Queue({0, seconds(1)}, seconds(1));
  EXPECT_EQ(cell.Decide(0, 1).retry_after, kNever);
  EXPECT_TRUE(cell.Decide(0, 0).allowed);
}

TEST(LeakyBucketTest, ATurnIsGivenBackOnlyWhileNobodyIsBehind) {
  TestCell cell = Queue({10, seconds(1)}, seconds(1));
  cell.Decide(0, 1);
  cell.Decide(0, 1);
  const Receipt second = cell.receipt();
  cell.Decide(0, 1);
  const Receipt third = cell.receipt();

  cell.GiveBack(0, second);
  EXPECT_EQ(cell.Look(0, 0).reset_after, milliseconds(300));
  cell.GiveBack(0, third);
  EXPECT_EQ(cell.Look(0, 0).reset_after, milliseconds(200));
}

TEST(LeakyBucketTest, ChargedUnitsAreQueuedUpToTheDebt) {
  TestCell cell = Queue({10, seconds(1)}, milliseconds(100), 5);
  cell.Charge(0, 3);
  EXPECT_EQ(cell.Look(0, 1).retry_after, milliseconds(200));
  cell.Charge(0, 1000);
  EXPECT_EQ(cell.Look(0, 0).reset_after, milliseconds(700));
}

TEST(LeakyBucketTest, TakesUpToWhatFits) {
  TestCell cell = Queue({10, seconds(1)}, milliseconds(500));
  cell.Decide(0, 4);
  EXPECT_FALSE(cell.TakeUpTo(0, 5).allowed);
  EXPECT_EQ(cell.receipt().cost, 2);
  EXPECT_EQ(cell.Look(0, 0).remaining, 0);
}

TEST(LeakyBucketTest, AChangedRateKeepsTheQueueInTime) {
  TestCell cell = Queue({5, seconds(1)}, milliseconds(200));
  cell.Decide(0, 2);
  cell.Reload({.rate = {10, seconds(1)}, .wait = milliseconds(200)});
  EXPECT_EQ(cell.Decide(200 * kMs, 1).wait, milliseconds(200));
}

}  // namespace
}  // namespace flowguard::limit
