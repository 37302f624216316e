// SPDX-License-Identifier: Apache-2.0
#include "limit/sliding_window.h"

#include <algorithm>
#include <cstdint>
#include <deque>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86'400 * kSecond;

TestCell Window(int64_t limit, Duration window, int64_t max_debt = 0) {
  return TestCell(Algorithm::kSlidingWindow, {.rate = {limit, window}, .max_debt = max_debt});
}

int64_t AdmittedAt(TestCell& cell, int64_t at) {
  int64_t admitted = 0;
  while (cell.Decide(at, 1).allowed)
    ++admitted;
  return admitted;
}

// After a full window of 100, at 1, 10, 30 and 59 s of the next.
TEST(SlidingWindowTest, AdmitsTheShareThatThePreviousWindowHasFreed) {
  constexpr struct {
    int64_t second, admitted;
  } kRows[] = {{0, 0}, {1, 1}, {10, 16}, {30, 50}, {59, 98}};
  for (const auto& row : kRows) {
    TestCell cell = Window(100, minutes(1));
    cell.Decide(0, 100);
    EXPECT_EQ(AdmittedAt(cell, (60 + row.second) * kSecond), row.admitted) << row.second;
  }
}

TEST(SlidingWindowTest, AFreshClientGetsTheLimitAtAnyMoment) {
  for (const int64_t second : {0, 1, 30, 59}) {
    TestCell cell = Window(100, minutes(1));
    EXPECT_EQ(AdmittedAt(cell, second * kSecond), 100);
  }
}

// Ruled out: twice the limit across a boundary.
TEST(SlidingWindowTest, ABurstAroundABoundaryGetsTheLimitOnce) {
  TestCell cell = Window(10, minutes(1));
  EXPECT_EQ(AdmittedAt(cell, 59'999 * kMs), 10);
  EXPECT_EQ(AdmittedAt(cell, 60'001 * kMs), 0);
}

TEST(SlidingWindowTest, TheWorstTimingGetsLessThanTwiceTheLimitInAWindow) {
  TestCell cell = Window(100, minutes(1));
  std::deque<int64_t> window;
  size_t most = 0;
  const auto take = [&](int64_t at) {
    if (!cell.Decide(at, 1).allowed) return;
    window.push_back(at);
    while (window.front() <= at - 60 * kSecond)
      window.pop_front();
    most = std::max(most, window.size());
  };
  for (int call = 0; call < 200; ++call)
    take(59'999 * kMs);
  for (int64_t at = 59'999 * kMs; at < 120 * kSecond; at += kMs)
    take(at);
  EXPECT_LE(most, 199u);
  EXPECT_GE(most, 195u);
}

// Ruled out: a client that is refused for ever because refusals count.
TEST(SlidingWindowTest, ASteadyClientAboveTheLimitGetsItsShare) {
  TestCell cell = Window(5, seconds(10));
  int64_t first = 0;
  int64_t all = 0;
  for (int64_t second = 0; second < 60; ++second) {
    const bool allowed = cell.Decide(second * kSecond, 1).allowed;
    all += allowed ? 1 : 0;
    first += allowed && second < 10 ? 1 : 0;
  }
  EXPECT_EQ(first, 5);
  EXPECT_EQ(all, 25);
}

TEST(SlidingWindowTest, RetryIsTheMomentTheShareIsFreed) {
  TestCell cell = Window(10, seconds(10));
  cell.Decide(0, 10);
  EXPECT_EQ(cell.Decide(10 * kSecond, 1).retry_after, seconds(1));
  EXPECT_EQ(cell.Decide(10 * kSecond, 3).retry_after, seconds(3));
  EXPECT_EQ(cell.Decide(5 * kSecond, 1).retry_after, seconds(6));
  EXPECT_EQ(cell.Decide(5 * kSecond, 10).retry_after, seconds(15));
  EXPECT_EQ(cell.Decide(5 * kSecond, 11).retry_after, kNever);
}

TEST(SlidingWindowTest, FullAgainAtTheEndOfTheWindowAfterTheLastUnit) {
  TestCell cell = Window(10, seconds(10));
  EXPECT_EQ(cell.Decide(3 * kSecond, 1).reset_after, seconds(17));
  EXPECT_EQ(cell.Look(12 * kSecond, 0).reset_after, seconds(8));
}

TEST(SlidingWindowTest, ProductsBeyond64BitsAreExact) {
  TestCell cell = Window(1'000'000'000'000, std::chrono::hours(24 * 366));
  const int64_t window = 366 * kDay;
  cell.Decide(0, 1'000'000'000'000);
  EXPECT_EQ(cell.Look(window + window / 2, 0).remaining, 500'000'000'000);
}

TEST(SlidingWindowTest, AStampBeforeTheNewestWindowCountsAsItsStart) {
  TestCell cell = Window(10, seconds(10));
  cell.Decide(0, 10);
  cell.Decide(12 * kSecond, 1);
  EXPECT_FALSE(cell.Decide(9 * kSecond, 1).allowed);
  EXPECT_EQ(cell.Decide(9 * kSecond, 1).retry_after, seconds(3));
}

TEST(SlidingWindowTest, AfterAStepBackAllCountsAsTakenInTheCurrentWindow) {
  TestCell cell = Window(10, seconds(10));
  cell.Decide(9 * kDay, 10);
  EXPECT_FALSE(cell.Decide(8 * kDay, 1).allowed);
  EXPECT_EQ(cell.Look(8 * kDay, 1).retry_after, seconds(11));
}

TEST(SlidingWindowTest, AGiveBackCountsInTheCurrentAndThePreviousWindow) {
  TestCell cell = Window(10, seconds(10));
  cell.Decide(0, 6);
  const Receipt receipt = cell.receipt();
  cell.GiveBack(10 * kSecond, {.cost = 2, .mark = receipt.mark});
  EXPECT_EQ(cell.Look(10 * kSecond, 0).remaining, 6);
  cell.Decide(20 * kSecond, 10);
  cell.GiveBack(20 * kSecond, receipt);
  EXPECT_EQ(cell.Look(20 * kSecond, 0).remaining, 0);
}

TEST(SlidingWindowTest, AChargeMayExceedTheLimitByTheDebtAndWeighsOn) {
  TestCell cell = Window(10, seconds(10), 10);
  cell.Decide(0, 8);
  cell.Charge(0, 1000);
  EXPECT_EQ(cell.Look(0, 1).remaining, 0);
  EXPECT_EQ(cell.Look(10 * kSecond, 1).retry_after, milliseconds(5500));
}

TEST(SlidingWindowTest, ALoweredLimitNeverShowsANegativeRest) {
  TestCell cell = Window(100, seconds(10));
  cell.Decide(0, 80);
  cell.Reload({.rate = {50, seconds(10)}});
  EXPECT_EQ(cell.Look(0, 1).remaining, 0);
  EXPECT_FALSE(cell.Look(10 * kSecond, 1).allowed);
}

TEST(SlidingWindowTest, ALimitOfZeroRefusesEverything) {
  TestCell cell = Window(0, seconds(10));
  EXPECT_EQ(cell.Decide(0, 1).retry_after, kNever);
}

}  // namespace
}  // namespace flowguard::limit
