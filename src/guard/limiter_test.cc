// SPDX-License-Identifier: Apache-2.0
#include "flowguard/limiter.h"

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "limit/token_bucket.h"
#include "testing/manual_clock.h"

namespace flowguard {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LimiterTest : public ::testing::Test {
 protected:
  Limiter Make(Rate rate, int64_t burst = 0, Duration wait = {}) {
    auto made = Limiter::Create({.rate = rate, .burst = burst, .wait = wait, .clock = &clock_});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return *std::move(made);
  }
  testing::ManualClock clock_;
};

TEST_F(LimiterTest, GrantsTheBurstAndThenOneUnitAnInterval) {
  Limiter limiter = Make({10, seconds(1)}, 2);

  EXPECT_TRUE(limiter.TryAcquire());
  EXPECT_TRUE(limiter.TryAcquire());
  EXPECT_FALSE(limiter.TryAcquire());
  clock_.Advance(milliseconds(100) - Duration(1));
  EXPECT_FALSE(limiter.TryAcquire());
  clock_.Advance(Duration(1));
  EXPECT_TRUE(limiter.TryAcquire());
}

TEST_F(LimiterTest, DecidesAsTokenBucketDoesOverARandomTimeline) {
  constexpr uint32_t kSeed = 7'077;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const auto pick = [&random](int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random);
  };
  for (int round = 0; round < 50; ++round) {
    limit::Config config;
    config.rate = {pick(0, 50), milliseconds(pick(1, 1'000))};
    config.burst = config.rate.limit == 0 ? 0 : pick(1, 20);
    auto spec = limit::TokenBucket::Make(config);
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    Limiter limiter = Make(config.rate, config.burst);
    Instant now = clock_.Now();
    int64_t word = 0;
    for (int i = 0; i < 500; ++i) {
      now += Duration(pick(-1'000, 20'000'000));
      const int64_t cost = pick(0, 21);
      limit::Receipt receipt;
      const limit::Numbers numbers = limit::TokenBucket::Decide(*spec, word, now, cost, receipt);
      if (i % 2 == 0) {
        ASSERT_EQ(limiter.TryAcquireAt(now, cost), numbers.allowed) << "step " << i;
      } else {
        const Decision decision = limiter.CheckAt(now, cost);
        ASSERT_EQ(decision.allowed(), numbers.allowed) << "step " << i;
        ASSERT_EQ(decision.remaining, numbers.remaining);
        ASSERT_EQ(decision.reset_after, numbers.reset_after);
        ASSERT_EQ(decision.retry_after, numbers.retry_after);
      }
    }
  }
}

TEST_F(LimiterTest, CostsOutsideTheBurstAreNeverGranted) {
  Limiter limiter = Make({10, seconds(1)}, 5);

  EXPECT_FALSE(limiter.TryAcquire(6));
  EXPECT_FALSE(limiter.TryAcquire(-1));
  EXPECT_EQ(limiter.Check(6).reason, Reason::kInvalidCost);
  EXPECT_EQ(limiter.Check(-1).reason, Reason::kInvalidCost);
  EXPECT_TRUE(limiter.TryAcquire(5));
}

TEST_F(LimiterTest, ALimitOfZeroRefusesAll) {
  Limiter limiter = Make({0, seconds(1)});

  EXPECT_FALSE(limiter.TryAcquire());
  EXPECT_EQ(limiter.Check().reason, Reason::kLimit);
  EXPECT_EQ(limiter.Check().retry_after, kNever);
}

TEST_F(LimiterTest, RefusesAbsurdOptions) {
  EXPECT_FALSE(Limiter::Create({.rate = {-1, seconds(1)}}).ok());
  EXPECT_FALSE(Limiter::Create({.rate = {1, seconds(0)}}).ok());
  EXPECT_FALSE(Limiter::Create({.rate = {1, seconds(1)}, .burst = -1}).ok());
}

TEST_F(LimiterTest, WaitsForUnitsUpToTheTimeoutAndTakesNothingBeyond) {
  Limiter limiter = Make({1, seconds(1)});
  const Instant start = clock_.Now();
  EXPECT_TRUE(limiter.TryAcquireFor(seconds(0)));

  EXPECT_FALSE(limiter.TryAcquireFor(milliseconds(999)));
  EXPECT_EQ(clock_.Now(), start);
  EXPECT_TRUE(limiter.TryAcquireFor(seconds(1)));
  EXPECT_EQ(clock_.Now(), start + seconds(1));
  EXPECT_EQ(limiter.Check(0).reset_after, seconds(1)) << "the refused call booked nothing";
}

TEST_F(LimiterTest, TheOptionBoundsTheWait) {
  Limiter limiter = Make({1, seconds(1)}, 1, seconds(2));
  EXPECT_TRUE(limiter.TryAcquireFor(seconds(60)));
  EXPECT_TRUE(limiter.TryAcquireFor(seconds(60)));
  EXPECT_TRUE(limiter.TryAcquireFor(seconds(60)));

  clock_.Set(clock_.Now() - seconds(2));

  EXPECT_FALSE(limiter.TryAcquireFor(seconds(60)));
}

// After a large step back the limiter must not refuse for as long as the step.
TEST_F(LimiterTest, RecoversFromAClockThatWasHoursAhead) {
  Limiter limiter = Make({1, seconds(1)});
  const Instant now = clock_.Now();
  EXPECT_TRUE(limiter.TryAcquireAt(now + std::chrono::hours(24 * 365)));

  EXPECT_FALSE(limiter.TryAcquireAt(now)) << "never looser than a full bucket of debt";
  EXPECT_FALSE(limiter.TryAcquireAt(now + seconds(1) - Duration(1)));
  EXPECT_TRUE(limiter.TryAcquireAt(now + seconds(1)));
}

TEST_F(LimiterTest, ManyThreadsAreGrantedExactlyTheBurst) {
  Limiter limiter = Make({1, std::chrono::hours(24)}, 10'000);
  const Instant now = clock_.Now();
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1'000; ++j)
        granted.fetch_add(limiter.TryAcquireAt(now) ? 1 : 0);
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(granted.load(), 10'000);
}

TEST_F(LimiterTest, ReadsTheProcessClockByItself) {
  auto limiter = Limiter::Create({.rate = {1, std::chrono::hours(1)}});
  ASSERT_TRUE(limiter.ok());

  EXPECT_TRUE(limiter->TryAcquire());
  EXPECT_FALSE(limiter->TryAcquire());
}

}  // namespace
}  // namespace flowguard
