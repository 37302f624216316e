// SPDX-License-Identifier: Apache-2.0
//
// Properties of every algorithm over long random timelines: equal to a slow model, the
// stated bound in every interval, exact waits, refusals that write nothing, clocks that
// step back, reloads.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "limit/slow_model.h"
#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

constexpr int kTimelines = 60;
constexpr int kSteps = 1500;
constexpr int64_t kStart = 604'800'000'000'000;  // a week after the epoch

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t Between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

 private:
  std::mt19937_64 engine_;
};

bool PaysForward(Algorithm algorithm) {
  return algorithm == Algorithm::kSmoothBursty || algorithm == Algorithm::kWarmUp;
}

// The largest request that an idle cell takes, or one well above what it stores where
// there is no largest.
int64_t LargestCost(const TestCell& cell) {
  return cell.spec().pays_forward() ? 2 * cell.spec().limit() + 20 : cell.spec().limit();
}

// Whether a request may go that costs more than what remains.
bool OneRequestGoes(const AnySpec& spec) {
  return spec.pays_forward() || spec.algorithm() == Algorithm::kWarmUpWindow;
}

// Units that a cell has when nothing was taken for long; of a window that has to warm up
// first, when it is cold.
int64_t WholeQuota(const TestCell& cell) {
  const AnySpec& spec = cell.spec();
  if (spec.algorithm() != Algorithm::kWarmUpWindow) return spec.limit();
  const std::vector<uint64_t> fresh(spec.words(), 0);
  return spec.Look(fresh, Instant{}, 0).remaining;
}

Config RandomConfig(Random& random, Algorithm algorithm) {
  constexpr int64_t kWindows[] = {1'000, 7'919, 1'000'000, 1'000'000'000, 60'000'000'000};
  Config config;
  config.rate.window = Duration(kWindows[random.Between(0, 4)]);
  config.rate.limit = random.OneIn(4) ? random.Between(1, 3) : random.Between(1, 40);
  config.buckets = static_cast<int>(random.Between(1, 12));
  if (random.OneIn(2)) config.max_debt = random.Between(1, 2 * config.rate.limit);
  if (algorithm == Algorithm::kTokenBucket && random.OneIn(2)) {
    config.burst = random.Between(1, 60);
  }
  if (algorithm == Algorithm::kSmoothBursty && random.OneIn(2)) {
    config.burst = random.Between(1, 60);
  }
  if (algorithm == Algorithm::kStepBucket && random.OneIn(2)) {
    config.burst = random.Between(1, 60);
  }
  if (algorithm == Algorithm::kWarmUp || algorithm == Algorithm::kWarmUpWindow) {
    config.warm_up = Duration(config.rate.window.count() * random.Between(1, 8) +
                              random.Between(0, config.rate.window.count()));
    config.cold_factor = static_cast<int>(random.Between(2, 12));
  }
  const bool waits = algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kLeakyBucket ||
                     PaysForward(algorithm);
  if (waits && random.OneIn(2))
    config.wait = Duration(random.Between(1, config.rate.window.count()));
  return config;
}

// Pauses of all sizes, and many exact meetings with boundaries.
int64_t NextTime(Random& random, const Config& config, const Numbers& last, int64_t now) {
  const int64_t window = config.rate.window.count();
  switch (random.Between(0, 9)) {
    case 0:
    case 1:
    case 2:
      return now;
    case 3:
      return now + random.Between(0, window / 4);
    case 4:
      return now + random.Between(0, 3 * window);
    case 5:
      return (now / window + 1) * window - random.Between(0, 1);
    case 6:
      if (last.retry_after == kNever) return now;
      return now + last.retry_after.count();
    default:
      return now + random.Between(0, 2 * window / config.rate.limit);
  }
}

struct Take {
  int64_t at = 0;  // when it goes
  int64_t units = 0;
  Receipt receipt{};
  int64_t model_mark = 0;  // the model's receipt
};

