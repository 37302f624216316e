// SPDX-License-Identifier: Apache-2.0
#include "stats/sliding_counts.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "base/thread_slot.h"

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr Instant kT0{std::chrono::hours(24 * 10)};
constexpr WindowShape kSecond{1s, 2};
constexpr WindowShape kMinute{1min, 60};

// Both homes of counts: the shard of all, and the thread's own.
class SlidingCountsTest : public testing::TestWithParam<bool> {
 protected:
  void Pass(Duration at, int64_t units = 1) { counts.Passed(slot, kT0 + at, units, 1); }
  // A thread gets its own shard by counting a lot; here long before the test begins.
  void SetUp() override {
    if (GetParam()) counts.Passed(slot, kT0 - 1h, 32, 0);
  }
  // Asks for one more until it is refused: what a limit of 10 that counts like this admits.
  int Greedy(Duration at, double limit) {
    int admitted = 0;
    while (static_cast<double>(counts.Window(0, kT0 + at).passed + 1) <= limit) {
      Pass(at);
      ++admitted;
    }
    return admitted;
  }

  const size_t slot = base::ThreadSlot();
  ShardBudget budget{GetParam() ? size_t{1} << 20 : 0};
  SlidingCounts counts{Views(kSecond, kMinute), &budget};
};
INSTANTIATE_TEST_SUITE_P(SharedAndOwn, SlidingCountsTest, testing::Bool(),
                         [](const auto& of) { return of.param ? "Own" : "Shared"; });

TEST_P(SlidingCountsTest, NothingIsCountedAtFirst) {
  EXPECT_EQ(counts.Window(0, kT0), Counts{});
  EXPECT_EQ(counts.Window(1, kT0), Counts{});
  EXPECT_EQ(counts.Window(0, kT0).AverageRt(), std::nullopt);
}

TEST_P(SlidingCountsTest, GreedyCallersOfTwoHalfSeconds) {
  std::vector<int> admitted;
  for (const Duration at : {0ms, 499ms, 500ms, 999ms, 1000ms, 1500ms, 2000ms})
    admitted.push_back(Greedy(at, 10));
  EXPECT_EQ(admitted, (std::vector<int>{10, 0, 0, 0, 10, 0, 10}));
}

TEST_P(SlidingCountsTest, TwoBucketsAdmitTwiceAroundAWindow) {
  std::vector<int> admitted;
  for (const Duration at : {999ms, 1000ms, 1499ms, 1500ms, 2000ms, 2500ms})
    admitted.push_back(Greedy(at, 10));
  EXPECT_EQ(admitted, (std::vector<int>{10, 0, 0, 10, 0, 10}));
}

TEST_P(SlidingCountsTest, PartsOfAUnitAdmitNothing) {
  EXPECT_EQ(Greedy(0ms, 0.5), 0);
  EXPECT_EQ(Greedy(0ms, 0), 0);
  EXPECT_EQ(Greedy(0ms, 2.9), 2);
}

TEST_P(SlidingCountsTest, UnitsCountAndNotCalls) {
  Pass(0ms, 3);
  EXPECT_EQ(counts.Window(0, kT0).passed, 3);
  Pass(0ms, 2);
  EXPECT_EQ(counts.Window(0, kT0).passed, 5);
  Pass(0ms, -7);
  EXPECT_EQ(counts.Window(0, kT0).passed, 5) << "units below zero are none";
}

