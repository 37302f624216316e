// SPDX-License-Identifier: Apache-2.0
#include "stats/resource_stats.h"

#include <gtest/gtest.h>

#include "base/thread_slot.h"

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr Instant kT0{std::chrono::hours(24 * 10)};

class ResourceStatsTest : public testing::Test {
 protected:
  const size_t slot = base::ThreadSlot();
  ResourceStats stats{"orders", "web", StatsShape{.latency = LatencyShape{}}, nullptr};
};

TEST_F(ResourceStatsTest, ACallIsInProgressBetweenEnterAndExit) {
  EXPECT_EQ(stats.Enter(slot, kT0, 2), 1);
  EXPECT_EQ(stats.Enter(slot, kT0, 1), 2);
  EXPECT_EQ(stats.InProgress(), 2);
  stats.Exit(slot, kT0 + 30ms, {2, 30ms, true});
  EXPECT_EQ(stats.InProgress(), 1);
  stats.Abandon();
  EXPECT_EQ(stats.InProgress(), 0);

  const Counts now = stats.Counted().Window(0, kT0 + 30ms);
  EXPECT_EQ(now.passed, 3);
  EXPECT_EQ(now.succeeded, 2);
  EXPECT_EQ(now.failed, 2);
  EXPECT_EQ(now.inflight_max, 2);
  EXPECT_EQ(stats.Latency()->Window(kT0 + 30ms).Count(), 1u);
}

TEST_F(ResourceStatsTest, ARefusedCallIsNeverInProgress) {
  stats.Block(slot, kT0, 5);
  EXPECT_EQ(stats.InProgress(), 0);
  EXPECT_EQ(stats.Counted().Window(0, kT0).blocked, 5);
  EXPECT_EQ(stats.Counted().Window(0, kT0).passed, 0);
}

TEST_F(ResourceStatsTest, NoMoreEnterThanMay) {
  EXPECT_TRUE(stats.TryEnter(slot, kT0, 1, 2));
  EXPECT_TRUE(stats.TryEnter(slot, kT0, 1, 2));
  EXPECT_FALSE(stats.TryEnter(slot, kT0, 1, 2));
  EXPECT_EQ(stats.Counted().Window(0, kT0).passed, 2);
  stats.Exit(slot, kT0, {1, 1ms, false});
  EXPECT_TRUE(stats.TryEnter(slot, kT0, 1, 2));
  EXPECT_EQ(stats.InProgress(), 2);
}

TEST_F(ResourceStatsTest, QuantilesAreOptional) {
  const ResourceStats plain("orders", "web", StatsShape{}, nullptr);
  EXPECT_EQ(plain.Latency(), nullptr);
  EXPECT_LT(plain.Bytes(), stats.Bytes());
}

}  // namespace
}  // namespace flowguard::stats
