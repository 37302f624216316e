// SPDX-License-Identifier: Apache-2.0
//
// What is booked, given back, charged and kept over a reload.
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "limit/test_cell.h"
#include "limit/token_bucket.h"

namespace flowguard::limit {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

Config PerSecond(int64_t limit, int64_t burst = 0) {
  return {.rate = {limit, seconds(1)}, .burst = burst};
}

TestCell Bucket(const Config& config) {
  return TestCell(Algorithm::kTokenBucket, config);
}

// --- wait

TEST(TokenBucketBookingTest, WithinItsWaitARequestIsBookedAndToldHowLong) {
  TestCell cell = Bucket({.rate = {10, seconds(1)}, .burst = 1, .wait = milliseconds(250)});
  EXPECT_EQ(cell.Decide(0, 1).wait, milliseconds(0));
  EXPECT_EQ(cell.Decide(0, 1).wait, milliseconds(100));
  EXPECT_EQ(cell.Decide(0, 1).wait, milliseconds(200));
  const Numbers refused = cell.Decide(0, 1);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.remaining, 0);
  EXPECT_EQ(refused.retry_after, milliseconds(50));
  EXPECT_EQ(cell.Decide(50 * kMs, 1).wait, milliseconds(250));
}

TEST(TokenBucketBookingTest, TheLargestWaitLetsNoImpossibleCostThrough) {
  TestCell cell = Bucket({.rate = {10, seconds(1)}, .wait = base::kWaitMax});
  EXPECT_EQ(cell.Decide(0, 11).retry_after, kNever);
}

// --- give-back, charge, count_refused

TEST(TokenBucketBookingTest, AGiveBackAtOnceUndoesTheTake) {
  TestCell cell = Bucket(PerSecond(5));
  cell.Decide(0, 2);
  const auto before = cell.state();
  cell.Decide(0, 3);
  cell.GiveBack(0, cell.receipt());
  EXPECT_EQ(cell.state(), before);
}

// Ruled out: refunds above the capacity.
TEST(TokenBucketBookingTest, AGiveBackReturnsOnlyWhatHasNotDrained) {
  TestCell cell = Bucket(PerSecond(2));
  cell.Decide(0, 2);
  cell.GiveBack(750 * kMs, cell.receipt());
  EXPECT_EQ(cell.Look(750 * kMs, 0).remaining, 2);
  EXPECT_EQ(cell.Look(750 * kMs, 0).reset_after.count(), 0);
  EXPECT_TRUE(cell.Decide(750 * kMs, 2).allowed);
  EXPECT_FALSE(cell.Decide(750 * kMs, 1).allowed);
}

TEST(TokenBucketBookingTest, ChargesBecomeDebtUpToTheMaximum) {
  TestCell cell = Bucket({.rate = {10, seconds(1)}, .max_debt = 20});
  cell.Decide(0, 4);
  cell.Charge(0, 8);
  const Numbers in_debt = cell.Look(0, 1);
  EXPECT_EQ(in_debt.remaining, 0);
  EXPECT_EQ(in_debt.reset_after, milliseconds(1200));
  EXPECT_EQ(in_debt.retry_after, milliseconds(300));
  cell.Charge(0, 1000);
  EXPECT_EQ(cell.Look(0, 1).reset_after, seconds(3));
  EXPECT_EQ(cell.Look(0, 1).retry_after, milliseconds(2100));
}

