// SPDX-License-Identifier: Apache-2.0
#include "dialects/quantities.h"

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::dialects {
namespace {

using namespace std::chrono_literals;

constexpr DurationBounds kAnyDuration = {Duration{}, Duration::max()};

std::string CountFault(std::string_view text, CountBounds bounds = {0, base::kLimitMax}) {
  const auto read = ReadCount(text, bounds);
  return read.ok() ? "ok" : read.fault().message;
}

std::string RateFault(std::string_view text) {
  const auto read = ReadRate(text);
  return read.ok() ? "ok" : std::to_string(read.fault().offset) + ": " + read.fault().message;
}

std::string DurationFault(std::string_view text, DurationBounds bounds = kAnyDuration) {
  const auto read = ReadDuration(text, bounds);
  return read.ok() ? "ok" : std::to_string(read.fault().offset) + ": " + read.fault().message;
}

TEST(ReadCountTest, TakesDigitsWithUnderscores) {
  EXPECT_EQ(*ReadCount("0", {0, 10}), 0);
  EXPECT_EQ(*ReadCount("1_000_000", {0, base::kLimitMax}), 1'000'000);
  EXPECT_EQ(*ReadCount("007", {0, 10}), 7);
}

TEST(ReadBytesTest, TakesBytesAndBinaryUnits) {
  constexpr CountBounds kBounds = {1024, int64_t{1} << 40};
  const auto fault = [&](std::string_view text) {
    const auto read = ReadBytes(text, kBounds);
    return read.ok() ? "ok" : read.fault().message;
  };
  EXPECT_EQ(*ReadBytes("65_536", kBounds), 65'536);
  EXPECT_EQ(*ReadBytes("1KiB", kBounds), 1024);
  EXPECT_EQ(*ReadBytes("64MiB", kBounds), 64 << 20);
  EXPECT_EQ(*ReadBytes("1024GiB", kBounds), int64_t{1} << 40);
  EXPECT_EQ(fault("1025GiB"), "\"1025GiB\" is too large; the maximum is 1099511627776 bytes");
  EXPECT_EQ(fault("99999999999999999999GiB"),
            "\"99999999999999999999GiB\" is too large; the maximum is 1099511627776 bytes");
  EXPECT_EQ(fault("1023"), "\"1023\" is too small; the minimum is 1024 bytes");
  EXPECT_EQ(fault("64 MiB"), "\"64 MiB\" is not a size; write bytes, or use KiB, MiB, GiB");
  EXPECT_EQ(fault("-1"), "\"-1\" is not a size; write bytes, or use KiB, MiB, GiB");
  EXPECT_EQ(fault("MiB"), "\"MiB\" is not a whole number");
  EXPECT_EQ(fault(""), "\"\" is not a whole number");
}

// A count that is narrowed to 32 bits somewhere would come out as 5.
TEST(ReadCountTest, KeepsAllBits) {
  EXPECT_EQ(*ReadCount("4294967301", {0, base::kLimitMax}), 4'294'967'301);
  EXPECT_EQ(*ReadCount("9223372036854775807", {0, INT64_MAX}), INT64_MAX);
}

// A limit beyond every integer must be told at load, with the maximum.
TEST(ReadCountTest, TellsTheMaximumOfWhatDoesNotFit) {
  EXPECT_EQ(CountFault("98765432198765432198765"),
            "\"98765432198765432198765\" is too large; the maximum is 1000000000000");
  EXPECT_EQ(CountFault("1000000000000"), "ok");
  EXPECT_EQ(CountFault("1000000000001"),
            "\"1000000000001\" is too large; the maximum is 1000000000000");
  EXPECT_EQ(CountFault("9223372036854775808", {0, INT64_MAX - 1}),
            "\"9223372036854775808\" is too large; the maximum is 9223372036854775806");
  EXPECT_EQ(CountFault("11", {0, 10}), "\"11\" is too large; the maximum is 10");
  EXPECT_EQ(CountFault("3", {4, 10}), "\"3\" is too small; the minimum is 4");
}

TEST(ReadCountTest, NegativeIsAnErrorOfItsOwn) {
  EXPECT_EQ(CountFault("-1"), "-1 is negative; the minimum is 0");
}

TEST(ReadCountTest, WhatIsNoWholeNumberIsSaidToBeNone) {
  for (const std::string text :
       {"", "abc", "1.5", "+1", "1e3", "0x10", "_1", "1_", "1__0", "1 0"}) {
    EXPECT_EQ(CountFault(text), "\"" + text + "\" is not a whole number");
  }
}

TEST(ReadDurationTest, KnowsEveryUnit) {
  EXPECT_EQ(*ReadDuration("7ns", kAnyDuration), 7ns);
  EXPECT_EQ(*ReadDuration("7us", kAnyDuration), 7us);
  EXPECT_EQ(*ReadDuration("300ms", kAnyDuration), 300ms);
  EXPECT_EQ(*ReadDuration("2s", kAnyDuration), 2s);
  EXPECT_EQ(*ReadDuration("3m", kAnyDuration), 3min);
  EXPECT_EQ(*ReadDuration("3min", kAnyDuration), 3min);
  EXPECT_EQ(*ReadDuration("4h", kAnyDuration), 4h);
  EXPECT_EQ(*ReadDuration("5d", kAnyDuration), 120h);
  EXPECT_EQ(*ReadDuration("1m30s", kAnyDuration), 90s);
  EXPECT_EQ(*ReadDuration("1h1s500ms", kAnyDuration), 1h + 1s + 500ms);
  EXPECT_EQ(*ReadDuration("0", kAnyDuration), 0ns);
  EXPECT_EQ(*ReadDuration("1_000ms", kAnyDuration), 1s);
}

TEST(ReadDurationTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(DurationFault("300"), "3: \"300\" has no unit; use ns, us, ms, s, min, h, d");
  EXPECT_EQ(DurationFault("10x"), "2: unknown unit \"x\"; use ns, us, ms, s, min, h, d");
  EXPECT_EQ(DurationFault(""), "0: a duration is missing; use ns, us, ms, s, min, h, d");
  EXPECT_EQ(DurationFault("-5s"), "0: \"-5s\" is negative; the minimum is 0");
  EXPECT_EQ(DurationFault("1.5s"),
            "0: \"1.5s\" is not a duration; write a whole number with a unit, such as 300ms, 2s, "
            "1m30s");
  EXPECT_EQ(DurationFault("1s1m"),
            "2: \"1s1m\": units go from the largest to the smallest, each once");
  EXPECT_EQ(DurationFault("2h", {1s, 1h}), "0: \"2h\" is too long; the maximum is 1h");
  EXPECT_EQ(DurationFault("1ms", {1s, 1h}), "0: \"1ms\" is too short; the minimum is 1s");
}

TEST(ReadDurationTest, NeverOverflows) {
  EXPECT_EQ(*ReadDuration("9223372036854775807ns", kAnyDuration), Duration::max());
  EXPECT_NE(DurationFault("9223372036854775808ns"), "ok");
  EXPECT_NE(DurationFault("106752d"), "ok");
  EXPECT_NE(DurationFault("106751d23h47min16s854ms775us808ns"), "ok");
  EXPECT_NE(DurationFault("98765432198765432198765h"), "ok");
}

TEST(ReadRateTest, TakesUnitsAndDurations) {
  const auto rate_of = [](std::string_view text) { return ReadRate(text)->rate; };
  EXPECT_EQ(rate_of("100/s"), (Rate{100, 1s}));
  EXPECT_EQ(rate_of("100/min"), (Rate{100, 1min}));
  EXPECT_EQ(rate_of("1/day"), (Rate{1, 24h}));
  EXPECT_EQ(rate_of("1_000/s"), (Rate{1000, 1s}));
  EXPECT_EQ(rate_of("5/h"), (Rate{5, 1h}));
  EXPECT_EQ(rate_of("5/ms"), (Rate{5, 1ms}));
  EXPECT_EQ(rate_of("10 per 30s"), (Rate{10, 30s}));
  EXPECT_EQ(rate_of("10/30s"), (Rate{10, 30s}));
  EXPECT_EQ(rate_of("10 per s"), (Rate{10, 1s}));
  EXPECT_EQ(rate_of(" 10 / 1m30s "), (Rate{10, 90s}));
}

TEST(ReadRateTest, TakesABurst) {
  EXPECT_EQ(ReadRate("100/s burst 200")->burst, 200);
  EXPECT_EQ(ReadRate("100/s burst 1_000")->burst, 1000);
  EXPECT_EQ(ReadRate("100/s")->burst, std::nullopt);
}

// 0 means refuse all, everywhere it may be written.
TEST(ReadRateTest, ZeroNeedsNoUnit) {
  EXPECT_EQ(ReadRate("0")->rate.limit, 0);
  EXPECT_EQ(ReadRate("0/s")->rate.limit, 0);
}

TEST(ReadRateTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(RateFault("10/x"), "3: unknown unit \"x\"; use us, ms, s, min, h, d");
  EXPECT_EQ(RateFault("10"), "0: \"10\" has no time; write 10/s or 10 per 10s");
  EXPECT_EQ(RateFault(""), "0: a rate is missing; write 100/s or 10 per 30s");
  EXPECT_EQ(RateFault("-1/s"), "0: -1 is negative; the minimum is 0");
  EXPECT_EQ(RateFault("ten/s"), "0: \"ten\" is not a whole number");
  EXPECT_EQ(RateFault("10/"), "3: a duration is missing; use ns, us, ms, s, min, h, d");
  EXPECT_EQ(RateFault("10 per 30"), "9: \"30\" has no unit; use ns, us, ms, s, min, h, d");
  EXPECT_EQ(RateFault("10 per -30s"), "7: \"-30s\" is negative; the minimum is 1us");
  EXPECT_EQ(RateFault("10 per 367d"), "7: \"367d\" is too long; the maximum is 366d");
  EXPECT_EQ(RateFault("10/ns"), "3: \"1ns\" is too short; the minimum is 1us");
  EXPECT_EQ(RateFault("10 per 0s"), "7: \"0s\" is too short; the minimum is 1us");
  EXPECT_EQ(RateFault("10/s burst 0"), "11: burst \"0\" is too small; the minimum is 1");
  EXPECT_EQ(RateFault("10/s burst"), "10: burst \"\" is not a whole number");
  EXPECT_EQ(RateFault("10/s brust 5"),
            "5: unexpected \"brust\"; write N/unit or N per duration, then perhaps burst B");
}

// Below one unit per time: there is an exact way to say it, and the message gives it.
TEST(ReadRateTest, FractionIsAnErrorThatGivesTheExactForm) {
  EXPECT_EQ(RateFault("0.5/s"), "0: \"0.5\" is not a whole number; write 1 per 2s");
  EXPECT_EQ(RateFault("2.5/min"), "0: \"2.5\" is not a whole number; write 5 per 2min");
  EXPECT_EQ(RateFault("0.333/h"), "0: \"0.333\" is not a whole number; write 333 per 1000h");
  EXPECT_EQ(RateFault("0.0/s"), "0: \"0.0\" is not a whole number");
  EXPECT_EQ(RateFault("1.2.3/s"), "0: \"1.2.3\" is not a whole number");
  EXPECT_EQ(RateFault("0.123456789/s"), "0: \"0.123456789\" is not a whole number");
}

TEST(WriteRateTest, WritesTheLargestUnitThatFits) {
  EXPECT_EQ(WriteRate({100, 1s}, {}), "100/s");
  EXPECT_EQ(WriteRate({100, 60s}, 200), "100/min burst 200");
  EXPECT_EQ(WriteRate({1, 24h}, {}), "1/d");
  EXPECT_EQ(WriteRate({10, 90s}, {}), "10 per 90s");
  EXPECT_EQ(WriteDuration(1500ms), "1500ms");
  EXPECT_EQ(WriteDuration(Duration{}), "0");
}

TEST(WriteRateTest, EveryRateReadsBack) {
  std::mt19937_64 random(20'24);
  SCOPED_TRACE("seed 2024");
  std::uniform_int_distribution<int64_t> limits(0, base::kLimitMax);
  std::uniform_int_distribution<int64_t> windows(base::kWindowMin.count(),
                                                 base::kWindowMax.count());
  const std::vector<int64_t> steps = {1, 1'000, 1'000'000, 1'000'000'000, 60'000'000'000};
  for (int i = 0; i < 2'000; ++i) {
    const int64_t step = steps[static_cast<size_t>(i) % steps.size()];
    const int64_t window = std::max(windows(random) / step * step, base::kWindowMin.count());
    const Rate rate{limits(random), Duration(window)};
    const std::string text = WriteRate(rate, rate.limit / 2 + 1);

    const auto read = ReadRate(text);

    ASSERT_TRUE(read.ok()) << text << ": " << read.fault().message;
    EXPECT_EQ(read->rate, rate) << text;
    EXPECT_EQ(read->burst, rate.limit / 2 + 1) << text;
  }
}

}  // namespace
}  // namespace flowguard::dialects
