// SPDX-License-Identifier: Apache-2.0
#include "limit/warm_up_window.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "limit/test_cell.h"

namespace flowguard::limit {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kStart = 1'000 * kSecond;

Config Warming(int64_t per_second, Duration period, int cold_factor = 3) {
  return {.rate = {per_second, seconds(1)}, .warm_up = period, .cold_factor = cold_factor};
}

TestCell Cell(const Config& config) {
  return TestCell(Algorithm::kWarmUpWindow, config);
}

// Asks `tries` times every 10 ms; what passed in each second, and what was stored.
struct Seconds {
  std::vector<int64_t> passed;
  std::vector<int64_t> stored;
};

Seconds Drive(TestCell& cell, size_t seconds_long, int tries) {
  Seconds got;
  for (size_t second = 0; second < seconds_long; ++second) {
    const int64_t start = kStart + static_cast<int64_t>(second) * kSecond;
    int64_t passed = 0;
    for (int64_t at = start; at < start + kSecond; at += 10 * kMs) {
      for (int i = 0; i < tries; ++i)
        passed += cell.Decide(at, 1).allowed ? 1 : 0;
      if (at == start) got.stored.push_back(static_cast<int64_t>(cell.state()[2]));
    }
    got.passed.push_back(passed);
  }
  return got;
}

using Counts = std::vector<int64_t>;

// --- what Sentinel's own controller passes

TEST(WarmUpWindowVectors, TenASecondOverTenSeconds) {
  TestCell cell = Cell(Warming(10, seconds(10)));
  const Seconds got = Drive(cell, 16, 1);
  EXPECT_EQ(got.passed, (Counts{3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7, 10, 10, 10, 10}));
  EXPECT_EQ(got.stored, (Counts{100, 97, 94, 91, 88, 85, 81, 77, 73, 68, 63, 57, 50, 40, 40, 40}));
}

TEST(WarmUpWindowVectors, AHundredASecondOverTenSeconds) {
  TestCell cell = Cell(Warming(100, seconds(10)));
  const Seconds got = Drive(cell, 13, 20);
  EXPECT_EQ(got.passed, (Counts{33, 34, 36, 38, 41, 44, 47, 52, 58, 68, 83, 100, 100}));
  EXPECT_EQ(got.stored, (Counts{1000, 967, 933, 897, 859, 818, 774, 727, 675, 617, 549, 466, 466}));
}

TEST(WarmUpWindowVectors, TwentyASecondOverTenSeconds) {
  TestCell cell = Cell(Warming(20, seconds(10)));
  EXPECT_EQ(Drive(cell, 13, 1).passed, (Counts{6, 6, 7, 7, 8, 8, 9, 10, 11, 12, 15, 19, 20}));
}

TEST(WarmUpWindowVectors, AHundredASecondOverFiveSeconds) {
  TestCell cell = Cell(Warming(100, seconds(5)));
  EXPECT_EQ(Drive(cell, 7, 20).passed, (Counts{33, 36, 40, 46, 56, 76, 100}));
}

// Of a limit below the cold factor Sentinel never passes anything.
TEST(WarmUpWindowVectors, OneASecondPassesOneASecond) {
  TestCell cell = Cell(Warming(1, seconds(10)));
  EXPECT_EQ(Drive(cell, 12, 1).passed, Counts(12, 1));
}

TEST(WarmUpWindowVectors, ColdItRefusesWhatItPassesWhenWarm) {
  TestCell cold = Cell(Warming(10, seconds(10)));
  ASSERT_TRUE(cold.Decide(kStart, 1).allowed);
  EXPECT_TRUE(cold.Look(kStart, 1).allowed);
  ASSERT_TRUE(cold.Decide(kStart, 2).allowed);
  EXPECT_FALSE(cold.Decide(kStart, 1).allowed);

  TestCell warm = Cell(Warming(10, seconds(10)));
  Drive(warm, 20, 2);
  const int64_t then = kStart + 20 * kSecond;
  ASSERT_TRUE(warm.Decide(then, 8).allowed);
  EXPECT_TRUE(warm.Decide(then, 1).allowed);
  EXPECT_TRUE(warm.Decide(then, 1).allowed);
  EXPECT_FALSE(warm.Decide(then, 1).allowed);
}

// --- what is mended

// Ruled out: a cold limit below the cost of a request, which then never warms.
TEST(WarmUpWindowTest, ARequestOfAnyCostGoesInEachWindow) {
  TestCell cell = Cell(Warming(9, seconds(10)));
  for (int64_t second = 0; second < 40; ++second) {
    const int64_t at = kStart + second * kSecond;
    EXPECT_TRUE(cell.Decide(at, 9).allowed) << second;
    const Numbers refused = cell.Decide(at + 400 * kMs, 1);
    EXPECT_FALSE(refused.allowed);
    EXPECT_EQ(refused.retry_after, milliseconds(600));
    EXPECT_EQ(cell.Decide(at, 10).retry_after, kNever);
  }
}

// Ruled out: a rule that stays warm for ever because its store is just at the warning.
TEST(WarmUpWindowTest, CoolsFromTheWarningLineToo) {
  TestCell cell = Cell(Warming(10, seconds(10)));
  const Seconds got = Drive(cell, 12, 1);
  ASSERT_EQ(got.passed.back(), 7);
  const int64_t at = kStart + 12 * kSecond;
  EXPECT_EQ(cell.Look(at, 0).remaining, 10);  // 50 stored, which is the warning
  EXPECT_EQ(cell.Look(at + 3 * kSecond, 0).remaining, 10 * 50 / (30 * 2 + 50));
}

TEST(WarmUpWindowTest, CoolsWhileItIsIdleAndIsColdWhenItNeedNotBeKept) {
  TestCell cell = Cell(Warming(100, seconds(10)));
  Drive(cell, 20, 20);
  const int64_t cold_at = cell.KeepUntil();
  EXPECT_EQ(cell.Look(cold_at, 0).remaining, 33);
  EXPECT_GT(cell.Look(cold_at - 1, 0).remaining, 33);
  EXPECT_EQ(cell.Look(kStart + 20 * kSecond, 0).remaining, 100);
}

// Ruled out: warmth that depends on who looked in between.
TEST(WarmUpWindowTest, WindowsWithoutRequestsCountAlike) {
  TestCell asked = Cell(Warming(100, seconds(10)));
  TestCell left = Cell(Warming(100, seconds(10)));
  for (TestCell* cell : {&asked, &left})
    Drive(*cell, 8, 20);
  for (int64_t second = 8; second < 14; ++second) {
    asked.Decide(kStart + second * kSecond, 1);
    asked.GiveBack(kStart + second * kSecond, asked.receipt());
  }
  for (int64_t second = 14; second < 20; ++second)
    EXPECT_EQ(asked.Look(kStart + second * kSecond, 0).remaining,
              left.Look(kStart + second * kSecond, 0).remaining);
}

TEST(WarmUpWindowTest, OtherWindowsThanSecondsWarmUpTheSame) {
  TestCell cell =
      Cell({.rate = {600, std::chrono::minutes(1)}, .warm_up = std::chrono::minutes(10)});
  int64_t last = 0;
  for (int64_t minute = 0; minute < 20; ++minute) {
    int64_t passed = 0;
    while (cell.Decide((1000 + minute) * 60 * kSecond, 1).allowed)
      ++passed;
    EXPECT_GE(passed, last);
    EXPECT_LE(passed, 600);
    EXPECT_TRUE(minute > 0 || passed == 200) << passed;
    last = passed;
  }
  EXPECT_EQ(last, 600);
}

TEST(WarmUpWindowTest, AGiveBackCountsInItsOwnWindow) {
  TestCell cell = Cell(Warming(10, seconds(10)));
  cell.Decide(kStart, 3);
  const Receipt receipt = cell.receipt();
  EXPECT_FALSE(cell.Look(kStart, 1).allowed);
  cell.GiveBack(kStart, receipt);
  EXPECT_EQ(cell.Look(kStart, 0).remaining, 3);
  cell.GiveBack(kStart + kSecond, receipt);
  EXPECT_EQ(cell.Look(kStart + kSecond, 0).remaining, 3);
}

TEST(WarmUpWindowTest, ChargedUnitsAreBookedInTheCurrentWindow) {
  Config config = Warming(10, seconds(10));
  config.max_debt = 5;
  TestCell cell = Cell(config);
  cell.Charge(kStart, 100);
  EXPECT_EQ(cell.state()[1], 15U);
  EXPECT_EQ(cell.Decide(kStart, 1).retry_after, seconds(1));
  EXPECT_TRUE(cell.Decide(kStart + kSecond, 1).allowed);
}

TEST(WarmUpWindowTest, ALimitOfZeroRefusesEverythingButAPeek) {
  TestCell cell = Cell(Warming(0, seconds(10)));
  EXPECT_EQ(cell.Decide(kStart, 1).retry_after, kNever);
  EXPECT_TRUE(cell.Decide(kStart, 0).allowed);
}

TEST(WarmUpWindowTest, TellsWhatIsWrongWithItsNumbers) {
  const auto error = [](const Config& config) {
    const auto spec = WarmUpWindow::Make(config);
    return spec.ok() ? std::string() : spec.error().message;
  };
  EXPECT_NE(error(Warming(1, milliseconds(999))).find("not below the window"), std::string::npos);
  EXPECT_NE(error(Warming(1, seconds(1), 1)).find("cold_factor: found 1; allowed 2 to 100"),
            std::string::npos);
  EXPECT_NE(error(Warming(1, Duration(base::kWarmUpMax) + seconds(1))).find("warm_up"),
            std::string::npos);
}

}  // namespace
}  // namespace flowguard::limit
