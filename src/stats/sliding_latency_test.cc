// SPDX-License-Identifier: Apache-2.0
#include "stats/sliding_latency.h"

#include <gtest/gtest.h>

#include "base/thread_slot.h"

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr Instant kT0{std::chrono::hours(24 * 10)};

class SlidingLatencyTest : public testing::Test {
 protected:
  void Add(Duration at, Duration took, int times = 1) {
    for (int i = 0; i < times; ++i)
      latency.Add(slot, kT0 + at, took);
  }
  [[nodiscard]] uint64_t CountAt(Duration at, int parts) const {
    return latency.Last(kT0 + at, parts).Count();
  }

  const size_t slot = base::ThreadSlot();
  ShardBudget budget{1 << 20};
  SlidingLatency latency{LatencyShape{30s, 3}, &budget};
};

TEST_F(SlidingLatencyTest, NothingIsThereAtFirst) {
  EXPECT_EQ(CountAt(0s, 3), 0u);
  EXPECT_LT(latency.Bytes(), 512u);
}

TEST_F(SlidingLatencyTest, PartsLeaveTheWindowOneByOne) {
  Add(0s, 1ms, 100);
  Add(10s, 10ms, 10);
  Add(29s, 100ms, 1);
  EXPECT_EQ(CountAt(29s, 3), 111u);
  EXPECT_EQ(CountAt(29s, 2), 11u);
  EXPECT_EQ(CountAt(29s, 1), 1u);
  EXPECT_EQ(CountAt(30s, 3), 11u);
  EXPECT_EQ(CountAt(40s, 3), 1u);
  EXPECT_EQ(CountAt(50s, 3), 0u);
}

TEST_F(SlidingLatencyTest, QuantilesAreThoseOfTheWindowAlone) {
  Add(0s, 5s, 1'000);
  Add(40s, 1ms, 50);
  const LatencySketch now = latency.Window(kT0 + 40s);
  EXPECT_EQ(now.Count(), 50u);
  EXPECT_NEAR(static_cast<double>(now.Quantile(0.99)->count()), 1e6, 1e6 * kLatencyError);
}

TEST_F(SlidingLatencyTest, ALongPauseEmptiesTheWindow) {
  Add(0s, 1ms, 7);
  Add(1h, 1ms, 2);
  EXPECT_EQ(CountAt(1h, 3), 2u);
}

TEST_F(SlidingLatencyTest, ALateStampCountsInTheCurrentPart) {
  Add(10s, 1ms, 1);
  Add(9s, 1ms, 1);
  EXPECT_EQ(CountAt(10s, 1), 2u);
}

TEST_F(SlidingLatencyTest, CountingGoesOnAfterAClockThatStepsBackAnHour) {
  Add(1h, 1ms, 5);
  Add(0s, 1ms, 1);
  EXPECT_EQ(CountAt(0s, 3), 1u);
  Add(10s, 1ms, 1);
  EXPECT_EQ(CountAt(10s, 3), 2u);
  EXPECT_EQ(CountAt(10s, 1), 1u);
}

TEST_F(SlidingLatencyTest, ShapesAreChecked) {
  EXPECT_TRUE(CheckLatency({1min, 2}).ok());
  EXPECT_FALSE(CheckLatency({1min, 0}).ok());
  EXPECT_FALSE(CheckLatency({1min, 61}).ok());
  EXPECT_FALSE(CheckLatency({1s, 7}).ok());
}

}  // namespace
}  // namespace flowguard::stats
