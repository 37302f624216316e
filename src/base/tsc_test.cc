// SPDX-License-Identifier: Apache-2.0
#include "base/tsc.h"

#include <random>

#include <gtest/gtest.h>

namespace flowguard::base {
namespace {

constexpr int64_t kMs = 1'000'000;
// A counter of 2.5 GHz: ns = ticks * 2 / 5.
constexpr uint64_t TicksAt(int64_t ns) {
  return static_cast<uint64_t>(ns) * 5 / 2 + 77;
}
constexpr ClockPair PairAt(int64_t ns) {
  return {TicksAt(ns), ns};
}

TEST(TscLineTest, IsDueUntilStarted) {
  const TscLine line;

  EXPECT_TRUE(line.At(0).due);
  EXPECT_TRUE(line.At(1'000'000).due);
}

TEST(TscLineTest, ShowsTheTrustedClockBetweenCalibrations) {
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), PairAt(kMs), TicksAt(10 * kMs)));

  const TscLine::Stamp stamp = line.At(TicksAt(5 * kMs));

  EXPECT_FALSE(stamp.due);
  EXPECT_NEAR(static_cast<double>(stamp.ns), 5.0 * kMs, 2);
}

TEST(TscLineTest, IsDueAfterTheIntervalAndStillShowsTime) {
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), PairAt(kMs), TicksAt(10 * kMs)));

  const TscLine::Stamp stamp = line.At(TicksAt(50 * kMs));

  EXPECT_TRUE(stamp.due);
  EXPECT_NEAR(static_cast<double>(stamp.ns), 50.0 * kMs, 100);
}

TEST(TscLineTest, RefusesReadingsThatMakeNoLine) {
  TscLine line;

  EXPECT_FALSE(line.Start(PairAt(kMs), PairAt(kMs), 1000)) << "no distance";
  EXPECT_FALSE(line.Start({1000, 0}, {1, kMs}, 1000)) << "counter went back";
  EXPECT_FALSE(line.Start({0, 0}, {1, int64_t{1} << 40}, 1000)) << "a counter below 1 kHz";
  EXPECT_TRUE(line.At(5).due);
}

// A correction that steps would hand one caller two stamps out of order.
TEST(TscLineTest, CorrectionBendsAndNeverSteps) {
  TscLine line;
  // The first calibration read the trusted clock 40 us late: the line is ahead.
  ASSERT_TRUE(line.Start(PairAt(0), {TicksAt(kMs), kMs + 40'000}, TicksAt(10 * kMs)));
  const uint64_t at = TicksAt(10 * kMs);
  const int64_t before = line.At(at).ns;

  ASSERT_TRUE(line.Correct(PairAt(10 * kMs), TicksAt(100 * kMs)));

  EXPECT_EQ(line.At(at).ns, before);
  EXPECT_GE(line.At(at + 3).ns, before);
}

TEST(TscLineTest, MeetsTheTrustedClockAfterAFewCorrections) {
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), {TicksAt(kMs), kMs + 50}, TicksAt(10 * kMs)));

  int64_t now = 10 * kMs;
  for (int i = 0; i < 40; ++i, now += 100 * kMs) {
    ASSERT_TRUE(line.Correct(PairAt(now), TicksAt(100 * kMs)));
  }

  EXPECT_NEAR(static_cast<double>(line.At(TicksAt(now)).ns), static_cast<double>(now), 100);
}

TEST(TscLineTest, SlopeChangesByABoundedPartAtOnce) {
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), PairAt(kMs), TicksAt(10 * kMs)));
  // 0.9 ms off within 10 ms asks for nine per cent.
  ASSERT_TRUE(line.Correct({TicksAt(10 * kMs), 10 * kMs + 900'000}, TicksAt(10 * kMs)));

  const int64_t passed = line.At(TicksAt(110 * kMs)).ns - line.At(TicksAt(10 * kMs)).ns;

  EXPECT_LE(passed, 100 * kMs + 100 * kMs * TscLine::kSlopeChangePpmMax / 1'000'000 + 10);
}

TEST(TscLineTest, ALargeErrorIsNotMended) {
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), PairAt(kMs), TicksAt(10 * kMs)));

  EXPECT_FALSE(line.Correct({TicksAt(10 * kMs), 12 * kMs}, TicksAt(10 * kMs)));
  EXPECT_NEAR(static_cast<double>(line.At(TicksAt(5 * kMs)).ns), 5.0 * kMs, 2);
}

// A machine that was moved or put to sleep may come back with a smaller counter.
TEST(TscLineTest, CounterThatStepsBackStandsStillAndIsDue) {
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), PairAt(kMs), TicksAt(10 * kMs)));

  const TscLine::Stamp stamp = line.At(3);

  EXPECT_TRUE(stamp.due);
  EXPECT_EQ(stamp.ns, kMs);
}

TEST(TscLineTest, YearsWithoutACorrectionDoNotOverflow) {
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), PairAt(kMs), TicksAt(10 * kMs)));

  const TscLine::Stamp stamp = line.At(uint64_t{1} << 61);

  EXPECT_TRUE(stamp.due);
  EXPECT_GT(stamp.ns, int64_t{900'000'000} * 1'000'000'000);
}

TEST(TscLineTest, NeverStepsBackOverRandomCorrections) {
  constexpr uint32_t kSeed = 20'261;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  TscLine line;
  ASSERT_TRUE(line.Start(PairAt(0), PairAt(kMs), TicksAt(10 * kMs)));
  int64_t shown = 0;
  int64_t ns = kMs;
  for (int i = 0; i < 20'000; ++i) {
    ns += std::uniform_int_distribution<int64_t>(20, 200'000)(random);
    if (i % 50 == 0) {
      const int64_t noise = std::uniform_int_distribution<int64_t>(-5'000, 5'000)(random);
      ASSERT_TRUE(line.Correct({TicksAt(ns), ns + noise}, TicksAt(10 * kMs)));
    }
    const int64_t now = line.At(TicksAt(ns)).ns;
    ASSERT_GE(now, shown) << "at step " << i;
    shown = now;
  }
}

}  // namespace
}  // namespace flowguard::base