class LimitProperty : public ::testing::TestWithParam<Algorithm> {
 protected:
  template <typename Body>
  void ForTimelines(int timelines, Body&& body) {
    for (int seed = 1; seed <= timelines; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Random random(static_cast<uint64_t>(seed));
      const Config config = RandomConfig(random, GetParam());
      SCOPED_TRACE("limit " + std::to_string(config.rate.limit) + " window " +
                   std::to_string(config.rate.window.count()) + " burst " +
                   std::to_string(config.burst) + " wait " + std::to_string(config.wait.count()) +
                   " debt " + std::to_string(config.max_debt) + " buckets " +
                   std::to_string(config.buckets));
      body(random, config);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(LimitProperty, DecidesAsTheSlowModelDoes) {
  ForTimelines(kTimelines, [](Random& random, const Config& config) {
    TestCell cell(GetParam(), config);
    const auto model = MakeModel(GetParam(), config);
    const bool stock = (GetParam() != Algorithm::kTokenBucket || config.wait.count() == 0) &&
                       !PaysForward(GetParam());
    auto* const warming = dynamic_cast<WarmingWindowModel*>(model.get());
    std::vector<Take> takes;
    Numbers last;
    int64_t now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      now = NextTime(random, config, last, now);
      SCOPED_TRACE("step " + std::to_string(step) + " at " + std::to_string(now));
      const int64_t action = random.Between(0, 19);
      if (action == 0) {
        const int64_t units = random.Between(1, config.rate.limit + 1);
        cell.Charge(now, units);
        model->Charge(now, units);
      } else if (action <= 2 && !takes.empty()) {
        const int64_t back = std::min<int64_t>(random.Between(1, 8), std::ssize(takes));
        Take& take = takes[takes.size() - static_cast<size_t>(back)];
        take.receipt.cost = random.Between(0, take.receipt.cost);  // a part of it
        cell.GiveBack(now, take.receipt);
        model->GiveBack(now, take.receipt.cost, take.model_mark);
        take.receipt.cost = 0;
      } else {
        const int64_t cost = random.OneIn(2) ? 1 : random.Between(1, LargestCost(cell) + 1);
        const bool fits = model->Fits(now, cost);
        last = cell.Decide(now, cost);
        ASSERT_EQ(last.allowed, fits) << "cost " << cost;
        if (fits) {
          takes.push_back({.at = now,
                           .units = cost,
                           .receipt = cell.receipt(),
                           .model_mark = model->Take(now, cost)});
        }
      }
      if (!stock) continue;
      if (warming != nullptr) {
        ASSERT_EQ(cell.Look(now, 0).remaining, warming->Left(now));
        continue;
      }
      int64_t remaining = 0;
      while (remaining < cell.spec().limit() && model->Fits(now, remaining + 1))
        ++remaining;
      ASSERT_EQ(cell.Look(now, 0).remaining, remaining);
    }
  });
}

// Units that may go in a closed interval of `length` ns.
int64_t Bound(Algorithm algorithm, const Config& config, int64_t length, int64_t largest) {
  const int64_t limit = config.rate.limit;
  const int64_t window = config.rate.window.count();
  const int64_t interval = (window + limit - 1) / limit;
  switch (algorithm) {
    case Algorithm::kTokenBucket:
      return (config.burst == 0 ? limit : config.burst) + length / interval;
    case Algorithm::kLeakyBucket:
    case Algorithm::kWarmUp:
      return largest + length / interval;
    case Algorithm::kSmoothBursty:
      return (config.burst == 0 ? limit : config.burst) + length / interval + largest;
    case Algorithm::kSlidingLog:
    case Algorithm::kSlidingBuckets:
      return limit * (length / window + 1);
    case Algorithm::kSlidingWindow:
      if (length < window) return std::min(2 * limit - 1, limit + limit * length / window);
      return limit * (length / window + 2);
    case Algorithm::kFixedWindow:
    case Algorithm::kWeightedAverage:
    case Algorithm::kWarmUpWindow:
      return limit * (length / window + 2);
    case Algorithm::kLeapArray: {
      const int64_t halves = length / (window / 2) + 2;  // that it meets
      return limit * ((halves + 1) / 2);
    }
    case Algorithm::kStepBucket:
      return 2 * (config.burst == 0 ? limit : config.burst) + limit * length / window;
  }
  return 0;
}

TEST_P(LimitProperty, KeepsItsBoundInEveryInterval) {
  ForTimelines(kTimelines, [](Random& random, Config config) {
    config.max_debt = 0;
    TestCell cell(GetParam(), config);
    std::vector<Take> log;
    Numbers last;
    int64_t largest = 0;
    int64_t now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      now = NextTime(random, config, last, now);
      if (random.OneIn(8) && !log.empty()) {
        // The latest take did not go; it counts nowhere.
        cell.GiveBack(now, log.back().receipt);
        log.pop_back();
        continue;
      }
      const int64_t cost = random.OneIn(2) ? 1 : random.Between(1, LargestCost(cell));
      last = cell.Decide(now, cost);
      if (!last.allowed) continue;
      largest = std::max(largest, cost);
      log.push_back({.at = now + last.wait.count(), .units = cost, .receipt = cell.receipt()});
    }
    for (size_t from = 0; from < log.size(); ++from) {
      int64_t units = 0;
      for (size_t to = from; to < log.size(); ++to) {
        units += log[to].units;
        const int64_t length = log[to].at - log[from].at;
        ASSERT_LE(units, Bound(GetParam(), config, length, largest))
            << "from " << log[from].at << " to " << log[to].at;
      }
    }
  });
}

// Give-backs in any order, of any age: takes less give-backs of the interval.
TEST(TokenBucketProperty, TakesLessGiveBacksKeepTheBoundInEveryInterval) {
  for (uint64_t seed = 1; seed <= kTimelines; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Config config = RandomConfig(random, Algorithm::kTokenBucket);
    config.max_debt = 0;
    config.wait = {};
    TestCell cell(Algorithm::kTokenBucket, config);
    std::vector<Take> log;
    Numbers last;
    int64_t now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      now = NextTime(random, config, last, now);
      if (random.OneIn(4) && !log.empty()) {
        Take& take = log[static_cast<size_t>(random.Between(0, std::ssize(log) - 1))];
        const Receipt receipt = std::exchange(take.receipt, {});
        cell.GiveBack(now, receipt);
        log.push_back({.at = now, .units = -receipt.cost, .receipt = {}});
        continue;
      }
      last = cell.Decide(now, random.Between(1, cell.spec().limit()));
      if (!last.allowed) continue;
      log.push_back({.at = now, .units = cell.receipt().cost, .receipt = cell.receipt()});
    }
    for (size_t from = 0; from < log.size(); ++from) {
      int64_t units = 0;
      for (size_t to = from; to < log.size(); ++to) {
        units += log[to].units;
        ASSERT_LE(units, Bound(Algorithm::kTokenBucket, config, log[to].at - log[from].at, 0));
      }
    }
  }
}

