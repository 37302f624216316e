// SPDX-License-Identifier: Apache-2.0
#include "limit/leap_array.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStart = int64_t{86'400'000} * kMs;  // a whole minute, as in the vectors

TestCell PerSecond(int64_t limit, int64_t max_debt = 0) {
  return TestCell(Algorithm::kLeapArray, {.rate = {limit, seconds(1)}, .max_debt = max_debt});
}

// How many units go at each of these ms, one by one until one is refused.
std::vector<int64_t> Greedy(TestCell cell, const std::vector<int64_t>& at_ms) {
  std::vector<int64_t> passed;
  for (const int64_t ms : at_ms) {
    int64_t count = 0;
    while (cell.Decide(kStart + ms * kMs, 1).allowed)
      ++count;
    passed.push_back(count);
  }
  return passed;
}

using Counts = std::vector<int64_t>;

// As observed on Sentinel itself, and so the next two.
TEST(LeapArrayVectors, CountsTheHalfBeforeToo) {
  EXPECT_EQ(Greedy(PerSecond(10), {0, 499, 500, 999, 1000, 1500, 2000}),
            (Counts{10, 0, 0, 0, 10, 0, 10}));
}

TEST(LeapArrayVectors, TwiceTheLimitPassesAroundAnEdge) {
  EXPECT_EQ(Greedy(PerSecond(10), {999, 1000, 1499, 1500, 2000, 2500}),
            (Counts{10, 0, 0, 10, 0, 10}));
}

TEST(LeapArrayVectors, ARequestGoesWholeOrNotAtAll) {
  TestCell cell = PerSecond(5);
  Counts passed;
  for (const int64_t cost : {6, 3, 3, 2, 1})
    passed.push_back(cell.Decide(kStart, cost).allowed ? cost : 0);
  EXPECT_EQ(passed, (Counts{0, 3, 0, 2, 0}));
}

TEST(LeapArrayTest, TellsWhenEnoughOfItIsGone) {
  TestCell cell = PerSecond(10);
  cell.Decide(kStart + 100 * kMs, 4);
  cell.Decide(kStart + 600 * kMs, 3);

  const Numbers now = cell.Look(kStart + 700 * kMs, 0);
  EXPECT_EQ(now.remaining, 3);
  EXPECT_EQ(now.reset_after, milliseconds(800)) << "at 1500 the 3 are gone too";
  EXPECT_EQ(cell.Look(kStart + 700 * kMs, 7).retry_after, milliseconds(300));
  EXPECT_EQ(cell.Look(kStart + 700 * kMs, 8).retry_after, milliseconds(800));
  EXPECT_EQ(cell.Look(kStart + 700 * kMs, 11).retry_after, kNever);
}

TEST(LeapArrayTest, AGiveBackCountsWhileItsHalfDoes) {
  TestCell cell = PerSecond(10);
  cell.Decide(kStart, 6);
  const Receipt early = cell.receipt();
  cell.Decide(kStart + 500 * kMs, 4);
  cell.GiveBack(kStart + 500 * kMs, early);
  EXPECT_EQ(cell.Look(kStart + 500 * kMs, 0).remaining, 6);

  cell.GiveBack(kStart + 1000 * kMs, early);
  EXPECT_EQ(cell.Look(kStart + 1000 * kMs, 0).remaining, 6) << "the 4 of the half before";
}

TEST(LeapArrayTest, ChargedUnitsLeaveWithTheirHalf) {
  TestCell cell = PerSecond(10, 5);
  cell.Decide(kStart, 10);
  cell.Charge(kStart, 9);
  EXPECT_EQ(cell.Look(kStart + 500 * kMs, 1).retry_after, milliseconds(500));
  EXPECT_EQ(cell.Look(kStart + 1000 * kMs, 0).remaining, 10);
}

TEST(LeapArrayTest, ALimitOfZeroRefusesEverythingButAPeek) {
  TestCell cell = PerSecond(0);
  EXPECT_TRUE(cell.Decide(kStart, 0).allowed);
  EXPECT_FALSE(cell.Decide(kStart, 1).allowed);
  EXPECT_EQ(cell.Look(kStart, 1).retry_after, kNever);
}

}  // namespace
}  // namespace flowguard::limit
