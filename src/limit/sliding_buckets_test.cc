// SPDX-License-Identifier: Apache-2.0
#include "limit/sliding_buckets.h"

#include <cstdint>
#include <deque>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86'400 * kSecond;

TestCell Buckets(int64_t limit, Duration window, int buckets, int64_t max_debt = 0) {
  return TestCell(Algorithm::kSlidingBuckets,
                  {.rate = {limit, window}, .buckets = buckets, .max_debt = max_debt});
}

TEST(SlidingBucketsTest, AUnitCountsUntilOneBucketAfterItsWindow) {
  TestCell cell = Buckets(1, seconds(10), 10);
  EXPECT_TRUE(cell.Decide(500 * kMs, 1).allowed);
  EXPECT_EQ(cell.Decide(kSecond, 1).retry_after, seconds(10));
  EXPECT_FALSE(cell.Decide(11 * kSecond - 1, 1).allowed);
  EXPECT_TRUE(cell.Decide(11 * kSecond, 1).allowed);
}

TEST(SlidingBucketsTest, RetryFindsTheBucketThatFreesEnough) {
  TestCell cell = Buckets(6, seconds(10), 10);
  cell.Decide(0, 1);
  cell.Decide(2 * kSecond, 2);
  cell.Decide(5 * kSecond, 3);
  EXPECT_EQ(cell.Decide(6 * kSecond, 1).retry_after, seconds(5));
  EXPECT_EQ(cell.Decide(6 * kSecond, 3).retry_after, seconds(7));
  EXPECT_EQ(cell.Decide(6 * kSecond, 4).retry_after, seconds(10));
  EXPECT_EQ(cell.Decide(6 * kSecond, 7).retry_after, kNever);
}

// Ruled out: twice the limit, L at the end of one bucket and L at the start of another.
TEST(SlidingBucketsTest, TheWorstTimingGetsTheLimitInAnyWindow) {
  TestCell cell = Buckets(100, minutes(1), 10);
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
  for (int64_t at = 59'999 * kMs; at < 120 * kSecond; at += kMs)
    take(at);
  EXPECT_EQ(most, 100u);
}

TEST(SlidingBucketsTest, AGreedyClientGetsTenElevenths) {
  TestCell cell = Buckets(110, seconds(10), 10);
  int64_t admitted = 0;
  for (int64_t at = 0; at < 1100 * kSecond; at += 50 * kMs) {
    admitted += cell.Decide(at, 1).allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 110 * 100);
}

// Ruled out: stale or orphan buckets after a clock step, also with a single bucket.
TEST(SlidingBucketsTest, AnEventWithAnEarlierTimeLandsInTheNewestBucket) {
  for (const int buckets : {1, 2}) {
    TestCell cell = Buckets(10, seconds(1), buckets);
    cell.Decide(1000 * kMs, 1);
    cell.Decide(400 * kMs, 1);
    EXPECT_EQ(cell.Look(1000 * kMs, 0).remaining, 8);
    EXPECT_EQ(cell.Look(1600 * kMs, 0).remaining, 8);
    EXPECT_EQ(cell.Look(3100 * kMs, 0).remaining, 10);
  }
}

TEST(SlidingBucketsTest, AfterAStepBackAllCountsAsTakenNow) {
  TestCell cell = Buckets(3, seconds(1), 4);
  cell.Decide(9 * kDay, 2);
  cell.Decide(9 * kDay + 300 * kMs, 1);
  EXPECT_EQ(cell.Decide(8 * kDay, 1).retry_after, nanoseconds(1'250 * kMs));
  EXPECT_TRUE(cell.Decide(8 * kDay + 1'250 * kMs, 3).allowed);
}

TEST(SlidingBucketsTest, WindowsThatDoNotDivideAreCoveredWhole) {
  const auto spec = SlidingBuckets::Make({.rate = {5, nanoseconds(10'001)}, .buckets = 3});
  EXPECT_GE(spec->bucket_ns * spec->buckets, 10'001);
}

TEST(SlidingBucketsTest, IdlenessClearsEveryBucket) {
  TestCell cell = Buckets(5, seconds(1), 3);
  cell.Decide(0, 5);
  EXPECT_EQ(cell.Look(365 * kDay, 0).remaining, 5);
  EXPECT_TRUE(cell.Decide(365 * kDay, 5).allowed);
  EXPECT_FALSE(cell.Decide(365 * kDay, 1).allowed);
}

TEST(SlidingBucketsTest, AGiveBackCountsWhileItsBucketDoes) {
  TestCell cell = Buckets(5, seconds(10), 10);
  cell.Decide(0, 3);
  const Receipt receipt = cell.receipt();
  cell.Decide(5 * kSecond, 2);
  cell.GiveBack(6 * kSecond, receipt);
  EXPECT_EQ(cell.Look(6 * kSecond, 0).remaining, 3);
  cell.GiveBack(11 * kSecond, receipt);
  EXPECT_EQ(cell.Look(11 * kSecond, 0).remaining, 3);
}

TEST(SlidingBucketsTest, AChargeMayExceedTheLimitByTheDebt) {
  TestCell cell = Buckets(5, seconds(10), 10, 4);
  cell.Decide(0, 5);
  cell.Charge(kSecond, 1000);
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 0);
  EXPECT_EQ(cell.Look(11 * kSecond, 0).remaining, 1);
  EXPECT_EQ(cell.Look(12 * kSecond, 0).remaining, 5);
}

TEST(SlidingBucketsTest, BadNumbersAreErrors) {
  EXPECT_EQ(SlidingBuckets::Make({.rate = {1, seconds(1)}, .buckets = 1001}).error().message,
            "buckets: found 1001; allowed 1 to 1000");
  EXPECT_EQ(SlidingBuckets::Make({.rate = {1, seconds(1)}, .buckets = -1}).error().message,
            "buckets: found -1; allowed 1 to 1000");
  EXPECT_EQ(SlidingBuckets::Make({.rate = {5'000'000'000, hours(1)}}).error().message,
            "limit: found 5000000000; allowed 0 to 4294967295 units with sliding_buckets");
  EXPECT_FALSE(SlidingBuckets::Make({.rate = {4'294'967'295, hours(1)}, .max_debt = 1}).ok());
}

TEST(SlidingBucketsTest, TheLargestCountFitsItsCounter) {
  TestCell cell = Buckets(4'294'967'295, hours(1), 2);
  EXPECT_TRUE(cell.Decide(0, 4'294'967'295).allowed);
  EXPECT_EQ(cell.Look(0, 1).remaining, 0);
}

}  // namespace
}  // namespace flowguard::limit