TEST(TokenBucketBookingTest, WithoutDebtAChargeStopsAtTheCapacity) {
  TestCell cell = Bucket(PerSecond(10));
  cell.Charge(0, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(cell.Look(0, 1).reset_after, seconds(1));
}

TEST(TokenBucketBookingTest, TakingUpToExhaustionLosesTheBegunUnit) {
  TestCell cell = Bucket(PerSecond(10));
  cell.Decide(0, 9);
  const Numbers numbers = cell.TakeUpTo(50 * kMs, 5);
  EXPECT_FALSE(numbers.allowed);
  EXPECT_EQ(cell.receipt().cost, 1);
  EXPECT_EQ(numbers.remaining, 0);
  EXPECT_EQ(numbers.reset_after, seconds(1));
  EXPECT_EQ(numbers.retry_after, milliseconds(500));
  EXPECT_EQ(cell.TakeUpTo(50 * kMs, 1).retry_after, milliseconds(100));
}

TEST(TokenBucketBookingTest, TakingUpToMoreThanIsThereTakesAllOfIt) {
  TestCell cell = Bucket(PerSecond(10));
  cell.Decide(0, 3);
  cell.TakeUpTo(0, 1000);
  EXPECT_EQ(cell.receipt().cost, 7);
  EXPECT_EQ(cell.Look(0, 1).retry_after, milliseconds(100));
}

// --- reload

// A call that was admitted at 100/s must not cut the debt of 100/min by its charge.
TEST(TokenBucketBookingTest, AChargeByOlderNumbersLeavesALongerDebtAsItIs) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kLeakyBucket}) {
    const AnySpec old = TestCell::MustMake(algorithm, {.rate = {100, seconds(1)}, .max_debt = 5});
    const int64_t debt = 60 * kSecond;
    int64_t word = debt;

    old.Charge(word, 1, TestCell::At(0));

    EXPECT_EQ(word, debt);
  }
}

TEST(TokenBucketBookingTest, DebtIsKeptInTimeWhenTheRateChanges) {
  TestCell cell = Bucket(PerSecond(5, 5));
  cell.Decide(0, 5);  // full again in 1 s
  cell.Reload(PerSecond(10, 5));
  EXPECT_EQ(cell.Look(0, 1).remaining, 0);
  EXPECT_EQ(cell.Look(0, 1).retry_after, milliseconds(600));
  EXPECT_EQ(cell.Look(kSecond, 0).remaining, 5);
}

TEST(TokenBucketBookingTest, ALargerBurstIsThereAtOnceButWhatWasTakenStaysTaken) {
  TestCell cell = Bucket(PerSecond(10, 2));
  cell.Decide(0, 2);
  cell.Reload(PerSecond(10, 4));
  EXPECT_EQ(cell.Look(0, 0).remaining, 2);
}

TEST(TokenBucketBookingTest, ASmallerLimitRefusesUntilTheDebtHasDrained) {
  TestCell cell = Bucket(PerSecond(10, 10));
  cell.Decide(0, 6);
  cell.Reload(PerSecond(10, 5));
  const Numbers numbers = cell.Look(0, 1);
  EXPECT_EQ(numbers.remaining, 0);
  EXPECT_EQ(numbers.retry_after, milliseconds(200));
}

TEST(TokenBucketBookingTest, OldDebtIsClampedToTheNewCapacity) {
  TestCell cell = Bucket({.rate = {1000, hours(24)}});
  cell.Decide(0, 1000);  // a day of debt
  cell.Reload(PerSecond(1000));
  EXPECT_EQ(cell.Decide(0, 1).retry_after, milliseconds(1));
  EXPECT_TRUE(cell.Decide(1 * kMs, 1).allowed);
}

// --- threads

TEST(TokenBucketBookingTest, ThreadsThatCompareAndSwapAdmitExactlyTheBurst) {
  const auto spec = TokenBucket::Make(PerSecond(1, 5));
  std::atomic<int64_t> shared{0};
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 15; ++worker) {
    threads.emplace_back([&] {
      int64_t seen = shared.load();
      while (true) {
        int64_t word = seen;
        Receipt receipt;
        if (!TokenBucket::Decide(*spec, word, TestCell::At(kSecond), 1, receipt).allowed) return;
        if (shared.compare_exchange_strong(seen, word)) break;
      }
      admitted.fetch_add(1);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(admitted.load(), 5);
}

}  // namespace
}  // namespace flowguard::limit
