// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/metrics.h"

#include <gtest/gtest.h>

namespace flowguard::quota::redis {
namespace {

using std::chrono::microseconds;

TEST(LatencyHistogram, EveryTimeIsBelowTheBoundOfItsBucketAndNotOfTheOneBefore) {
  for (int64_t us = 0; us < 200'000; ++us) {
    const size_t bucket = LatencyHistogram::BucketOf(microseconds(us));
    ASSERT_LT(microseconds(us), LatencyHistogram::UpperBound(bucket)) << us;
    if (bucket == 0) continue;
    ASSERT_GE(microseconds(us), LatencyHistogram::UpperBound(bucket - 1)) << us;
  }
}

TEST(LatencyHistogram, TheLastBucketTakesWhatIsLonger) {
  LatencyHistogram histogram;
  histogram.Add(std::chrono::hours(1));
  histogram.Add(Duration(-5));
  EXPECT_EQ(histogram.count(LatencyHistogram::kBuckets - 1), 1U);
  EXPECT_EQ(histogram.count(0), 1U);
  EXPECT_EQ(histogram.sum(), std::chrono::hours(1));
  EXPECT_GT(LatencyHistogram::UpperBound(LatencyHistogram::kBuckets - 1), std::chrono::minutes(1));
}

}  // namespace
}  // namespace flowguard::quota::redis