TEST_P(LimitProperty, TellsTheShortestSufficientWait) {
  ForTimelines(kTimelines, [](Random& random, const Config& config) {
    TestCell cell(GetParam(), config);
    Numbers last;
    int64_t now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      now = NextTime(random, config, last, now);
      if (random.OneIn(20)) now -= random.Between(0, config.rate.window.count() / 4);
      if (random.OneIn(15)) cell.Charge(now, random.Between(1, config.rate.limit + 1));
      const int64_t cost = random.Between(1, LargestCost(cell) + 1);
      last = cell.Decide(now, cost);
      if (cost > LargestCost(cell) && !cell.spec().pays_forward()) {
        ASSERT_EQ(last.retry_after, kNever);
      } else if (!last.allowed) {
        const int64_t then = now + last.retry_after.count();
        ASSERT_TRUE(cell.Look(then, cost).allowed) << step << " cost " << cost;
        ASSERT_FALSE(cell.Look(then - 1, cost).allowed) << step << " cost " << cost;
      }
      const Numbers look = cell.Look(now, 0);
      if (GetParam() == Algorithm::kWarmUpWindow) continue;  // has a test of its own
      const int64_t full_at = now + look.reset_after.count();
      ASSERT_EQ(cell.Look(full_at, 0).remaining, cell.spec().limit()) << step;
      if (look.reset_after.count() > 0 && GetParam() != Algorithm::kLeakyBucket) {
        ASSERT_LT(cell.Look(full_at - 1, 0).remaining, cell.spec().limit()) << step;
      }
    }
  });
}

