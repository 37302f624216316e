// SPDX-License-Identifier: Apache-2.0
//
// Prioritised requests that take units to come, of the algorithms that lend them.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "limit/borrowing_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStart = int64_t{86'400'000} * kMs;  // a whole minute, as in the vectors
constexpr int64_t kRefused = -1;

BorrowingCell PerSecond(Algorithm algorithm, int64_t limit,
                        milliseconds borrow = milliseconds(500)) {
  const int buckets = algorithm == Algorithm::kSlidingBuckets ? 10 : 0;
  return BorrowingCell(algorithm,
                       {.rate = {limit, seconds(1)}, .buckets = buckets, .borrow = borrow});
}

// The wait of a prioritised request in ms, rounded up; or kRefused.
int64_t WaitMs(BorrowingCell& cell, int64_t at_ms, int64_t cost = 1) {
  const Numbers numbers = cell.Decide(kStart + at_ms * kMs, cost, true);
  return numbers.allowed ? (numbers.wait.count() + kMs - 1) / kMs : kRefused;
}

int64_t Greedy(BorrowingCell& cell, int64_t at_ms) {
  int64_t passed = 0;
  while (cell.Decide(kStart + at_ms * kMs, 1, false).allowed)
    ++passed;
  return passed;
}

// A full window at one instant, and a prioritised request at another.
struct FullThenAsk {
  int64_t filled_at_ms;
  int64_t asked_at_ms;
  int64_t leap_array_ms;  // as observed on Sentinel itself (V11 to V14)
  int64_t sliding_log_ms;
};
class BorrowVectors : public testing::TestWithParam<FullThenAsk> {};

TEST_P(BorrowVectors, WaitsForTheWindowToCome) {
  const FullThenAsk& at = GetParam();
  BorrowingCell halves = PerSecond(Algorithm::kLeapArray, 10);
  EXPECT_EQ(Greedy(halves, at.filled_at_ms), 10);
  EXPECT_EQ(WaitMs(halves, at.asked_at_ms), at.leap_array_ms);
  BorrowingCell log = PerSecond(Algorithm::kSlidingLog, 10);
  EXPECT_EQ(Greedy(log, at.filled_at_ms), 10);
  EXPECT_EQ(WaitMs(log, at.asked_at_ms), at.sliding_log_ms);
}
INSTANTIATE_TEST_SUITE_P(V11ToV14, BorrowVectors,
                         testing::Values(FullThenAsk{0, 0, kRefused, kRefused},
                                         FullThenAsk{0, 700, 300, 300},
                                         FullThenAsk{300, 999, 1, 301},
                                         FullThenAsk{600, 900, kRefused, kRefused}));

TEST(BorrowTest, V15TheWindowToComeIsLentOnce) {
  BorrowingCell halves = PerSecond(Algorithm::kLeapArray, 10);
  EXPECT_EQ(Greedy(halves, 100), 10);
  std::vector<int64_t> waits;
  for (int i = 0; i < 12; ++i)
    waits.push_back(WaitMs(halves, 700));
  EXPECT_EQ(waits, (std::vector<int64_t>{300, 300, 300, 300, 300, 300, 300, 300, 300, 300, kRefused,
                                         kRefused}));
  // What was lent counts in the half that it was lent from.
  EXPECT_EQ(Greedy(halves, 1000), 0);
  EXPECT_EQ(Greedy(halves, 1999), 0);
  EXPECT_EQ(Greedy(halves, 2000), 10);
}

TEST(BorrowTest, TheLogLendsEachSlotOnce) {
  BorrowingCell log = PerSecond(Algorithm::kSlidingLog, 10);
  EXPECT_EQ(Greedy(log, 100), 10);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(WaitMs(log, 700), 400);
  EXPECT_EQ(WaitMs(log, 700), kRefused);
  EXPECT_EQ(Greedy(log, 1100), 0);  // they are gone to those who wait
  EXPECT_EQ(Greedy(log, 2099), 0);
  EXPECT_EQ(Greedy(log, 2100), 10);
}

