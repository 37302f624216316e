// SPDX-License-Identifier: Apache-2.0
//
// Tables that other token bucket and GCRA implementations hold themselves to, with the
// answers restated for this contract.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

TestCell Bucket(const Config& config) {
  return TestCell(Algorithm::kTokenBucket, config);
}

struct Row {
  int64_t at_ms, cost;
  bool allowed;
  int64_t remaining;
};

void Expect(const Config& config, const std::vector<Row>& rows) {
  TestCell cell = Bucket(config);
  for (size_t row = 0; row < rows.size(); ++row) {
    SCOPED_TRACE("row " + std::to_string(row));
    const Numbers numbers = cell.Decide(rows[row].at_ms * kMs, rows[row].cost);
    EXPECT_EQ(numbers.allowed, rows[row].allowed);
    EXPECT_EQ(numbers.remaining, rows[row].remaining);
  }
}

TEST(TokenBucketConformanceTest, RemainingCountsDownToZeroAndNoUnitIsLost) {
  TestCell cell = Bucket({.rate = {10, seconds(1)}});
  for (int64_t rest = 9; rest >= 0; --rest)
    EXPECT_EQ(cell.Decide(0, 1).remaining, rest);
  EXPECT_FALSE(cell.Decide(0, 1).allowed);
}

TEST(TokenBucketConformanceTest, OneAtATimeTenASecond) {
  Expect({.rate = {10, seconds(1)}, .burst = 1}, {{0, 1, true, 0},
                                                  {0, 1, false, 0},
                                                  {0, 1, false, 0},
                                                  {100, 1, true, 0},
                                                  {100, 1, false, 0},
                                                  {200, 2, false, 1},
                                                  {200, 1, true, 0},
                                                  {200, 1, false, 0}});
}

TEST(TokenBucketConformanceTest, PeriodOfNinetyMillisecondsBurstTwo) {
  Expect({.rate = {1, milliseconds(90)}, .burst = 2}, {{0, 1, true, 1},
                                                       {0, 1, true, 0},
                                                       {0, 1, false, 0},
                                                       {120'000, 1, true, 1},
                                                       {120'000, 1, true, 0},
                                                       {120'000, 1, false, 0}});
}

TEST(TokenBucketConformanceTest, TwentyAtOnceThenOneASliceOfTheSecond) {
  TestCell cell = Bucket({.rate = {20, seconds(1)}});
  for (int call = 0; call < 20; ++call)
    EXPECT_TRUE(cell.Decide(0, 1).allowed);
  EXPECT_FALSE(cell.Decide(2 * kMs, 1).allowed);
  EXPECT_TRUE(cell.Decide(1000 * kMs, 1).allowed);
}

TEST(TokenBucketConformanceTest, CapacityTenOneASecond) {
  Expect({.rate = {1, seconds(1)}, .burst = 10}, {{0, 3, true, 7},
                                                  {0, 1, true, 6},
                                                  {0, 9, false, 6},
                                                  {0, 1, true, 5},
                                                  {0, 0, true, 5},
                                                  {4000, 0, true, 9},
                                                  {4000, 1, true, 8},
                                                  {4000, 8, true, 0},
                                                  {4000, 42, false, 0}});
}

TEST(TokenBucketConformanceTest, RetryOfATightRunIsAtMostOneInterval) {
  TestCell cell = Bucket({.rate = {1, milliseconds(1)}});
  for (int64_t call = 0; call < 1000; ++call) {
    EXPECT_LE(cell.Decide(call * 100, 1).retry_after, milliseconds(1));
  }
}

TEST(TokenBucketConformanceTest, RefusalsTellWhatIsLeftAndTheWaitForTheRest) {
  TestCell cell = Bucket({.rate = {100, microseconds(100)}});
  EXPECT_EQ(cell.Decide(0, 49).remaining, 51);
  EXPECT_EQ(cell.Decide(0, 120).retry_after, kNever);
  cell.GiveBack(0, {.cost = 19, .mark = 49 * kUs});  // 70 left
  const Numbers refused = cell.Decide(0, 80);
  EXPECT_EQ(refused.remaining, 70);
  EXPECT_EQ(refused.retry_after, microseconds(10));
  cell.Decide(0, 70);
  EXPECT_EQ(cell.Decide(0, 10).retry_after, microseconds(10));
}

TEST(TokenBucketConformanceTest, ConsumingRegardlessLeavesADebtThatTimePaysOff) {
  TestCell cell = Bucket({.rate = {100, microseconds(100)}, .max_debt = 300});
  cell.Decide(0, 100);
  cell.Charge(50 * kUs, 52);
  EXPECT_EQ(cell.Look(50 * kUs, 1).retry_after, microseconds(3));
  EXPECT_EQ(cell.Look(52 * kUs, 1).retry_after, microseconds(1));
  EXPECT_EQ(cell.Look(53 * kUs, 0).remaining, 1);
}

TEST(TokenBucketConformanceTest, BorrowedUnitsWaitOneSecondMoreEach) {
  TestCell cell = Bucket({.rate = {10, seconds(1)}, .wait = seconds(10)});
  cell.Decide(0, 10);
  for (int64_t call = 1; call <= 10; ++call) {
    EXPECT_EQ(cell.Decide(0, 10).wait, seconds(call));
  }
  EXPECT_FALSE(cell.Decide(0, 1).allowed);
}

TEST(TokenBucketConformanceTest, UpToTakesWhatIsThereAndNoMore) {
  TestCell cell = Bucket({.rate = {10, seconds(1)}});
  cell.Decide(0, 1);
  const Numbers two = cell.TakeUpTo(0, 2);
  EXPECT_TRUE(two.allowed);
  EXPECT_EQ(two.remaining, 7);
  cell.TakeUpTo(0, 10);
  EXPECT_EQ(cell.receipt().cost, 7);
  EXPECT_EQ(cell.TakeUpTo(0, 1000).retry_after, kNever);
  EXPECT_EQ(cell.receipt().cost, 0);
}

TEST(TokenBucketConformanceTest, ATimeTenNanosecondsAgoChangesNothing) {
  TestCell cell = Bucket({.rate = {1000, seconds(1)}, .burst = 10});
  for (int call = 0; call < 10; ++call)
    EXPECT_TRUE(cell.Decide(kSecond, 1).allowed);
  const auto before = cell.state();
  EXPECT_FALSE(cell.Decide(kSecond, 1).allowed);
  EXPECT_FALSE(cell.Decide(kSecond - 10, 1).allowed);
  EXPECT_EQ(cell.state(), before);
}

size_t MostInAMinute(TestCell cell) {
  std::deque<int64_t> window;
  size_t most = 0;
  const auto take = [&](int64_t at) {
    if (!cell.Decide(at, 1).allowed) return;
    window.push_back(at);
    while (window.front() <= at - 60 * kSecond)
      window.pop_front();
    most = std::max(most, window.size());
  };
  for (int call = 0; call < 200; ++call)
    take(59'999 * kMs);
  for (int64_t at = 59'999 * kMs; at < 180 * kSecond; at += kMs)
    take(at);
  return most;
}

TEST(TokenBucketConformanceTest, TheBoundIsReachedAndNotPassed) {
  EXPECT_EQ(MostInAMinute(Bucket({.rate = {50, minutes(1)}})), 99u);
  EXPECT_EQ(MostInAMinute(Bucket({.rate = {100, minutes(1)}})), 199u);
}

}  // namespace
}  // namespace flowguard::limit