TEST_P(LimitProperty, RefusalsAndPeeksWriteNothingAndNumbersAreConsistent) {
  ForTimelines(kTimelines, [](Random& random, const Config& config) {
    TestCell cell(GetParam(), config);
    Numbers last;
    int64_t now = kStart;
    for (int step = 0; step < kSteps; ++step) {
      now = NextTime(random, config, last, now);
      if (random.OneIn(15)) cell.Charge(now, random.Between(1, config.rate.limit + 1));
      const int64_t cost = random.Between(0, LargestCost(cell) + 1);
      const std::vector<uint64_t> before = cell.state();
      const int64_t stock = cell.Look(now, 0).remaining;
      const Numbers look = cell.Look(now, cost);
      const bool up_to = random.OneIn(10);
      last = up_to ? cell.TakeUpTo(now, cost) : cell.Decide(now, cost);

      ASSERT_GE(last.remaining, 0);
      ASSERT_LE(last.remaining, last.limit);
      ASSERT_EQ(last.limit, cell.spec().limit());
      ASSERT_GE(last.reset_after.count(), 0);
      ASSERT_LE(cell.receipt().cost, cost);
      if (last.allowed) {
        ASSERT_EQ(last.retry_after.count(), 0);
        ASSERT_TRUE(last.wait.count() > 0 || last.remaining <= std::max<int64_t>(stock - cost, 0));
        ASSERT_TRUE(cost <= stock || last.wait.count() > 0 || OneRequestGoes(cell.spec())) << cost;
        ASSERT_EQ(look.allowed, last.allowed);
        ASSERT_EQ(look.remaining, last.remaining);
        ASSERT_EQ(look.reset_after, last.reset_after);
        ASSERT_EQ(look.wait, last.wait);
      } else {
        ASSERT_GE(last.retry_after.count(), up_to && config.wait.count() > 0 ? 0 : 1);
        ASSERT_EQ(last.wait.count(), 0);
        ASSERT_LT(stock, cost);
      }
      ASSERT_TRUE(cost > 0 || last.allowed);
      if (cost == 0 || (!last.allowed && !up_to)) {
        ASSERT_EQ(cell.state(), before);
      }
    }
  });
}

TEST_P(LimitProperty, AStateIsFreshOnceItNeedNotBeKept) {
  ForTimelines(kTimelines, [](Random& random, const Config& config) {
    TestCell cell(GetParam(), config);
    Numbers last;
    int64_t now = kStart;
    for (int step = 0; step < kSteps / 4; ++step) {
      now = NextTime(random, config, last, now);
      if (random.OneIn(15)) cell.Charge(now, random.Between(1, config.rate.limit + 1));
      last = cell.Decide(now, random.Between(1, LargestCost(cell)));

      const Numbers then = cell.Look(std::max(cell.KeepUntil(), now), 0);
      ASSERT_EQ(then.remaining, WholeQuota(cell));
      ASSERT_EQ(then.reset_after.count(), 0);
    }
  });
}

// --- clocks

TEST_P(LimitProperty, AStepBackOfTheClockNeverMints) {
  ForTimelines(kTimelines, [](Random& random, const Config& config) {
    TestCell cell(GetParam(), config);
    Numbers last;
    int64_t now = kStart;
    for (int step = 0; step < kSteps / 2; ++step) {
      now = NextTime(random, config, last, now);
      if (random.OneIn(15)) cell.Charge(now, random.Between(1, config.rate.limit + 1));
      const int64_t cost = random.Between(1, LargestCost(cell));
      last = cell.Decide(now, cost);
      if (last.allowed) continue;
      const int64_t back = random.OneIn(2) ? random.Between(0, 3 * config.rate.window.count())
                                           : random.Between(0, kStart / 2);
      ASSERT_FALSE(cell.Look(now - back, cost).allowed) << step << " back " << back;
    }
  });
}

