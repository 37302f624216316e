// SPDX-License-Identifier: Apache-2.0
#include "limit/warm_up.h"

#include <cstdint>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "limit/guava_model.h"

namespace flowguard::limit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

Config Warming(int64_t per_second, Duration period, int cold_factor = 3) {
  return {.rate = {per_second, seconds(1)}, .warm_up = period, .cold_factor = cold_factor};
}

GuavaLimiter Guava(int64_t per_second, Duration period, int cold_factor = 3) {
  return GuavaLimiter(Algorithm::kWarmUp, Warming(per_second, period, cold_factor));
}

TestCell Cell(const Config& config) {
  return TestCell(Algorithm::kWarmUp, config);
}

// --- the published tests of Guava's RateLimiter

TEST(WarmUpVectors, WarmsUpAndCoolsDownWhileIdle) {
  GuavaLimiter limiter = Guava(2, seconds(4));
  for (int round = 0; round < 2; ++round) {
    ExpectWaits(limiter.AcquireTimes(8), {0, 1.38, 1.13, 0.88, 0.63, 0.5, 0.5, 0.5});
    limiter.Sleep(0.5);
    limiter.Sleep(4);
  }
  ExpectWaits(limiter.AcquireTimes(8), {0, 1.38, 1.13, 0.88, 0.63, 0.5, 0.5, 0.5});
  limiter.Sleep(0.5);
  limiter.Sleep(2);  // not long enough to get below the threshold
  ExpectWaits(limiter.AcquireTimes(8), {0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
}

TEST(WarmUpVectors, AColdFactorOfTenIsTenTimesSlowerAtFirst) {
  GuavaLimiter limiter = Guava(5, seconds(4), 10);
  ExpectWaits(limiter.AcquireTimes(8), {0, 1.75, 1.26, 0.76, 0.3, 0.2, 0.2, 0.2});
}

TEST(WarmUpVectors, AColdFactorOfOneNeverSlowsDown) {
  GuavaLimiter limiter = Guava(5, seconds(4), 1);
  ExpectWaits(limiter.AcquireTimes(8), {0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2});
}

TEST(WarmUpVectors, ANewRateKeepsTheShareThatIsStored) {
  GuavaLimiter limiter = Guava(2, seconds(4));
  ExpectWaits(limiter.AcquireTimes(8), {0, 1.38, 1.13, 0.88, 0.63, 0.5, 0.5, 0.5});
  limiter.Sleep(4.5);
  ExpectWaits(limiter.AcquireTimes(3), {0, 1.38, 1.13});
  limiter.SetRate(4);
  ExpectWaits(limiter.AcquireTimes(5), {0.88, 0.34, 0.28, 0.25, 0.25});
  limiter.Sleep(4.25);
  ExpectWaits(limiter.AcquireTimes(11),
              {0, 0.72, 0.66, 0.59, 0.53, 0.47, 0.41, 0.34, 0.28, 0.25, 0.25});
}

TEST(WarmUpVectors, ANewRateKeepsTheShareAlsoWithAColdFactorOfTen) {
  GuavaLimiter limiter = Guava(5, seconds(4), 10);
  ExpectWaits(limiter.AcquireTimes(8), {0, 1.75, 1.26, 0.76, 0.3, 0.2, 0.2, 0.2});
  limiter.Sleep(4.2);
  ExpectWaits(limiter.AcquireTimes(3), {0, 1.75, 1.26});
  limiter.SetRate(10);
  ExpectWaits(limiter.AcquireTimes(5), {0.76, 0.2, 0.1, 0.1, 0.1});
  limiter.Sleep(4.1);
  ExpectWaits(limiter.AcquireTimes(11),
              {0, 0.94, 0.81, 0.69, 0.57, 0.44, 0.32, 0.2, 0.1, 0.1, 0.1});
}

// The time from cold to warm is the period however the permits are asked for.
TEST(WarmUpVectors, ThePeriodHoldsWhateverTheWeights) {
  constexpr int64_t kPermits = 10;
  std::mt19937_64 random(1);
  for (const int64_t cold_factor : {2, 3, 10}) {
    for (const Rate rate : {Rate{4, seconds(1)}, Rate{2, seconds(1)}, Rate{1, seconds(1)},
                            Rate{1, seconds(2)}, Rate{1, seconds(10)}}) {
      const int64_t period = (1 + cold_factor) * kPermits * rate.window.count() / (2 * rate.limit);
      GuavaLimiter limiter(Algorithm::kWarmUp, {.rate = rate,
                                                .warm_up = Duration(period),
                                                .cold_factor = static_cast<int>(cold_factor)});
      const int64_t start = limiter.now();
      for (int64_t left = kPermits; left > 0;) {
        const int64_t cost = std::uniform_int_distribution<int64_t>(1, left)(random);
        limiter.Acquire(cost);
        left -= cost;
      }
      limiter.Acquire();  // pays for the last
      EXPECT_NEAR(static_cast<double>(limiter.now() - start), static_cast<double>(period), 100)
          << "cold factor " << cold_factor << " window " << rate.window.count();
    }
  }
}

// Sentinel's warm-up with a queue: once warm, turns at the rate, and none beyond the wait.
TEST(WarmUpVectors, WarmItIsAQueueAtTheRate) {
  Config config = Warming(10, seconds(10));
  config.wait = seconds(1);
  TestCell cell = Cell(config);
  int64_t now = kSecond;
  for (int request = 0; request < 300; ++request)
    now += cell.Decide(now, 1).wait.count();
  const int64_t warm_at = now;
  for (int request = 0; request < 20; ++request)
    now += cell.Decide(now, 1).wait.count();
  EXPECT_EQ(now - warm_at, 20 * 100 * kMs);

  config.wait = milliseconds(10);
  cell.Reload(config);
  now += 100 * kMs;
  EXPECT_TRUE(cell.Decide(now, 1).allowed);
  EXPECT_FALSE(cell.Decide(now, 1).allowed);
}

TEST(WarmUpTest, WaitsAsTheDescriptionInDoublesSays) {
  constexpr int64_t kRates[] = {1, 2, 5, 10, 100, 1000};
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    const int64_t rate = kRates[between(0, 5)];
    const int64_t period_ms = between(1, 20'000);
    const int cold_factor = static_cast<int>(between(1, 12));
    GuavaLimiter limiter = Guava(rate, milliseconds(period_ms), cold_factor);
    GuavaModel model(static_cast<double>(rate), static_cast<double>(period_ms) / 1000, cold_factor);
    const int64_t start = limiter.now();
    for (int step = 0; step < 400; ++step) {
      limiter.Sleep(static_cast<double>(between(0, 3)) * static_cast<double>(between(0, 1000)) /
                    1000 / static_cast<double>(rate));
      if (between(0, 30) == 0) limiter.Sleep(static_cast<double>(between(0, period_ms)) / 1000);
      const int64_t cost = between(0, 9) == 0 ? between(1, 5 * rate) : between(1, 2);
      const double now = static_cast<double>(limiter.now() - start) / 1e9;
      const double wait = model.Acquire(now, static_cast<double>(cost));
      // A permit warms by up to one ns more than by the description.
      ASSERT_NEAR(limiter.Acquire(cost), wait, 1e-5 + wait * 2e-6)
          << "seed " << seed << " step " << step;
    }
  }
}

// --- what a server adds

TEST(WarmUpTest, OneRequestGoesAtATimeAndAnOverLargeOneIsPaidByThoseAfterIt) {
  TestCell cell = Cell(Warming(10, seconds(1), 1));
  EXPECT_EQ(cell.Look(kSecond, 0).limit, 1);
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 1);
  EXPECT_EQ(cell.Decide(kSecond, 1000).remaining, 0);
  const Numbers refused = cell.Decide(kSecond, 1);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.retry_after, seconds(100));
  EXPECT_EQ(refused.reset_after, seconds(100));
  EXPECT_TRUE(cell.Decide(101 * kSecond, 1).allowed);
}

