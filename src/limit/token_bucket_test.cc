// SPDX-License-Identifier: Apache-2.0
#include "limit/token_bucket.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHour = 3600 * kSecond;

Config PerSecond(int64_t limit, int64_t burst = 0) {
  return {.rate = {limit, seconds(1)}, .burst = burst};
}

TestCell Bucket(const Config& config) {
  return TestCell(Algorithm::kTokenBucket, config);
}

std::string ErrorOf(const Config& config) {
  const auto made = TokenBucket::Make(config);
  return made.ok() ? "" : made.error().message;
}

// The common table of throttled and redis-cell: 1/s, five at once.
TEST(TokenBucketTest, AnswersTheCommonGcraTable) {
  struct Row {
    int64_t at_ms, cost, remaining, reset_ms, retry_ms;
    bool allowed;
  };
  constexpr int64_t kNeverMs = -1;
  constexpr Row kRows[] = {
      {0, 6, 5, 0, kNeverMs, false},   {0, 1, 4, 1000, 0, true},
      {0, 1, 3, 2000, 0, true},        {0, 1, 2, 3000, 0, true},
      {0, 1, 1, 4000, 0, true},        {0, 1, 0, 5000, 0, true},
      {0, 1, 0, 5000, 1000, false},    {3000, 1, 2, 3000, 0, true},
      {3100, 1, 1, 3900, 0, true},     {4000, 1, 1, 4000, 0, true},
      {8000, 1, 4, 1000, 0, true},     {9500, 1, 4, 1000, 0, true},
      {9500, 0, 4, 1000, 0, true},     {9500, 2, 2, 3000, 0, true},
      {9500, 5, 2, 3000, 3000, false}, {15000, 6, 5, 0, kNeverMs, false},
  };
  TestCell cell = Bucket(PerSecond(1, 5));
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::to_string(row.at_ms) + " ms, cost " + std::to_string(row.cost));
    const Numbers numbers = cell.Decide(row.at_ms * kMs, row.cost);
    EXPECT_EQ(numbers.allowed, row.allowed);
    EXPECT_EQ(numbers.limit, 5);
    EXPECT_EQ(numbers.remaining, row.remaining);
    EXPECT_EQ(numbers.reset_after, milliseconds(row.reset_ms));
    EXPECT_EQ(numbers.retry_after, row.retry_ms == kNeverMs ? kNever : milliseconds(row.retry_ms));
  }
}

TEST(TokenBucketTest, WithABurstOfOneSecondCallMustWaitAWholeInterval) {
  TestCell cell = Bucket({.rate = {1, seconds(2)}});
  const Numbers first = cell.Decide(0, 1);
  const Numbers second = cell.Decide(0, 1);
  EXPECT_EQ(first.remaining, 0);
  EXPECT_EQ(first.reset_after, seconds(2));
  EXPECT_EQ(second.retry_after, seconds(2));
}

// A reset that is whole gets no second on top.
TEST(TokenBucketTest, OneTakenOfSixteenResetsAfterExactlyOneInterval) {
  TestCell cell = Bucket({.rate = {30, minutes(1)}, .burst = 16});
  const Numbers numbers = cell.Decide(0, 1);
  EXPECT_EQ(numbers.limit, 16);
  EXPECT_EQ(numbers.remaining, 15);
  EXPECT_EQ(numbers.reset_after, seconds(2));
}

TEST(TokenBucketTest, SpacesUnitsByTheWindowOverTheLimit) {
  EXPECT_EQ(TokenBucket::Make({.rate = {24, hours(24)}})->interval_ns, kHour);
  EXPECT_EQ(TokenBucket::Make({.rate = {6, minutes(1)}})->interval_ns, 10 * kSecond);
  EXPECT_EQ(TokenBucket::Make({.rate = {6, minutes(2)}})->interval_ns, 20 * kSecond);
  EXPECT_EQ(TokenBucket::Make({.rate = {5, seconds(1)}})->interval_ns, 200 * kMs);
}