TEST_P(LimitProperty, LateStampsKeepTheBoundOnTheTimeThatWasSeen) {
  ForTimelines(kTimelines, [](Random& random, Config config) {
    config.max_debt = 0;
    config.wait = {};
    TestCell cell(GetParam(), config);
    const int64_t late_most = std::min(config.rate.window.count() / 2, base::kLateStampMax.count());
    std::vector<Take> log;
    Numbers last;
    int64_t now = kStart;
    int64_t seen = 0;
    int64_t largest = 0;
    for (int step = 0; step < kSteps / 2; ++step) {
      now = NextTime(random, config, last, now);
      const int64_t stamp = random.OneIn(3) ? now - random.Between(0, late_most) : now;
      const int64_t cost = random.Between(1, LargestCost(cell));
      last = cell.Decide(stamp, cost);
      if (!last.allowed) continue;
      largest = std::max(largest, cost);
      seen = std::max(seen, stamp);
      log.push_back({.at = seen, .units = cost, .receipt = cell.receipt()});
    }
    for (size_t from = 0; from < log.size(); ++from) {
      int64_t units = 0;
      for (size_t to = from; to < log.size(); ++to) {
        units += log[to].units;
        int64_t length = log[to].at - log[from].at;
        // A filling counts from its stamp, and so from as much earlier.
        if (GetParam() == Algorithm::kStepBucket) length += late_most;
        ASSERT_LE(units, Bound(GetParam(), config, length, largest));
      }
    }
  });
}

TEST_P(LimitProperty, AStepBackLocksOutNoLongerThanTheHorizon) {
  // Whose debt has no horizon.
  if (GetParam() == Algorithm::kSmoothBursty) return;
  ForTimelines(kTimelines, [](Random& random, const Config& config) {
    TestCell cell(GetParam(), config);
    for (int64_t take = 0; take < 200; ++take)
      cell.Decide(kStart, 1);
    cell.Charge(kStart, config.max_debt);
    const int64_t exhausted_for = cell.Look(kStart, 0).reset_after.count();
    const int64_t now = kStart - random.Between(0, kStart / 2);

    cell.Decide(now, 1);  // the first request after the step repairs the state

    const int64_t windows = 2 * config.rate.window.count() + exhausted_for;
    const int64_t then = now + windows + base::kLateStampMax.count();
    EXPECT_TRUE(cell.Decide(then, 1).allowed);
    EXPECT_LE(cell.KeepUntil(),
              then + windows + config.rate.window.count() + base::kLateStampMax.count());
  });
}

// --- reload

