// SPDX-License-Identifier: Apache-2.0
//
// The published tests of Guava's RateLimiter as its users call it: by Limiter, by
// KeyedLimiter, and by a rule that Guard::CheckFor waits for.
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/guard.h"
#include "flowguard/keyed_limiter.h"
#include "flowguard/limiter.h"

#include "testing/manual_clock.h"

namespace flowguard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kForever = Duration(std::numeric_limits<int64_t>::max());

struct Numbers {
  int64_t per_second = 1;
  Algorithm algorithm = Algorithm::kSmoothBursty;
  Duration warm_up{};
  int cold_factor = 3;
};

// Whom a test asks.
struct Asked {
  std::string name;
  std::function<Decision(Duration timeout, int64_t permits)> check_for;
  std::shared_ptr<void> owner;
};

class GuavaTest : public ::testing::Test {
 protected:
  // Each starts now.
  std::vector<Asked> All(const Numbers& numbers) {
    return {OfLimiter(numbers), OfKeyed(numbers), OfRule(numbers, {}), OfRule(numbers, {"user"})};
  }

  Asked OfLimiter(const Numbers& numbers) {
    auto made = Limiter::Create({.rate = {numbers.per_second, seconds(1)},
                                 .clock = &clock_,
                                 .algorithm = numbers.algorithm,
                                 .warm_up = numbers.warm_up,
                                 .cold_factor = numbers.cold_factor});
    EXPECT_TRUE(made.ok()) << made.error().message;
    auto limiter = std::make_shared<Limiter>(*std::move(made));
    return {"Limiter",
            [limiter](Duration timeout, int64_t permits) {
              return limiter->CheckFor(timeout, permits);
            },
            limiter};
  }
  Asked OfKeyed(const Numbers& numbers) {
    auto made = KeyedLimiter::Create({.rate = {numbers.per_second, seconds(1)},
                                      .clock = &clock_,
                                      .algorithm = numbers.algorithm,
                                      .warm_up = numbers.warm_up,
                                      .cold_factor = numbers.cold_factor});
    EXPECT_TRUE(made.ok()) << made.error().message;
    std::shared_ptr<KeyedLimiter> limiter = *std::move(made);
    return {"KeyedLimiter",
            [limiter](Duration timeout, int64_t permits) {
              return limiter->CheckFor(timeout, "ann", permits);
            },
            limiter};
  }
  static Rule RuleOf(const Numbers& numbers) {
    Rule rule;
    rule.name = "guava";
    rule.rate = {numbers.per_second, seconds(1)};
    rule.algorithm = numbers.algorithm;
    rule.warm_up = numbers.warm_up;
    rule.cold_factor = numbers.cold_factor;
    rule.wait = hours(1);
    return rule;
  }
  Asked OfRule(const Numbers& numbers, std::vector<std::string> by) {
    Rule rule = RuleOf(numbers);
    rule.by = std::move(by);
    RuleSet set;
    set.rules = {rule};
    auto made = Guard::Create(set, {.clock = &clock_});
    EXPECT_TRUE(made.ok()) << made.error().message;
    std::shared_ptr<Guard> guard = *std::move(made);
    guard_ = guard.get();
    return {rule.by.empty() ? "rule" : "rule by user", AskGuard(*guard), guard};
  }
  static std::function<Decision(Duration, int64_t)> AskGuard(Guard& guard) {
    return [&guard](Duration timeout, int64_t permits) {
      const DimensionValue user{"user", "ann"};
      return guard.CheckFor({.resource = "r", .dimensions = {&user, 1}, .cost = permits}, timeout);
    };
  }

  // acquire(): the seconds that it slept.
  double Acquire(const Asked& asked, int64_t permits = 1) {
    const Instant before = clock_.Now();
    EXPECT_TRUE(asked.check_for(kForever, permits).allowed());
    return std::chrono::duration<double>(clock_.Now() - before).count();
  }
  bool TryAcquire(const Asked& asked, int64_t permits, Duration timeout) {
    return asked.check_for(timeout, permits).allowed();
  }
  void ExpectWaits(const Asked& asked, const std::vector<double>& waits) {
    for (const double wait : waits)
      EXPECT_NEAR(Acquire(asked), wait, 0.005001);
  }
  // Guava's limiters are asked one at a time, and time goes on with each.
  void ForEach(const Numbers& numbers, const std::function<void(const Asked&)>& body) {
    for (size_t i = 0; i < 4; ++i) {
      const Asked asked = All(numbers)[i];
      SCOPED_TRACE(asked.name);
      body(asked);
    }
  }

  testing::ManualClock clock_;
  Guard* guard_ = nullptr;  // of the latest OfRule
};

TEST_F(GuavaTest, AFreshLimiterHasNothingStored) {
  ForEach({.per_second = 5}, [&](const Asked& asked) { ExpectWaits(asked, {0, 0.2, 0.2}); });
}

