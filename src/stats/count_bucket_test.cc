// SPDX-License-Identifier: Apache-2.0
//
// The turns of a bucket, in the orders in which threads that are held up may come.
#include "stats/count_bucket.h"

#include <gtest/gtest.h>

namespace flowguard::stats {
namespace {

int64_t PassedOf(const CountBucket& bucket, int64_t index) {
  Counts counts;
  bucket.AddTo(index, counts);
  return counts.passed;
}

TEST(TaggedWordTest, NumbersStayAtTheirMaximumAndNeverReachTheTag) {
  EXPECT_EQ(Plus{kTaggedMax}(5), kTaggedMax);
  EXPECT_EQ(Plus{1}(kTaggedMax), kTaggedMax);
  EXPECT_EQ(Clamped(-1), 0u);
  EXPECT_EQ(Clamped(INT64_MAX), kTaggedMax);
  EXPECT_EQ(TagOf(Tagged(7, kTaggedMax)), 7);
}

TEST(TaggedWordTest, TurnsAreOrderedAcrossTheirWrap) {
  EXPECT_TRUE(IsOlder(1, 2));
  EXPECT_FALSE(IsOlder(2, 2));
  EXPECT_FALSE(IsOlder(3, 2));
  EXPECT_TRUE(IsOlder(65'535, 0));
  EXPECT_FALSE(IsOlder(0, 65'535));
}

TEST(CountBucketTest, HoldsNothingBeforeItIsOpened) {
  const CountBucket bucket;
  Counts counts;
  bucket.AddTo(0, counts);
  EXPECT_EQ(counts, Counts{});
}

TEST(CountBucketTest, AnotherBucketOfTheSlotIsNotCounted) {
  CountBucket bucket;
  bucket.Open(bucket.Head(), 4);
  ASSERT_TRUE(bucket.Update(TagOf(bucket.Head()), Event::kPassed, Plus{3}));
  EXPECT_EQ(PassedOf(bucket, 4), 3);
  EXPECT_EQ(PassedOf(bucket, 14), 0);

  bucket.Open(bucket.Head(), 14);
  EXPECT_EQ(PassedOf(bucket, 4), 0);
  EXPECT_EQ(PassedOf(bucket, 14), 0);
}

TEST(CountBucketTest, TwoThatOpenForTheSameBucketLoseNothing) {
  CountBucket bucket;
  const uint64_t seen_by_both = bucket.Head();
  bucket.Open(seen_by_both, 4);
  ASSERT_EQ(bucket.Update(TagOf(bucket.Head()), Event::kPassed, Plus{3}), 3u);

  bucket.Open(seen_by_both, 4);

  EXPECT_EQ(PassedOf(bucket, 4), 3);
}

TEST(CountBucketTest, AnOpenThatWasHeldUpClearsNoLaterTurn) {
  CountBucket bucket;
  const uint64_t seen = bucket.Head();
  for (int64_t index = 4; index < 1'000; index += 10) {
    bucket.Open(bucket.Head(), index);
    ASSERT_EQ(bucket.Update(TagOf(bucket.Head()), Event::kPassed, Plus{3}), 3u);
    bucket.Open(seen, 4);
    ASSERT_EQ(PassedOf(bucket, index), 3);
  }
}

TEST(CountBucketTest, AnAdditionThatWasHeldUpCountsInNoOtherBucket) {
  CountBucket bucket;
  bucket.Open(bucket.Head(), 4);
  const Tag held_up = TagOf(bucket.Head());
  bucket.Open(bucket.Head(), 14);

  EXPECT_EQ(bucket.Update(held_up, Event::kPassed, Plus{1}), std::nullopt);
  EXPECT_EQ(PassedOf(bucket, 14), 0);
}

TEST(CountBucketTest, TurnsMayWrap) {
  CountBucket bucket;
  for (int64_t index = 0; index < 70'000; ++index) {
    bucket.Open(bucket.Head(), index);
    ASSERT_EQ(bucket.Update(TagOf(bucket.Head()), Event::kPassed, Plus{1}), 1u);
  }
  EXPECT_EQ(PassedOf(bucket, 69'999), 1);
}

}  // namespace
}  // namespace flowguard::stats