TEST(WarmUpTest, AWaitIsBookedUpToWhatIsConfigured) {
  Config config = Warming(10, seconds(1), 1);
  config.wait = milliseconds(250);
  TestCell cell = Cell(config);
  EXPECT_EQ(cell.Decide(kSecond, 1).wait, milliseconds(0));
  EXPECT_EQ(cell.Decide(kSecond, 1).wait, milliseconds(100));
  EXPECT_EQ(cell.Decide(kSecond, 3).wait, milliseconds(200));
  EXPECT_EQ(cell.Decide(kSecond, 1).retry_after, milliseconds(250));
}

TEST(WarmUpTest, ALimitOfZeroRefusesEverythingButAPeek) {
  TestCell cell = Cell(Warming(0, seconds(1)));
  EXPECT_EQ(cell.Decide(kSecond, 1).retry_after, kNever);
  EXPECT_TRUE(cell.Decide(kSecond, 0).allowed);
}

// Ruled out: warmth that requests gain which never went, and time that they cost.
TEST(WarmUpTest, AGiveBackLeavesTheStateAsItWas) {
  for (const int64_t cost : {1, 3, 100, 1'000'000}) {
    TestCell cell = Cell(Warming(10, seconds(2)));
    int64_t now = kSecond;
    for (int round = 0; round < 30; ++round) {
      const std::vector<uint64_t> before = [&] {
        cell.Decide(now, 1);
        now += cell.Look(now, 0).reset_after.count();
        return cell.state();
      }();
      cell.Decide(now, cost);
      cell.GiveBack(now, cell.receipt());
      ASSERT_EQ(cell.state()[0], before[0]) << round;
      ASSERT_EQ(std::min<uint64_t>(cell.state()[1], 2 * kSecond),
                std::min<uint64_t>(before[1], 2 * kSecond))
          << round;
    }
  }
}