TEST_P(LimitProperty, AReloadKeepsExhaustedKeysExhaustedAndNumbersInRange) {
  ForTimelines(kTimelines, [](Random& random, Config config) {
    TestCell cell(GetParam(), config);
    Numbers last;
    int64_t now = kStart;
    for (int step = 0; step < kSteps / 4; ++step) {
      now = NextTime(random, config, last, now);
      if (random.OneIn(20)) {
        const Numbers before = cell.Look(now, 1);
        const Config old = config;
        config = RandomConfig(random, GetParam());
        const bool fixed = GetParam() == Algorithm::kFixedWindow;
        if (random.OneIn(2)) {
          config.rate.window = old.rate.window;
          config.buckets = old.buckets;
        }
        if (fixed && old.max_debt > 0) config.max_debt = old.max_debt;
        config.wait = old.wait;
        config.warm_up = old.warm_up;
        config.cold_factor = old.cold_factor;
        if (GetParam() == Algorithm::kWarmUpWindow) config.rate.window = old.rate.window;
        cell.Reload(config);
        // A larger capacity is given at once (debt is kept in time or in units), so
        // only a cell that cannot go down to a smaller one is held to be exhausted.
        const bool kept_full =
            config.rate.limit <= old.rate.limit && config.burst == 0 && old.burst == 0 &&
            config.rate.window == old.rate.window &&
            (GetParam() != Algorithm::kSlidingBuckets || config.buckets == old.buckets);
        if (!before.allowed && kept_full) {
          ASSERT_FALSE(cell.Look(now, 1).allowed) << step;
        }
      }
      if (random.OneIn(15)) cell.Charge(now, random.Between(1, config.rate.limit + 1));
      const int64_t cost = random.Between(1, LargestCost(cell));
      last = cell.Decide(now, cost);
      ASSERT_GE(last.remaining, 0);
      ASSERT_LE(last.remaining, last.limit);
      if (!last.allowed) {
        ASSERT_TRUE(cell.Look(now + last.retry_after.count(), cost).allowed);
        ASSERT_FALSE(cell.Look(now + last.retry_after.count() - 1, cost).allowed);
      }
    }
  });
}

// --- extremes

TEST_P(LimitProperty, StandsEveryRateAndYearsOfIdleness) {
  constexpr int64_t kYear = 31'536'000'000'000'000;
  for (int seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(static_cast<uint64_t>(seed));
    Config config;
    config.rate.window = Duration(int64_t{1} << random.Between(10, 54));
    config.rate.limit = int64_t{1} << random.Between(0, 40);
    config.burst = random.Between(0, 1) << random.Between(0, 39);
    config.max_debt = random.Between(0, 1) << random.Between(0, 39);
    config.wait = Duration(random.Between(0, 3'600'000'000'000));
    config.buckets = static_cast<int>(random.Between(1, 1000));
    config.warm_up = Duration(random.Between(1'000, Duration(base::kWarmUpMax).count()));
    config.cold_factor = static_cast<int>(random.Between(1, base::kColdFactorMax));
    if (GetParam() == Algorithm::kSlidingLog) config.rate.limit %= 1'000;
    if (!AnySpec::Make(GetParam(), config).ok()) continue;
    TestCell cell(GetParam(), config);
    int64_t now = kStart;
    for (int step = 0; step < 20; ++step) {
      const int64_t cost =
          random.OneIn(4) ? base::kCostMax : random.Between(0, 1 + cell.spec().limit());
      const Numbers numbers = cell.Decide(now, cost);
      ASSERT_GE(numbers.remaining, 0);
      ASSERT_LE(numbers.remaining, numbers.limit);
      ASSERT_GE(numbers.retry_after.count(), 0);
      ASSERT_GE(numbers.reset_after.count(), 0);
      if (random.OneIn(4)) cell.GiveBack(now, cell.receipt());
      if (random.OneIn(4)) cell.Charge(now, base::kCostMax);
      now = random.OneIn(5) ? std::min(now + random.Between(0, 5 * kYear), 70 * kYear)
                            : now + random.Between(0, config.rate.window.count());
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Algorithm>& tested) {
  constexpr const char* kNames[] = {"TokenBucket",     "LeakyBucket",   "SlidingLog",
                                    "SlidingBuckets",  "SlidingWindow", "FixedWindow",
                                    "WeightedAverage", "SmoothBursty",  "WarmUp",
                                    "WarmUpWindow",    "LeapArray",     "StepBucket"};
  return kNames[static_cast<size_t>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(All, LimitProperty,
                         ::testing::Values(Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                           Algorithm::kSlidingLog, Algorithm::kSlidingBuckets,
                                           Algorithm::kSlidingWindow, Algorithm::kFixedWindow,
                                           Algorithm::kWeightedAverage, Algorithm::kSmoothBursty,
                                           Algorithm::kWarmUp, Algorithm::kWarmUpWindow,
                                           Algorithm::kLeapArray, Algorithm::kStepBucket),
                         NameOf);

}  // namespace
}  // namespace flowguard::limit