TEST_F(GuavaTest, StoresASecondWhileIdleSinceItWasMade) {
  ForEach({.per_second = 5}, [&](const Asked& asked) {
    clock_.Advance(seconds(2));
    for (const int64_t permits : {1, 1, 3, 1})
      EXPECT_EQ(Acquire(asked, permits), 0);
    EXPECT_EQ(Acquire(asked), 0.2);
  });
}

TEST_F(GuavaTest, PaysForward) {
  ForEach({.per_second = 1}, [&](const Asked& asked) {
    constexpr int64_t kPermits[] = {1, 1, 2, 4, 8, 1};
    constexpr double kWaits[] = {0, 1, 1, 2, 4, 8};
    for (size_t i = 0; i < std::size(kPermits); ++i)
      EXPECT_EQ(Acquire(asked, kPermits[i]), kWaits[i]) << i;
  });
}

TEST_F(GuavaTest, WarmsUpAndCoolsDown) {
  ForEach({.per_second = 2, .algorithm = Algorithm::kWarmUp, .warm_up = seconds(4)},
          [&](const Asked& asked) {
            for (int round = 0; round < 2; ++round) {
              ExpectWaits(asked, {0, 1.38, 1.13, 0.88, 0.63, 0.5, 0.5, 0.5});
              clock_.Advance(milliseconds(4500));
            }
            ExpectWaits(asked, {0, 1.38, 1.13, 0.88, 0.63, 0.5, 0.5, 0.5});
            clock_.Advance(milliseconds(2500));
            ExpectWaits(asked, {0, 0.5, 0.5, 0.5});
          });
}

TEST_F(GuavaTest, TakesNothingWhenTheTimeoutIsTooShort) {
  ForEach({.per_second = 1}, [&](const Asked& asked) {
    EXPECT_TRUE(TryAcquire(asked, 1, {}));
    EXPECT_FALSE(TryAcquire(asked, 1, {}));
    EXPECT_FALSE(TryAcquire(asked, 1, {}));
    clock_.Advance(milliseconds(100));
    EXPECT_FALSE(TryAcquire(asked, 1, {}));
    EXPECT_FALSE(TryAcquire(asked, 1, milliseconds(899)));
    EXPECT_TRUE(TryAcquire(asked, 1, milliseconds(900)));
  });
}

TEST_F(GuavaTest, SomeWaitIsAllowed) {
  for (const Algorithm algorithm : {Algorithm::kSmoothBursty, Algorithm::kWarmUp}) {
    Numbers numbers{.per_second = 5, .algorithm = algorithm, .cold_factor = 3};
    if (algorithm == Algorithm::kWarmUp) {
      numbers.warm_up = seconds(1);
      numbers.cold_factor = 1;
    }
    ForEach(numbers, [&](const Asked& asked) {
      EXPECT_TRUE(TryAcquire(asked, 1, {}));
      EXPECT_TRUE(TryAcquire(asked, 1, milliseconds(200)));
      EXPECT_FALSE(TryAcquire(asked, 1, milliseconds(100)));
      clock_.Advance(milliseconds(100));
      EXPECT_TRUE(TryAcquire(asked, 1, milliseconds(100)));
    });
  }
}

TEST_F(GuavaTest, ANegativeTimeoutIsNone) {
  ForEach({.per_second = 5}, [&](const Asked& asked) {
    EXPECT_TRUE(TryAcquire(asked, 5, {}));
    clock_.Advance(milliseconds(900));
    EXPECT_FALSE(TryAcquire(asked, 1, Duration(std::numeric_limits<int64_t>::min())));
    clock_.Advance(milliseconds(100));
    EXPECT_TRUE(TryAcquire(asked, 1, Duration(-1)));
  });
}

// Ruled out: a new rate that starts the limiter anew, or that reprices what was promised.
TEST_F(GuavaTest, ANewRateKeepsWhatWasPromisedAtTheOldOne) {
  for (const bool keyed : {false, true}) {
    Numbers numbers{.per_second = 2, .algorithm = Algorithm::kWarmUp, .warm_up = seconds(4)};
    const Asked asked =
        OfRule(numbers, keyed ? std::vector<std::string>{"user"} : std::vector<std::string>{});
    ExpectWaits(asked, {0, 1.38, 1.13});
    numbers.per_second = 4;
    RuleSet set;
    set.rules = {RuleOf(numbers)};
    if (keyed) set.rules[0].by = {"user"};
    ASSERT_TRUE(guard_->Reload(set).ok());
    ExpectWaits(asked, {0.88, 0.34, 0.28, 0.25, 0.25});
  }
}

TEST_F(GuavaTest, TellsTheWaitOfARefusal) {
  ForEach({.per_second = 1}, [&](const Asked& asked) {
    EXPECT_TRUE(TryAcquire(asked, 10, {}));
    const Decision decision = asked.check_for(seconds(4), 1);
    EXPECT_EQ(decision.verdict, Verdict::kRefuse);
    EXPECT_EQ(decision.reason, Reason::kLimit);
    EXPECT_EQ(decision.retry_after, seconds(6));
    EXPECT_EQ(asked.check_for({}, -1).reason, Reason::kInvalidCost);
  });
}

