// SPDX-License-Identifier: Apache-2.0
#include "limit/step_bucket.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStart = int64_t{86'400'000} * kMs;

using Counts = std::vector<int64_t>;

TestCell Bucket(int64_t limit, Duration window, int64_t burst = 0, int64_t max_debt = 0) {
  return TestCell(Algorithm::kStepBucket,
                  {.rate = {limit, window}, .burst = burst, .max_debt = max_debt});
}

// How many units go at each of these ms, one by one until one is refused.
Counts Greedy(TestCell cell, const Counts& at_ms) {
  Counts passed;
  for (const int64_t ms : at_ms) {
    int64_t count = 0;
    while (cell.Decide(kStart + ms * kMs, 1).allowed)
      ++count;
    passed.push_back(count);
  }
  return passed;
}

const Counts kTimes = {0, 500, 1000, 1001, 1200, 2002, 2003, 3500, 61'000, 61'001};

// As observed on Sentinel itself, and so the next four.
TEST(StepBucketVectors, FillsUpAfterMoreThanTheWindow) {
  EXPECT_EQ(Greedy(Bucket(5, seconds(1)), kTimes), (Counts{5, 0, 0, 5, 0, 5, 0, 5, 5, 0}));
  EXPECT_EQ(Greedy(Bucket(2, seconds(1)), kTimes), (Counts{2, 0, 0, 2, 0, 2, 0, 2, 2, 0}));
}

TEST(StepBucketVectors, ABurstComesBackAtTheRate) {
  EXPECT_EQ(Greedy(Bucket(5, seconds(1), 8), kTimes), (Counts{8, 0, 0, 5, 0, 5, 0, 7, 8, 0}));
}

TEST(StepBucketVectors, AMinuteIsWaitedForWhole) {
  EXPECT_EQ(Greedy(Bucket(5, seconds(60)), kTimes), (Counts{5, 0, 0, 0, 0, 0, 0, 0, 5, 0}));
}

TEST(StepBucketVectors, BatchesOfOneValue) {
  TestCell cell = Bucket(5, seconds(1));
  Counts passed;
  for (const int64_t cost : {6, 3, 3, 2})
    passed.push_back(cell.Decide(kStart, cost).allowed ? cost : 0);
  EXPECT_EQ(passed, (Counts{0, 3, 0, 2}));
}

TEST(StepBucketTest, TellsTheFillingThatIsEnough) {
  TestCell cell = Bucket(5, seconds(1), 20);
  cell.Decide(kStart, 20);
  EXPECT_EQ(cell.Look(kStart, 5).retry_after, seconds(1) + nanoseconds(1));
  EXPECT_EQ(cell.Look(kStart, 6).retry_after, milliseconds(1200));
  EXPECT_EQ(cell.Look(kStart, 21).retry_after, kNever);
  EXPECT_EQ(cell.Look(kStart, 0).reset_after, seconds(4));
  EXPECT_EQ(cell.Look(kStart + 1100 * kMs, 6).retry_after, milliseconds(100))
      << "a refusal leaves the filling where it was";
}

TEST(StepBucketTest, AGiveBackCountsUntilTheNextFilling) {
  TestCell cell = Bucket(5, seconds(1));
  cell.Decide(kStart, 3);
  const Receipt first = cell.receipt();
  cell.GiveBack(kStart + 500 * kMs, first);
  EXPECT_EQ(cell.Look(kStart + 500 * kMs, 0).remaining, 5);

  cell.Decide(kStart + 500 * kMs, 5);
  const Receipt second = cell.receipt();
  cell.Decide(kStart + 1500 * kMs, 5);
  cell.GiveBack(kStart + 1500 * kMs, second);
  EXPECT_EQ(cell.Look(kStart + 1500 * kMs, 0).remaining, 0);
}

TEST(StepBucketTest, DebtIsPaidByTheFillings) {
  TestCell cell = Bucket(5, seconds(1), 0, 10);
  cell.Decide(kStart, 5);
  cell.Charge(kStart, 99);
  EXPECT_EQ(cell.Look(kStart, 1).retry_after, milliseconds(2200)) << "10 owed, and the one";
  EXPECT_EQ(cell.Look(kStart + 2200 * kMs, 0).remaining, 1);
}

TEST(StepBucketTest, AStepBackOfTheClockWaitsForOneWindow) {
  TestCell cell = Bucket(5, seconds(1));
  cell.Decide(kStart + 60'000 * kMs, 5);
  EXPECT_FALSE(cell.Decide(kStart, 1).allowed);
  EXPECT_FALSE(cell.Look(kStart + 1000 * kMs, 1).allowed);
  EXPECT_TRUE(cell.Look(kStart + 1001 * kMs, 5).allowed);
}

TEST(StepBucketTest, ALimitOfZeroRefusesEverythingButAPeek) {
  TestCell cell = Bucket(0, seconds(1));
  EXPECT_TRUE(cell.Decide(kStart, 0).allowed);
  EXPECT_EQ(cell.Decide(kStart, 1).retry_after, kNever);
}

TEST(StepBucketTest, TellsWhatIsWrongWithItsNumbers) {
  const auto error_of = [](const Config& config) {
    return StepBucket::Make(config).error().message;
  };
  Config slow{.rate = {1, std::chrono::hours(24)}, .burst = 1'000'000};
  EXPECT_EQ(error_of(slow).substr(0, 33), "burst: found 1000000; allowed 1 t");
  slow.burst = 1;
  slow.max_debt = 1'000'000;
  EXPECT_EQ(error_of(slow).substr(0, 36), "max_debt: found 1000000; allowed 0 t");
}

}  // namespace
}  // namespace flowguard::limit