TEST(WarmUpTest, ATurnIsGivenBackOnlyWhileNobodyIsBehind) {
  Config config = Warming(10, seconds(1), 1);
  config.wait = seconds(1);
  TestCell cell = Cell(config);
  cell.Decide(kSecond, 1);
  const Receipt first = cell.receipt();
  cell.Decide(kSecond, 1);
  cell.GiveBack(kSecond, first);
  EXPECT_EQ(cell.Look(kSecond, 0).reset_after, milliseconds(200));
  cell.GiveBack(kSecond, cell.receipt());
  EXPECT_EQ(cell.Look(kSecond, 0).reset_after, milliseconds(100));
}

TEST(WarmUpTest, ChargedUnitsAreDebtUpToWhatIsAllowed) {
  Config config = Warming(10, seconds(1), 1);
  config.max_debt = 5;
  TestCell cell = Cell(config);
  cell.Charge(kSecond, 3);
  EXPECT_EQ(cell.Look(kSecond, 1).retry_after, milliseconds(300));
  cell.Charge(kSecond, 1000);
  EXPECT_EQ(cell.Look(kSecond, 1).retry_after, milliseconds(500));
}

TEST(WarmUpTest, AStepBackOfTheClockKeepsTheDebtAndTheWarmth) {
  TestCell cell = Cell(Warming(10, seconds(1), 1));
  cell.Decide(100 * kSecond, 5);
  EXPECT_EQ(cell.Look(10 * kSecond, 1).retry_after, milliseconds(500));
  EXPECT_EQ(cell.Look(95 * kSecond, 1).retry_after, milliseconds(5500));
  cell.Decide(10 * kSecond, 1);
  EXPECT_TRUE(cell.Decide(10 * kSecond + 500 * kMs, 1).allowed);
}

TEST(WarmUpTest, TellsWhatIsWrongWithItsNumbers) {
  const auto error = [](const Config& config) {
    const auto spec = WarmUp::Make(config);
    return spec.ok() ? std::string() : spec.error().message;
  };
  EXPECT_NE(error(Warming(1, Duration{})).find("warm_up: found 0"), std::string::npos);
  EXPECT_NE(error(Warming(1, Duration(base::kWarmUpMax) + seconds(1))).find("warm_up"),
            std::string::npos);
  EXPECT_NE(error(Warming(1, seconds(1), 0)).find("cold_factor: found 0; allowed 1 to 100"),
            std::string::npos);
  EXPECT_NE(error(Warming(1, seconds(1), 101)).find("cold_factor"), std::string::npos);
  EXPECT_NE(error(Warming(-1, seconds(1))).find("limit: found -1"), std::string::npos);
}

}  // namespace
}  // namespace flowguard::limit