TEST(TokenBucketTest, RoundsTheIntervalUpSoThatTheRateIsNeverExceeded) {
  EXPECT_EQ(TokenBucket::Make({.rate = {3, seconds(1)}})->interval_ns, 333'333'334);
}

TEST(TokenBucketTest, ATightRunIsRefusedAfterTheBurst) {
  TestCell cell = Bucket({.rate = {3, milliseconds(10)}});
  for (int call = 0; call < 3; ++call)
    EXPECT_TRUE(cell.Decide(0, 1).allowed);
  EXPECT_FALSE(cell.Decide(0, 1).allowed);
}

TEST(TokenBucketTest, CostsAreTakenWholeAndNumbersFollow) {
  TestCell cell = Bucket(PerSecond(10));
  EXPECT_EQ(cell.Decide(0, 1).reset_after, milliseconds(100));
  const Numbers two = cell.Decide(0, 2);
  EXPECT_EQ(two.remaining, 7);
  EXPECT_EQ(two.reset_after, milliseconds(300));
  const Numbers seven = cell.Decide(0, 7);
  EXPECT_EQ(seven.remaining, 0);
  EXPECT_EQ(seven.reset_after, seconds(1));
}

// Ruled out: a finite wait, or even an admission, for a cost above the capacity.
TEST(TokenBucketTest, ACostAboveTheCapacityCanNeverGoAndTakesNothing) {
  TestCell cell = Bucket({.rate = {3, seconds(2)}});
  EXPECT_EQ(cell.Decide(0, 4).retry_after, kNever);
  EXPECT_EQ(cell.Decide(0, 1000).retry_after, kNever);
  EXPECT_EQ(cell.Decide(0, base::kCostMax).retry_after, kNever);
  EXPECT_EQ(cell.Decide(0, std::numeric_limits<int64_t>::max()).retry_after, kNever);
  EXPECT_EQ(cell.Look(0, 0).remaining, 3);
  EXPECT_TRUE(cell.Decide(0, 3).allowed);
  EXPECT_EQ(cell.Decide(3 * kSecond, 4).retry_after, kNever);
}

// Ruled out: peeks that count as hits, create state, or hide exhaustion.
TEST(TokenBucketTest, APeekTellsTheNumbersAndLeavesTheWord) {
  TestCell cell = Bucket({.rate = {3, minutes(1)}});
  EXPECT_EQ(cell.Decide(0, 0).remaining, 3);
  EXPECT_EQ(cell.state()[0], 0u);
  cell.Decide(0, 3);
  const auto before = cell.state();
  EXPECT_EQ(cell.Decide(0, 0).remaining, 0);
  EXPECT_EQ(cell.state(), before);
}

TEST(TokenBucketTest, TheGapBetweenTwoPerSecondIsKept) {
  TestCell cell = Bucket(PerSecond(2));
  EXPECT_TRUE(cell.Decide(0, 1).allowed);
  EXPECT_TRUE(cell.Decide(1 * kMs, 1).allowed);
  EXPECT_FALSE(cell.Decide(2 * kMs, 1).allowed);
  EXPECT_TRUE(cell.Decide(1002 * kMs, 1).allowed);
  EXPECT_TRUE(cell.Decide(1003 * kMs, 1).allowed);
  EXPECT_FALSE(cell.Decide(1004 * kMs, 1).allowed);
}

// Ruled out: one unit too many after a long pause.
TEST(TokenBucketTest, IdlenessEarnsNoMoreThanTheBurst) {
  TestCell cell = Bucket(PerSecond(5));
  for (const int64_t at : {int64_t{0}, 2 * kSecond, 100 * 365 * 24 * kHour}) {
    for (int call = 0; call < 5; ++call)
      EXPECT_TRUE(cell.Decide(at, 1).allowed);
    EXPECT_FALSE(cell.Decide(at, 1).allowed);
  }
}

