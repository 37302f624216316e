// SPDX-License-Identifier: Apache-2.0
#include "engine/system_gate.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "stats/resource_stats.h"

namespace flowguard::engine {
namespace {

using namespace std::chrono_literals;

constexpr Instant kT0{std::chrono::hours(24 * 10)};

class SystemGateTest : public ::testing::Test {
 protected:
  int TakeAll(int64_t most, Instant now) {
    int taken = 0;
    limit::Receipt receipt;
    while (taken < 10'000 && gate_.Take(most, now, receipt))
      ++taken;
    return taken;
  }

  SystemGate gate_;
};

TEST_F(SystemGateTest, NoSecondSeesMoreThanTheNumber) {
  EXPECT_EQ(TakeAll(10, kT0), 10);
  EXPECT_EQ(TakeAll(10, kT0 + 999ms), 0);
  EXPECT_EQ(TakeAll(10, kT0 + 1s + 17ms), 10);
}

TEST_F(SystemGateTest, SeveralNumbersAreHeldAgainstOneCount) {
  EXPECT_EQ(TakeAll(10, kT0), 10);
  EXPECT_EQ(TakeAll(15, kT0), 5);
  EXPECT_EQ(TakeAll(10, kT0), 0);
  EXPECT_EQ(gate_.Taken(kT0), 15);
}

TEST_F(SystemGateTest, AGiveBackMakesRoom) {
  limit::Receipt receipt;
  ASSERT_TRUE(gate_.Take(1, kT0, receipt));
  gate_.GiveBack(receipt, kT0 + 1ms);
  EXPECT_EQ(gate_.Taken(kT0 + 1ms), 0);
  EXPECT_TRUE(gate_.Take(1, kT0 + 1ms, receipt));
}

TEST_F(SystemGateTest, ANumberThatIsNoneIsNotKnown) {
  EXPECT_EQ(gate_.Reading(), SystemReading{});
  gate_.SetReading({.cpu = 0.5, .load = 2});
  EXPECT_EQ(gate_.Reading(), (SystemReading{.cpu = 0.5, .load = 2}));
  gate_.SetReading({.cpu = std::numeric_limits<double>::quiet_NaN(), .load = -1});
  EXPECT_EQ(gate_.Reading(), SystemReading{});
  gate_.SetReading({.cpu = std::numeric_limits<double>::infinity(), .load = {}});
  EXPECT_EQ(gate_.Reading(), SystemReading{});
}

TEST_F(SystemGateTest, TheMeanTimeIsOfTheLastSecond) {
  stats::ResourceStats entrance("(entrance)", "", {}, nullptr);
  gate_.Look(entrance, kT0);
  EXPECT_EQ(gate_.MeanTime(), std::nullopt);
  entrance.Enter(0, kT0, 1);
  entrance.Exit(0, kT0 + 200ms, {1, 200ms, false});
  gate_.Look(entrance, kT0 + 50ms);  // looked at lately
  EXPECT_EQ(gate_.MeanTime(), std::nullopt);
  gate_.Look(entrance, kT0 + 200ms);
  EXPECT_EQ(gate_.MeanTime(), 200ms);
  gate_.Look(entrance, kT0 + 1300ms);
  EXPECT_EQ(gate_.MeanTime(), std::nullopt);
}

TEST_F(SystemGateTest, AClockThatStepsBackDoesNotStopTheLooking) {
  stats::ResourceStats entrance("(entrance)", "", {}, nullptr);
  gate_.Look(entrance, kT0);
  const Instant before = kT0 - 1h;
  entrance.Enter(0, before, 1);
  entrance.Exit(0, before, {1, 70ms, false});
  gate_.Look(entrance, before);
  EXPECT_EQ(gate_.MeanTime(), 70ms);
}

TEST_F(SystemGateTest, NothingIsFullThatHasNotEndedACall) {
  stats::ResourceStats entrance("(entrance)", "", {}, nullptr);
  gate_.Look(entrance, kT0);
  EXPECT_FALSE(gate_.IsFull(1'000));
  // 100 calls of 50 ms in a second: room for 5.
  for (int i = 0; i < 100; ++i) {
    entrance.Enter(0, kT0, 1);
    entrance.Exit(0, kT0, {1, 50ms, false});
  }
  gate_.Look(entrance, kT0 + 1s);
  EXPECT_FALSE(gate_.IsFull(5));
  EXPECT_TRUE(gate_.IsFull(6));
  gate_.Look(entrance, kT0 + 2min);
  EXPECT_FALSE(gate_.IsFull(6));
}

TEST_F(SystemGateTest, SixteenThreadsTakeExactlyTheNumbers) {
  std::atomic<int> entered{0};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      limit::Receipt receipt;
      for (int n = 0; n < 1'000; ++n) {
        if (gate_.TryEnter(1'600)) ++entered;
        if (gate_.Take(1'600, kT0, receipt)) ++taken;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(entered.load(), 1'600);
  EXPECT_EQ(gate_.Inside(), 1'600);
  EXPECT_EQ(taken.load(), 1'600);
  for (int i = 0; i < 1'600; ++i)
    gate_.Leave();
  EXPECT_EQ(gate_.Inside(), 0);
}

}  // namespace
}  // namespace flowguard::engine
