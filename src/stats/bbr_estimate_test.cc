// SPDX-License-Identifier: Apache-2.0
#include "stats/bbr_estimate.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

Counts Ended(int64_t units, Duration least) {
  Counts counts;
  counts.succeeded = units;
  counts.rt_min = least;
  return counts;
}

TEST(BbrEstimateTest, NothingIsKnownWhileNothingHasEnded) {
  EXPECT_EQ(EstimateRoom({}, 500ms).has_value(), false);
  const std::array<Counts, 3> quiet{};
  EXPECT_EQ(EstimateRoom(quiet, 500ms).has_value(), false);
}

TEST(BbrEstimateTest, TheBestBucketTimesTheShortestTime) {
  // Three completions of 40 ms at best in half a second: 6 a second.
  const std::array<Counts, 2> buckets{Ended(3, 40ms), Counts{}};
  const BbrEstimate estimate = *EstimateRoom(buckets, 500ms);
  EXPECT_DOUBLE_EQ(estimate.rate_max, 6);
  EXPECT_EQ(estimate.rt_min, Duration(40ms));
  EXPECT_DOUBLE_EQ(estimate.inflight_max, 0.24);
  EXPECT_FALSE(estimate.IsFull(0));
  EXPECT_FALSE(estimate.IsFull(1)) << "one call at a time always has room";
  EXPECT_TRUE(estimate.IsFull(2));
}

TEST(BbrEstimateTest, RateAndTimeMayBeOfDifferentBuckets) {
  const std::array<Counts, 3> buckets{Ended(10, 300ms), Ended(100, 50ms), Ended(1, 20ms)};
  const BbrEstimate estimate = *EstimateRoom(buckets, 1s);
  EXPECT_DOUBLE_EQ(estimate.inflight_max, 2);
  EXPECT_FALSE(estimate.IsFull(2)) << "what just fits has room";
  EXPECT_TRUE(estimate.IsFull(3));
}

TEST(BbrEstimateTest, ALongerWindowRemembersTheTimeBeforeTheOverload) {
  std::array<Counts, 20> minute{};
  minute.fill(Ended(40, 900ms));  // overload: slow, and little gets done
  minute[15] = Ended(200, 50ms);  // before it
  EXPECT_DOUBLE_EQ(EstimateRoom(minute, 1s)->inflight_max, 10);
  EXPECT_DOUBLE_EQ(EstimateRoom(std::span(minute).first(2), 1s)->inflight_max, 36)
      << "within the overload alone the queue looks like room";
}

TEST(BbrEstimateTest, ExtremesGiveNumbers) {
  const std::array<Counts, 1> most{Ended(std::numeric_limits<int64_t>::max(), Duration::max())};
  EXPECT_GT(EstimateRoom(most, 1ns)->inflight_max, 0);
  const std::array<Counts, 1> least{Ended(1, 0ns)};
  EXPECT_DOUBLE_EQ(EstimateRoom(least, 1s)->inflight_max, 0);
  EXPECT_FALSE(EstimateRoom(least, 1s)->IsFull(1));
}

}  // namespace
}  // namespace flowguard::stats