TEST_P(SlidingCountsTest, CompletionsCountTheirUnitsAndTheirTimeOnce) {
  Pass(0ms, 3);
  counts.Ended(slot, kT0, 1, 40ms, false);
  counts.Ended(slot, kT0, 2, 60ms, false);
  counts.Blocked(slot, kT0, 5);

  const Counts now = counts.Window(0, kT0);
  EXPECT_EQ(now.passed, 3);
  EXPECT_EQ(now.succeeded, 3);
  EXPECT_EQ(now.failed, 0);
  EXPECT_EQ(now.AverageRt(), Duration(33'333'333));
  EXPECT_EQ(now.rt_min, Duration(40ms));
  const Counts minute = counts.Window(1, kT0);
  EXPECT_EQ(minute.passed + minute.blocked, 8);

  EXPECT_EQ(counts.Window(0, kT0 + 999ms).passed, 3);
  EXPECT_EQ(counts.Window(0, kT0 + 1000ms), Counts{});
  EXPECT_EQ(counts.Bucket(1, kT0 + 1000ms, 1).passed, 3) << "the second before";
  EXPECT_EQ(counts.Window(1, kT0 + 59'999ms).passed, 3);
  EXPECT_EQ(counts.Window(1, kT0 + 60'000ms), Counts{});
}

TEST_P(SlidingCountsTest, LongTimesAreNotCutOff) {
  counts.Ended(slot, kT0, 1, 9s, false);
  EXPECT_EQ(counts.Window(0, kT0).AverageRt(), Duration(9s));
  EXPECT_EQ(counts.Window(0, kT0).rt_min, Duration(9s));
}

TEST_P(SlidingCountsTest, FailuresAreCompletionsToo) {
  counts.Ended(slot, kT0, 2, 0ms, true);
  EXPECT_EQ(counts.Window(0, kT0).rt_min, std::nullopt) << "a connection refused is no answer";
  counts.Ended(slot, kT0, 1, 1ms, false);
  EXPECT_EQ(counts.Window(0, kT0).succeeded, 3);
  EXPECT_EQ(counts.Window(0, kT0).failed, 2);
}

TEST_P(SlidingCountsTest, TheMostCallsInProgressIsOfItsBucket) {
  counts.Passed(slot, kT0, 1, 7);
  counts.Passed(slot, kT0, 1, 3);
  counts.Passed(slot, kT0 + 500ms, 1, 2);
  EXPECT_EQ(counts.Window(0, kT0 + 500ms).inflight_max, 7);
  EXPECT_EQ(counts.Window(0, kT0 + 1000ms).inflight_max, 2);
}

TEST_P(SlidingCountsTest, SeriesTellsBucketByBucketTheCurrentFirst) {
  Pass(0ms, 1);
  Pass(1s, 2);
  Pass(3s, 3);
  std::array<Counts, 5> series;
  counts.Series(1, kT0 + 3s, series);
  EXPECT_EQ(series[0].passed, 3);
  EXPECT_EQ(series[1].passed, 0);
  EXPECT_EQ(series[2].passed, 2);
  EXPECT_EQ(series[3].passed, 1);
  EXPECT_EQ(series[4].passed, 0);
  EXPECT_EQ(counts.Last(1, kT0 + 3s, 3).passed, 5);
}

TEST_P(SlidingCountsTest, ALateStampGoesToItsBucketIfThatIsStillThere) {
  Pass(1000ms);
  Pass(999ms, 4);
  EXPECT_EQ(counts.Window(0, kT0 + 1000ms).passed, 5);
  EXPECT_EQ(counts.Bucket(0, kT0 + 1000ms, 1).passed, 4);
  EXPECT_EQ(counts.Window(0, kT0 + 1500ms).passed, 1);
}

// Fault ruled out: after a step back of the clock a bucket of its own is made, and lost.
TEST_P(SlidingCountsTest, ALateStampWhoseBucketIsGoneGoesToTheNewest) {
  Pass(1000ms, 2);
  Pass(400ms, 1);
  EXPECT_EQ(counts.Window(0, kT0 + 400ms).passed, 3) << "what is ahead is counted as now";
  EXPECT_EQ(counts.Window(0, kT0 + 1600ms).passed, 0 + 3) << "from 1000 ms to now";
  EXPECT_EQ(counts.Window(0, kT0 + 2000ms).passed, 0);
}

TEST_P(SlidingCountsTest, CountingGoesOnAfterAClockThatStepsBackAnHour) {
  Pass(1h, 100);
  Pass(0ms, 1);
  Pass(10ms, 1);
  EXPECT_EQ(counts.Window(0, kT0 + 10ms).passed, 2);
  EXPECT_EQ(counts.Window(0, kT0 + 600ms).passed, 2);
  Pass(1200ms, 3);
  EXPECT_EQ(counts.Window(0, kT0 + 1200ms).passed, 3);
  EXPECT_EQ(counts.Window(1, kT0 + 1200ms).passed, 5);
}

TEST_P(SlidingCountsTest, ReadersThatAreBehindSeeWhatWasJustCounted) {
  Pass(500ms);
  EXPECT_EQ(counts.Window(0, kT0 + 499'999us).passed, 1);
}

TEST_P(SlidingCountsTest, NumbersStayAtTheirMaximum) {
  counts.Passed(slot, kT0, INT64_MAX, INT64_MAX);
  counts.Passed(slot, kT0, INT64_MAX, INT64_MAX);
  counts.Ended(slot, kT0, 1, Duration::max(), false);
  counts.Ended(slot, kT0, 1, Duration::max(), false);
  const Counts now = counts.Window(0, kT0);
  EXPECT_EQ(now.passed, static_cast<int64_t>(kTaggedMax));
  EXPECT_EQ(now.rt_sum.count(), static_cast<int64_t>(kTaggedMax));
  EXPECT_EQ(now.succeeded, 2) << "the neighbours are as they were";
  EXPECT_EQ(now.blocked, 0);
}

TEST_P(SlidingCountsTest, TheLastBucketThatWasCountedInIsKnown) {
  Pass(1200ms);
  EXPECT_EQ(counts.LastCounted(), kT0 + 1000ms);
}

TEST(SlidingCountsShapeTest, OneBucketIsAWindow) {
  SlidingCounts counts(WindowShape{1s, 1}, nullptr);
  counts.Passed(base::ThreadSlot(), kT0 + 999ms, 1, 1);
  EXPECT_EQ(counts.Window(0, kT0 + 999ms).passed, 1);
  EXPECT_EQ(counts.Window(0, kT0 + 1000ms).passed, 0);
  counts.Passed(base::ThreadSlot(), kT0 + 1000ms, 1, 1);
  counts.Passed(base::ThreadSlot(), kT0 + 999ms, 1, 1);
  EXPECT_EQ(counts.Window(0, kT0 + 1000ms).passed, 2) << "the late one is counted as now";
}

TEST(SlidingCountsShapeTest, WindowsAreOfEqualBucketsOfAMillisecondAtLeast) {
  EXPECT_TRUE(CheckWindow({1s, 10}).ok());
  EXPECT_TRUE(CheckWindow({1ms, 1}).ok());
  EXPECT_FALSE(CheckWindow({1s, 0}).ok());
  EXPECT_FALSE(CheckWindow({1s, 1'001}).ok());
  EXPECT_FALSE(CheckWindow({1s, 7}).ok());
  EXPECT_FALSE(CheckWindow({1ms, 2}).ok());
  EXPECT_FALSE(CheckWindow({std::chrono::hours(24 * 400), 1}).ok());
}

TEST(SlidingCountsMemoryTest, IsAllocatedWithUseAndWithinTheBudget) {
  const size_t slot = base::ThreadSlot();
  ShardBudget budget(10'000);
  SlidingCounts first(Views(kSecond, kMinute), &budget);
  const size_t idle = first.Bytes();
  EXPECT_LE(idle, 256u);

  first.Passed(slot, kT0, 1, 1);
  const size_t shard = first.Bytes() - idle;
  EXPECT_LE(shard, 62 * 64 + 256u) << "a line a bucket";

  for (int i = 0; i < 100; ++i)
    first.Passed(slot, kT0, 1, 1);
  const size_t own = first.Bytes() - idle - shard;
  EXPECT_GT(own, 62 * 64u);
  EXPECT_LE(own, 62 * 64 + 256u) << "a line a bucket here too";
  EXPECT_EQ(budget.Left(), 10'000 - static_cast<int64_t>(own));

  SlidingCounts second(Views(kSecond, kMinute), &budget);
  SlidingCounts third(Views(kSecond, kMinute), &budget);
  for (int i = 0; i < 100; ++i) {
    second.Passed(slot, kT0, 1, 1);
    third.Passed(slot, kT0, 1, 1);
  }
  EXPECT_EQ(third.Bytes(), idle + shard) << "no own shard any more";
  EXPECT_GT(budget.Refused(), 0u);
  EXPECT_EQ(third.Window(0, kT0).passed, 100) << "and nothing is lost by that";
}

TEST(SlidingCountsMemoryTest, LargeUnitsGetAShardOfTheirOwnToo) {
  ShardBudget budget(100'000);
  SlidingCounts counts(kSecond, &budget);
  for (int i = 0; i < 50; ++i)
    counts.Passed(base::ThreadSlot(), kT0, 100, 1);
  EXPECT_LT(budget.Left(), 100'000);
}

TEST(SlidingCountsMemoryTest, BytesComeBackWithTheEnd) {
  ShardBudget budget(100'000);
  {
    SlidingCounts counts(kSecond, &budget);
    for (int i = 0; i < 50; ++i)
      counts.Passed(base::ThreadSlot(), kT0, 1, 1);
    EXPECT_LT(budget.Left(), 100'000);
  }
  EXPECT_EQ(budget.Left(), 100'000);
}

}  // namespace
}  // namespace flowguard::stats