TEST(TokenBucketTest, SeveralUnitsAtOnceFollowTheSameRate) {
  TestCell cell = Bucket(PerSecond(4));
  EXPECT_TRUE(cell.Decide(0, 2).allowed);
  EXPECT_TRUE(cell.Decide(0, 2).allowed);
  EXPECT_FALSE(cell.Decide(1 * kMs, 2).allowed);
  EXPECT_TRUE(cell.Decide(1001 * kMs, 2).allowed);
  EXPECT_TRUE(cell.Decide(1002 * kMs, 2).allowed);
  EXPECT_FALSE(cell.Decide(1003 * kMs, 2).allowed);
}

TEST(TokenBucketTest, EachRetryAtTheToldTimeSucceeds) {
  TestCell cell = Bucket(PerSecond(5));
  int64_t now = 0;
  for (int round = 0; round < 20; ++round) {
    now += kMs;
    const Numbers numbers = cell.Decide(now, 1);
    if (numbers.allowed) continue;
    now += numbers.retry_after.count();
    EXPECT_TRUE(cell.Decide(now, 1).allowed) << round;
  }
}

TEST(TokenBucketTest, FillsOneUnitAfterTheOtherUpToTheBurst) {
  // Tokens before each step: 3, 1, 1, 0, 1, 2, 2, 2, 1, 0, 0, 3, 0.
  struct Row {
    int64_t tick, cost, tokens;
    bool allowed;
  };
  constexpr Row kRows[] = {{0, 2, 3, true},  {0, 2, 1, false}, {0, 1, 1, true},  {0, 1, 0, false},
                           {1, 4, 1, false}, {2, 1, 2, true},  {3, 1, 2, true},  {4, 1, 2, true},
                           {4, 1, 1, true},  {4, 1, 0, false}, {4, 1, 0, false}, {9, 3, 3, true},
                           {9, 0, 0, true}};
  TestCell cell = Bucket(PerSecond(10, 3));
  for (const Row& row : kRows) {
    SCOPED_TRACE("tick " + std::to_string(row.tick) + " cost " + std::to_string(row.cost));
    EXPECT_EQ(cell.Look(row.tick * 100 * kMs, 0).remaining, row.tokens);
    EXPECT_EQ(cell.Decide(row.tick * 100 * kMs, row.cost).allowed, row.allowed);
  }
}

// Ruled out: the same interval credited twice when time stamps come out of order.
TEST(TokenBucketTest, AnEarlierStampIsStricterAndCreditsNothing) {
  TestCell cell = Bucket(PerSecond(10, 3));
  const int64_t t1 = 100 * kMs;
  EXPECT_TRUE(cell.Decide(t1, 1).allowed);
  EXPECT_TRUE(cell.Decide(0, 1).allowed);
  EXPECT_FALSE(cell.Decide(0, 1).allowed);
  EXPECT_FALSE(cell.Decide(0, 1).allowed);
  EXPECT_TRUE(cell.Decide(t1, 1).allowed);
  EXPECT_FALSE(cell.Decide(t1, 1).allowed);
  EXPECT_TRUE(cell.Decide(2 * t1, 1).allowed);
  EXPECT_FALSE(cell.Decide(2 * t1, 1).allowed);
}

// Ruled out: a skewed stamp that mints a full bucket.
TEST(TokenBucketTest, AStampTenSecondsLateDoesNotRefillADrainedBucket) {
  TestCell cell = Bucket(PerSecond(2, 4));
  const int64_t now = 1000 * kSecond;
  EXPECT_TRUE(cell.Decide(now, 4).allowed);
  EXPECT_FALSE(cell.Decide(now, 1).allowed);
  EXPECT_FALSE(cell.Decide(now - 10 * kSecond, 1).allowed);
  for (int call = 0; call < 5; ++call)
    EXPECT_FALSE(cell.Decide(now, 1).allowed);
}