TEST(BorrowTest, BucketsLendFromTheFirstThatLeavesRoom) {
  BorrowingCell cell = PerSecond(Algorithm::kSlidingBuckets, 10);
  EXPECT_EQ(cell.Decide(kStart, 4, false).allowed, true);
  EXPECT_EQ(cell.Decide(kStart + 250 * kMs, 6, false).allowed, true);
  // The four count until 1100, the six until 1300: eleven buckets of 100 ms.
  EXPECT_EQ(WaitMs(cell, 850, 4), 250);
  EXPECT_EQ(WaitMs(cell, 850, 6), 450);
  EXPECT_EQ(WaitMs(cell, 850, 1), kRefused);
  // At 1100 and 1300 they are taken, and count until 2200 and 2400.
  EXPECT_EQ(Greedy(cell, 1299), 0);
  EXPECT_EQ(Greedy(cell, 2199), 0);
  EXPECT_EQ(Greedy(cell, 2200), 4);
  EXPECT_EQ(Greedy(cell, 2399), 0);
  EXPECT_EQ(Greedy(cell, 2400), 6);
}

TEST(BorrowTest, AUsualRequestLeavesRoomForWhatIsBookedAfterIt) {
  BorrowingCell cell = PerSecond(Algorithm::kSlidingBuckets, 10);
  EXPECT_EQ(Greedy(cell, 0), 10);
  EXPECT_EQ(WaitMs(cell, 700, 10), 400);
  cell.GiveBack(kStart + 800 * kMs, {.cost = 10, .mark = kStart / (100 * kMs)});
  // Nothing is counted now, but all of it will be at 1100, and this would be still.
  EXPECT_FALSE(cell.Decide(kStart + 800 * kMs, 1, false).allowed);
}

TEST(BorrowTest, ABucketIsInDebtToThoseWhoWait) {
  BorrowingCell cell(Algorithm::kTokenBucket,
                     {.rate = {10, seconds(1)}, .burst = 5, .borrow = milliseconds(250)});
  EXPECT_EQ(Greedy(cell, 0), 5);
  EXPECT_EQ(WaitMs(cell, 0), 100);
  EXPECT_EQ(WaitMs(cell, 0), 200);
  EXPECT_EQ(WaitMs(cell, 0), kRefused);
  EXPECT_EQ(Greedy(cell, 299), 0);
  EXPECT_EQ(Greedy(cell, 300), 1);
}

TEST(BorrowTest, WhoDoesNotWaitAnyLongerLeavesTheSlotAsItWas) {
  BorrowingCell log = PerSecond(Algorithm::kSlidingLog, 3);
  for (const int64_t at : {0, 100, 200})
    EXPECT_TRUE(log.Decide(kStart + at * kMs, 1, false).allowed);
  EXPECT_EQ(WaitMs(log, 600), 400);
  const Receipt first = log.receipt();
  EXPECT_EQ(WaitMs(log, 600), 500);
  log.GiveBack(kStart + 650 * kMs, first);
  // Not free yet: the call at 0 is less than a second ago.
  EXPECT_EQ(Greedy(log, 999), 0);
  EXPECT_EQ(Greedy(log, 1000), 1);
  EXPECT_EQ(Greedy(log, 1199), 0);
  EXPECT_EQ(Greedy(log, 1200), 1);
}

TEST(BorrowTest, WhatIsLentIsGivenBackToItsHalf) {
  BorrowingCell halves = PerSecond(Algorithm::kLeapArray, 10);
  EXPECT_EQ(Greedy(halves, 100), 10);
  EXPECT_EQ(WaitMs(halves, 700, 10), 300);
  halves.GiveBack(kStart + 800 * kMs, {.cost = 4, .mark = halves.receipt().mark});
  EXPECT_EQ(Greedy(halves, 1000), 4);
}

TEST(BorrowTest, ACostAboveTheLimitIsNeverLent) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kSlidingBuckets,
                                    Algorithm::kLeapArray, Algorithm::kTokenBucket}) {
    BorrowingCell cell = PerSecond(algorithm, 10);
    EXPECT_EQ(cell.Decide(kStart, 11, true).retry_after, kNever);
    EXPECT_EQ(cell.Decide(kStart, 0, true).wait, Duration::zero());
    BorrowingCell nothing = PerSecond(algorithm, 0);
    EXPECT_FALSE(nothing.Decide(kStart, 1, true).allowed);
  }
}

TEST(BorrowTest, BucketsLendForAWindowAtMost) {
  const auto spec = AnySpec::Make(Algorithm::kSlidingBuckets,
                                  {.rate = {10, seconds(1)}, .borrow = milliseconds(1001)});
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(
      spec.error().message,
      "borrow: found 1001000000; allowed 0 to 1000000000 ns, the window, with sliding_buckets");
}

}  // namespace
}  // namespace flowguard::limit
