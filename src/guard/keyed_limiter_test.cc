// SPDX-License-Identifier: Apache-2.0
#include "flowguard/keyed_limiter.h"

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/manual_clock.h"

namespace flowguard {
namespace {

using namespace std::chrono_literals;

TEST(KeyedLimiterTest, CountsEachKeyByItself) {
  testing::ManualClock clock;
  auto limiter = KeyedLimiter::Create({.rate = {1, 1s}, .burst = 2, .clock = &clock}).value();

  EXPECT_TRUE(limiter->TryAcquire("ada"));
  EXPECT_TRUE(limiter->TryAcquire("ada"));
  EXPECT_FALSE(limiter->TryAcquire("ada"));
  EXPECT_TRUE(limiter->TryAcquire("bob"));
}

TEST(KeyedLimiterTest, TellsTheShortestWaitThatHelps) {
  testing::ManualClock clock;
  auto limiter = KeyedLimiter::Create({.rate = {10, 1s}, .burst = 1, .clock = &clock}).value();
  ASSERT_TRUE(limiter->TryAcquire("ada"));

  const Decision refused = limiter->CheckAt(clock.Now(), "ada");
  clock.Advance(refused.retry_after - 1ns);
  const bool too_early = limiter->TryAcquire("ada");
  clock.Advance(1ns);
  const bool in_time = limiter->TryAcquire("ada");

  EXPECT_EQ(refused.retry_after, 100ms);
  EXPECT_FALSE(too_early);
  EXPECT_TRUE(in_time);
}

TEST(KeyedLimiterTest, NegativeCostIsRefusedAndMintsNothing) {
  testing::ManualClock clock;
  auto limiter = KeyedLimiter::Create({.rate = {1, 1h}, .clock = &clock}).value();
  ASSERT_TRUE(limiter->TryAcquire("ada"));

  EXPECT_FALSE(limiter->TryAcquire("ada", -5));
  EXPECT_EQ(limiter->CheckAt(clock.Now(), "ada", -5).reason, Reason::kInvalidCost);
  EXPECT_FALSE(limiter->TryAcquire("ada"));
}

TEST(KeyedLimiterTest, ACostAboveTheBurstIsInvalidAndALimitOfZeroIsALimit) {
  testing::ManualClock clock;
  auto limiter = KeyedLimiter::Create({.rate = {1, 1s}, .burst = 2, .clock = &clock}).value();
  EXPECT_EQ(limiter->CheckAt(clock.Now(), "ada", 3).reason, Reason::kInvalidCost);
  EXPECT_EQ(limiter->CheckAt(clock.Now(), "ada", 2).reason, Reason::kNone);
  EXPECT_EQ(limiter->CheckAt(clock.Now(), "ada", 2).reason, Reason::kLimit);

  auto none = KeyedLimiter::Create({.rate = {0, 1s}, .clock = &clock}).value();
  EXPECT_EQ(none->CheckAt(clock.Now(), "ada", 1).reason, Reason::kLimit);
}

TEST(KeyedLimiterTest, BatchAnswersAsOneByOneInOrder) {
  testing::ManualClock clock;
  auto limiter = KeyedLimiter::Create({.rate = {1, 1h}, .clock = &clock}).value();
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i)
    names.push_back("key" + std::to_string(i % 70));
  std::vector<std::string_view> keys(names.begin(), names.end());
  std::array<bool, 100> allowed{};

  limiter->TryAcquireBatch(clock.Now(), keys, allowed);

  for (size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(allowed[i], i < 70) << i;
}

TEST(KeyedLimiterTest, RefusesAbsurdOptions) {
  EXPECT_FALSE(KeyedLimiter::Create({.rate = {-1, 1s}}).ok());
  EXPECT_FALSE(KeyedLimiter::Create({.rate = {1, 0s}}).ok());
  EXPECT_FALSE(KeyedLimiter::Create({.rate = {1, 1s}, .capacity = 0}).ok());
}

TEST(KeyedLimiterTest, ColdKeysHitByManyThreadsAdmitOnceEach) {
  testing::ManualClock clock;
  auto limiter =
      KeyedLimiter::Create({.rate = {1, 1h}, .capacity = 20'000, .clock = &clock}).value();
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;

  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i)
        admitted += limiter->TryAcquire("key" + std::to_string(i));
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(admitted.load(), 10'000);
}

}  // namespace
}  // namespace flowguard