// Ruled out: a lock-out as long as the step.
TEST(TokenBucketTest, AClockThatStepsBackADayLocksOutForOneCapacityAtMost) {
  TestCell cell = Bucket(PerSecond(5));
  const int64_t now = 48 * kHour;
  cell.Decide(now, 5);
  const int64_t back = 24 * kHour;

  const Numbers refused = cell.Decide(back, 1);

  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.retry_after, milliseconds(200));
  EXPECT_FALSE(cell.Decide(back + 200 * kMs - 1, 1).allowed);
  EXPECT_TRUE(cell.Decide(back + 200 * kMs, 1).allowed);
  EXPECT_EQ(cell.Look(back + 2 * kSecond, 0).remaining, 5);
}

// Ruled out: one unit each 0.2 s lost by truncation, or a fraction lost at each call.
TEST(TokenBucketTest, AClientExactlyAtItsRateIsNeverRefused) {
  TestCell ten = Bucket(PerSecond(10, 1));
  for (int64_t call = 0; call < 10'000; ++call) {
    ASSERT_TRUE(ten.Decide(call * 100 * kMs, 1).allowed) << call;
  }
  TestCell three = Bucket(PerSecond(3, 1));
  for (int64_t call = 0; call < 10'000; ++call) {
    ASSERT_TRUE(three.Decide(call * 333'333'334, 1).allowed) << call;
  }
}

// Ruled out: polling that keeps a slow bucket empty.
TEST(TokenBucketTest, PollingDoesNotStopTheRefill) {
  TestCell cell = Bucket({.rate = {1, seconds(10)}});
  cell.Decide(0, 1);
  int admitted = 0;
  for (int64_t second = 1; second <= 100; ++second) {
    admitted += cell.Decide(second * kSecond, 1).allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 10);
}

TEST(TokenBucketTest, TheBegunUnitIsKeptBetweenCalls) {
  TestCell cell = Bucket({.rate = {10, nanoseconds(1000)}});
  cell.Decide(0, 10);
  EXPECT_TRUE(cell.Decide(970, 9).allowed);
  EXPECT_FALSE(cell.Decide(970, 1).allowed);
  EXPECT_TRUE(cell.Decide(1000, 1).allowed);
  EXPECT_FALSE(cell.Decide(1000, 1).allowed);
}

TEST(TokenBucketTest, RetryCountsWhatIsPartlyProduced) {
  TestCell cell = Bucket(PerSecond(1, 4));
  cell.Decide(0, 4);
  EXPECT_EQ(cell.Decide(200 * kMs, 1).retry_after, milliseconds(800));
  EXPECT_EQ(cell.Decide(200 * kMs, 3).retry_after, milliseconds(2800));
}