TEST_F(GuavaTest, OneAtATimeGoesHoweverManyThreadsAsk) {
  for (const Algorithm algorithm : {Algorithm::kSmoothBursty, Algorithm::kWarmUp}) {
    Numbers numbers{.per_second = 1, .algorithm = algorithm};
    if (algorithm == Algorithm::kWarmUp) numbers.warm_up = seconds(10);
    for (const Asked& asked : All(numbers)) {
      std::atomic<int> went{0};
      std::vector<std::thread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          for (int call = 0; call < 200; ++call)
            went.fetch_add(asked.check_for({}, 1).allowed() ? 1 : 0);
        });
      }
      for (std::thread& thread : threads)
        thread.join();
      EXPECT_EQ(went.load(), 1) << asked.name;
    }
  }
}

TEST_F(GuavaTest, AKeyedLimiterKeepsItsKeysApart) {
  auto made = KeyedLimiter::Create({.rate = {1, seconds(1)},
                                    .capacity = 5'000,
                                    .clock = &clock_,
                                    .algorithm = Algorithm::kWarmUp,
                                    .warm_up = seconds(10)});
  ASSERT_TRUE(made.ok()) << made.error().message;
  KeyedLimiter& limiter = **made;
  for (int key = 0; key < 5'000; ++key)
    ASSERT_TRUE(limiter.TryAcquire(std::to_string(key))) << key;
  for (int key = 0; key < 5'000; ++key)
    ASSERT_FALSE(limiter.TryAcquire(std::to_string(key))) << key;
  EXPECT_EQ(limiter.evictions(), 0u);
  const std::vector<std::string_view> keys = {"1", "new", "2"};
  bool allowed[3] = {};
  limiter.TryAcquireBatch(clock_.Now(), keys, allowed);
  EXPECT_FALSE(allowed[0]);
  EXPECT_TRUE(allowed[1]);
  EXPECT_FALSE(allowed[2]);
  EXPECT_GT(limiter.bytes(), 0u);
}

TEST_F(GuavaTest, AKeyedTokenBucketWaitsToo) {
  auto made = KeyedLimiter::Create({.rate = {1, seconds(1)}, .clock = &clock_});
  ASSERT_TRUE(made.ok()) << made.error().message;
  KeyedLimiter& limiter = **made;
  const Instant start = clock_.Now();
  EXPECT_TRUE(limiter.CheckFor(seconds(0), "ann").allowed());
  EXPECT_EQ(limiter.CheckFor(milliseconds(999), "ann").retry_after, Duration(milliseconds(1)));
  EXPECT_EQ(clock_.Now(), start);
  EXPECT_TRUE(limiter.CheckFor(seconds(1), "ann").allowed());
  EXPECT_EQ(clock_.Now(), start + seconds(1));
  EXPECT_FALSE(limiter.TryAcquire("ann"));
}

// What was booked ahead is no sign of a clock that stepped back.
TEST_F(GuavaTest, AKeyedTokenBucketKeepsWhatIsBookedAhead) {
  auto made = KeyedLimiter::Create({.rate = {1, seconds(60)}, .clock = &clock_});
  ASSERT_TRUE(made.ok()) << made.error().message;
  KeyedLimiter& limiter = **made;
  const Instant start = clock_.Now();
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(limiter.CheckFor(hours(1), "ann").allowed());
  clock_.Set(start);  // another thread, which does not sleep
  EXPECT_FALSE(limiter.TryAcquire("ann"));
  EXPECT_EQ(limiter.CheckAt(start, "ann").reset_after, seconds(180));
}

TEST_F(GuavaTest, TellsWhatIsWrongWithItsOptions) {
  const auto limiter = [](const LimiterOptions& options) { return Limiter::Create(options).ok(); };
  EXPECT_FALSE(limiter({.rate = {1, seconds(1)}, .algorithm = Algorithm::kSlidingLog}));
  EXPECT_FALSE(limiter({.rate = {1, seconds(1)}, .algorithm = Algorithm::kWarmUp}));
  EXPECT_FALSE(limiter({.rate = {1, seconds(1)},
                        .burst = 4,
                        .algorithm = Algorithm::kWarmUp,
                        .warm_up = seconds(1)}));
  EXPECT_FALSE(limiter(
      {.rate = {1, seconds(1)}, .algorithm = Algorithm::kSmoothBursty, .warm_up = seconds(1)}));
  EXPECT_FALSE(limiter({.rate = {-1, seconds(1)}, .algorithm = Algorithm::kSmoothBursty}));
  EXPECT_TRUE(limiter({.rate = {0, seconds(1)}, .algorithm = Algorithm::kSmoothBursty}));
  EXPECT_FALSE(KeyedLimiter::Create({.rate = {1, seconds(1)},
                                     .capacity = size_t{1} << 60,
                                     .algorithm = Algorithm::kWarmUp,
                                     .warm_up = seconds(1)})
                   .ok());
}

}  // namespace
}  // namespace flowguard
