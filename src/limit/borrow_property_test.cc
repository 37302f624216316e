// SPDX-License-Identifier: Apache-2.0
//
// Over random timelines of usual and prioritised requests: what goes in any interval is
// within the bound of the algorithm, borrowed units counting when they go; waits and
// refusals are exact; a refusal changes nothing.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "limit/borrowing_cell.h"

namespace flowguard::limit {
namespace {

constexpr int kTimelines = 300;
constexpr int kSteps = 400;
constexpr int64_t kStart = 604'800'000'000'000;  // a week after the epoch
constexpr int64_t kWindow = 12'000;

// A request that goes, or went.
struct Gone {
  int64_t at;
  int64_t cost;
  Receipt receipt;
};

class BorrowProperty : public testing::TestWithParam<Algorithm> {
 protected:
  void Run(uint64_t seed);
  void CheckBound(const std::vector<Gone>& gone, const Config& config) const;

  [[nodiscard]] Algorithm algorithm() const { return GetParam(); }
};

// How many units go in [from, to).
int64_t Units(const std::vector<Gone>& gone, int64_t from, int64_t to) {
  int64_t units = 0;
  for (const Gone& one : gone) {
    if (one.at >= from && one.at < to) units += one.cost;
  }
  return units;
}

void BorrowProperty::CheckBound(const std::vector<Gone>& gone, const Config& config) const {
  const int64_t limit = config.rate.limit;
  for (const Gone& first : gone) {
    if (algorithm() == Algorithm::kLeapArray) {
      const int64_t half = first.at - first.at % (kWindow / 2);
      ASSERT_LE(Units(gone, half, half + kWindow), limit) << "from " << half - kStart;
    } else if (algorithm() == Algorithm::kTokenBucket) {
      const int64_t interval = (kWindow - 1) / limit + 1;
      for (const Gone& last : gone) {
        if (last.at < first.at) continue;
        ASSERT_LE(Units(gone, first.at, last.at + 1),
                  config.burst + (last.at - first.at) / interval);
      }
    } else {
      ASSERT_LE(Units(gone, first.at, first.at + kWindow), limit) << "from " << first.at - kStart;
    }
  }
}

void BorrowProperty::Run(uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto between = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine);
  };
  Config config;
  config.rate = {between(1, 12), Duration(kWindow)};
  config.borrow = Duration(between(1, between(0, 1) == 0 ? kWindow / 2 : kWindow));
  if (algorithm() == Algorithm::kSlidingBuckets) config.buckets = static_cast<int>(between(1, 12));
  if (algorithm() == Algorithm::kTokenBucket) config.burst = between(1, 12);
  const int64_t most_cost = config.burst > 0 ? config.burst : config.rate.limit;
  BorrowingCell cell(algorithm(), config);
  std::vector<Gone> gone;
  int64_t now = kStart;
  for (int step = 0; step < kSteps; ++step) {
    now += between(0, 3) == 0 ? between(0, kWindow) : between(0, kWindow / 20);
    if (between(0, 4) == 0 && !gone.empty()) {
      // Who waits gives up, or who went did not need it.  Of a token bucket the last one: it
      // counts by when units are booked, and those behind one that gives up go no earlier.
      const int64_t back = algorithm() == Algorithm::kTokenBucket ? 1 : 5;
      const auto one = gone.end() - between(1, std::min<int64_t>(back, std::ssize(gone)));
      cell.GiveBack(now, one->receipt);
      gone.erase(one);
      continue;
    }
    const int64_t cost = between(0, 5) == 0 ? between(1, most_cost) : 1;
    const bool priority = between(0, 1) == 0;
    const Numbers looked = cell.Look(now, cost, priority);
    const std::vector<uint64_t> before = cell.state();
    const Numbers numbers = cell.Decide(now, cost, priority);
    ASSERT_EQ(looked.allowed, numbers.allowed);
    ASSERT_EQ(looked.wait, numbers.wait);
    ASSERT_EQ(looked.retry_after, numbers.retry_after);
    ASSERT_EQ(looked.remaining, numbers.remaining);
    ASSERT_EQ(looked.reset_after, numbers.reset_after);
    ASSERT_TRUE(priority || numbers.wait == Duration::zero());
    ASSERT_LE(numbers.wait, config.borrow);
    ASSERT_EQ(cell.Look(now, 0, false).remaining, numbers.remaining);
    if (numbers.allowed) {
      gone.push_back({now + numbers.wait.count(), cost, cell.receipt()});
      continue;
    }
    ASSERT_EQ(cell.state(), before);
    ASSERT_GT(numbers.retry_after, Duration::zero());
    ASSERT_TRUE(cell.Look(now + numbers.retry_after.count(), cost, priority).allowed);
    ASSERT_FALSE(cell.Look(now + numbers.retry_after.count() - 1, cost, priority).allowed);
  }
  CheckBound(gone, config);
  // When all is past, the whole quota is there.
  const int64_t later = std::max(now, cell.KeepUntil());
  ASSERT_EQ(cell.Look(later, 0, false).remaining, cell.spec().limit());
  ASSERT_EQ(cell.Look(later, 0, false).reset_after, Duration::zero());
}

TEST_P(BorrowProperty, WhatGoesIsWithinTheBoundAndWaitsAreExact) {
  for (uint64_t seed = 1; seed <= kTimelines; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Run(seed);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(All, BorrowProperty,
                         testing::Values(Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                         Algorithm::kSlidingBuckets, Algorithm::kLeapArray),
                         [](const auto& instance) {
                           switch (instance.param) {
                             case Algorithm::kTokenBucket:
                               return "TokenBucket";
                             case Algorithm::kSlidingLog:
                               return "SlidingLog";
                             case Algorithm::kSlidingBuckets:
                               return "SlidingBuckets";
                             default:
                               return "LeapArray";
                           }
                         });

}  // namespace
}  // namespace flowguard::limit