// Ruled out: intervals below a millisecond that round to nothing.
TEST(TokenBucketTest, RatesAboveOneThousandASecondAreLimitedExactly) {
  TestCell burst = Bucket(PerSecond(6000));
  int admitted = 0;
  for (int call = 0; call < 10'000; ++call)
    admitted += burst.Decide(0, 1).allowed ? 1 : 0;
  EXPECT_EQ(admitted, 6000);
  TestCell spaced = Bucket(PerSecond(2000, 1));
  EXPECT_TRUE(spaced.Decide(0, 1).allowed);
  EXPECT_EQ(spaced.Decide(0, 1).retry_after, nanoseconds(500'000));
}

// Ruled out: a capacity below one unit, so that slow rates never admit.
TEST(TokenBucketTest, RatesBelowOneASecondAdmitOneAtATime) {
  TestCell half = Bucket({.rate = {1, seconds(2)}});
  for (int64_t call = 0; call < 10; ++call) {
    EXPECT_TRUE(half.Decide(call * 2 * kSecond, 1).allowed);
  }
  TestCell daily = Bucket({.rate = {1, hours(24)}});
  EXPECT_TRUE(daily.Decide(0, 1).allowed);
  EXPECT_FALSE(daily.Decide(24 * kHour - 1, 1).allowed);
  EXPECT_TRUE(daily.Decide(24 * kHour, 1).allowed);
}

TEST(TokenBucketTest, AdmitsTheRateAndTheBurstUnderOverload) {
  TestCell cell = Bucket(PerSecond(100));
  int64_t admitted = 0;
  for (int64_t at = 0; at < 5 * kSecond; at += 2 * kMs) {
    admitted += cell.Decide(at, 1).allowed ? 1 : 0;
  }
  EXPECT_GE(admitted, 599);
  EXPECT_LE(admitted, 601);
}

// Ruled out: a refused expensive call that empties the bucket for everybody.
TEST(TokenBucketTest, ARefusalTakesNothing) {
  TestCell cell = Bucket({.rate = {100, minutes(1)}});
  EXPECT_TRUE(cell.Decide(0, 60).allowed);
  EXPECT_FALSE(cell.Decide(0, 50).allowed);
  const Numbers rest = cell.Decide(0, 40);
  EXPECT_TRUE(rest.allowed);
  EXPECT_EQ(rest.remaining, 0);
}

TEST(TokenBucketTest, TakesSeveralRatesIndependently) {
  TestCell second = Bucket({.rate = {300, seconds(1)}});
  TestCell minute = Bucket({.rate = {14'500, minutes(1)}});
  TestCell hour = Bucket({.rate = {700'000, hours(1)}});
  const int64_t now = 12 * kHour;
  int64_t admitted = 0;
  for (int call = 0; call < 301; ++call) {
    const bool allowed = second.Decide(now, 1).allowed && minute.Decide(now, 1).allowed &&
                         hour.Decide(now, 1).allowed;
    admitted += allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 300);
}

// --- limit 0 and bad numbers

TEST(TokenBucketTest, ALimitOfZeroRefusesEverythingForEver) {
  TestCell cell = Bucket({.rate = {0, seconds(1)}, .burst = 10});
  for (const int64_t at : {int64_t{0}, kSecond, 100 * kHour}) {
    const Numbers numbers = cell.Decide(at, 1);
    EXPECT_FALSE(numbers.allowed);
    EXPECT_EQ(numbers.retry_after, kNever);
    EXPECT_EQ(numbers.remaining, 0);
  }
  EXPECT_EQ(cell.state()[0], 0u);
}

TEST(TokenBucketTest, BadNumbersAreErrorsThatNameTheFieldAndWhatIsAllowed) {
  EXPECT_EQ(ErrorOf({.rate = {-1, seconds(1)}}),
            "limit: found -1; allowed 0 to 1000000000000 units");
  EXPECT_EQ(ErrorOf({.rate = {1, seconds(0)}}),
            "window: found 0; allowed 1000 to 31622400000000000 ns");
  EXPECT_EQ(ErrorOf({.rate = {1, seconds(1)}, .burst = -1}),
            "burst: found -1; allowed 0 to 1000000000000 units");
  EXPECT_EQ(ErrorOf({.rate = {1, seconds(1)}, .wait = seconds(-1)}),
            "wait: found -1000000000; allowed 0 to 3600000000000 ns");
  EXPECT_EQ(ErrorOf({.rate = {1, seconds(1)}, .max_debt = -7}),
            "max_debt: found -7; allowed 0 to 1000000000000 units");
}

// Ruled out: rates and bursts that overflow into no limit at all.
TEST(TokenBucketTest, AbsurdNumbersAreRefusedAndLargeOnesKeptWhole) {
  EXPECT_EQ(ErrorOf(PerSecond(std::numeric_limits<int64_t>::max())),
            "limit: found 9223372036854775807; allowed 0 to 1000000000000 units");
  EXPECT_EQ(ErrorOf(PerSecond(4'000'000'000'000 / 1000)),
            "limit: found 4000000000; allowed 0 to 1000000000 units in this window (one billion a "
            "second)");
  EXPECT_NE(ErrorOf({.rate = {1, hours(24)}, .burst = 1'000'000'000'000}).find("burst: found"),
            std::string::npos);
  constexpr int64_t kBeyond32Bits = (int64_t{1} << 32) + 5;
  TestCell cell = Bucket({.rate = {1000, seconds(1)}, .burst = kBeyond32Bits});
  EXPECT_EQ(cell.Look(0, 0).remaining, kBeyond32Bits);
}

}  // namespace
}  // namespace flowguard::limit
