// SPDX-License-Identifier: Apache-2.0
#include "limit/weighted_average.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int64_t kSecond = 1'000'000'000;

TestCell Average(int64_t limit, Duration window) {
  return TestCell(Algorithm::kWeightedAverage, {.rate = {limit, window}});
}

int64_t AdmittedAt(TestCell& cell, int64_t at) {
  int64_t admitted = 0;
  while (cell.Decide(at, 1).allowed)
    ++admitted;
  return admitted;
}

// The formula without the cap, as it stands in the algorithm's description.
int64_t UncappedAdmissions(int64_t limit, int64_t elapsed_s, int64_t previous) {
  int64_t current = 0;
  while (elapsed_s * current + (60 - elapsed_s) * previous < 60 * limit)
    ++current;
  return current;
}

struct Case {
  int64_t previous, elapsed_s, uncapped;
};
constexpr Case kCases[] = {{0, 1, 6000}, {0, 2, 3000}, {0, 59, 102}, {100, 1, 100}, {50, 1, 3050}};

// Why the cap is forced: 60 times the limit within a second.
TEST(WeightedAverageTest, TheFormulaAloneIsNoLimit) {
  for (const Case& row : kCases) {
    EXPECT_EQ(UncappedAdmissions(100, row.elapsed_s, row.previous), row.uncapped);
  }
}

TEST(WeightedAverageTest, WithTheCapEveryWindowGetsTheLimit) {
  for (const Case& row : kCases) {
    TestCell cell = Average(100, minutes(1));
    if (row.previous > 0) cell.Decide(0, row.previous);
    EXPECT_EQ(AdmittedAt(cell, (60 + row.elapsed_s) * kSecond), 100);
  }
}

TEST(WeightedAverageTest, AFullWindowBlocksTheFirstInstantOfTheNext) {
  TestCell cell = Average(10, seconds(10));
  cell.Decide(0, 10);
  const Numbers refused = cell.Decide(10 * kSecond, 1);
  EXPECT_FALSE(refused.allowed);
  EXPECT_EQ(refused.retry_after, nanoseconds(1));
  EXPECT_TRUE(cell.Decide(10 * kSecond + 1, 10).allowed);
}

TEST(WeightedAverageTest, RetryIsTheNextWindowWhenThisOneIsFull) {
  TestCell cell = Average(10, seconds(10));
  cell.Decide(0, 7);
  EXPECT_EQ(cell.Decide(4 * kSecond, 5).retry_after, seconds(6));
  EXPECT_EQ(cell.Decide(4 * kSecond, 11).retry_after, kNever);
}

TEST(WeightedAverageTest, ALimitOfZeroRefusesEverything) {
  TestCell cell = Average(0, seconds(10));
  EXPECT_EQ(cell.Decide(0, 1).retry_after, kNever);
}

}  // namespace
}  // namespace flowguard::limit
