// SPDX-License-Identifier: Apache-2.0
#include "breaker/spec.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

std::string FaultOf(const BreakerSpec& spec) {
  const Result<void> checked = CheckSpec(spec);
  return checked.ok() ? "" : checked.error().message;
}

TEST(BreakerSpecTest, ItsDefaultsAreAllowed) {
  EXPECT_EQ(FaultOf(BreakerSpec{}), "");
}

TEST(BreakerSpecTest, FaultsSayWhatWasFoundAndWhatIsAllowed) {
  BreakerSpec spec = ErrorRatio(1.5, 1);
  EXPECT_EQ(FaultOf(spec), "ratio: found 1.500000; allowed 0 to 1");
  spec.ratio = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FaultOf(spec), "ratio: found nan; allowed 0 to 1");
  spec = ErrorCount(-3, 1);
  EXPECT_EQ(FaultOf(spec), "errors: found -3; allowed 0 to 8000000");
  spec = ErrorCount(3, 0);
  EXPECT_EQ(FaultOf(spec), "min_calls: found 0; allowed 1 to 8000000");
  spec = SlowRatio(0.5, 1, -1);
  EXPECT_EQ(FaultOf(spec), "slow_over: found -1000000; allowed 1000000 to 2147483647000000000 ns");
  spec = ErrorCount(1, 1);
  spec.window = Duration(0);
  EXPECT_EQ(FaultOf(spec), "window: found 0; allowed 1000000 to 2147483647000000 ns");
  spec.window = Ms(5);
  spec.buckets = 51;
  EXPECT_EQ(FaultOf(spec),
            "buckets: found 51; allowed 1 to 50 in this window (of 100 us at least)");
  spec = ErrorCount(1, 1);
  spec.buckets = 101;
  EXPECT_EQ(FaultOf(spec), "buckets: found 101; allowed 1 to 100");
  spec = ErrorCount(1, 1);
  spec.open_for = Duration(0);
  EXPECT_EQ(FaultOf(spec), "open_for: found 0; allowed 1000000 to 2147483647000000000 ns");
  spec = ErrorCount(1, 1);
  spec.probes = 0;
  EXPECT_EQ(FaultOf(spec), "probes: found 0; allowed 1 to 100");
}

// Rules out: a breaker that waits for more results than it lets calls through.
TEST(BreakerSpecTest, MoreSuccessesThanProbesAreRefused) {
  BreakerSpec spec = ErrorCount(1, 1);
  spec.probes = 3;
  spec.probe_successes = 4;
  EXPECT_EQ(FaultOf(spec),
            "probe_successes: found 4; allowed 0 to 3 (0: all probes; more than there are would "
            "never close it)");
  EXPECT_EQ(Breaker::Create(spec).error().message, FaultOf(spec));
}

// Sentinel's own validity cases (V51).
TEST(BreakerSpecTest, AcceptsAndRefusesWhatSentinelDoes) {
  const auto valid = [](BreakerSpec spec) { return CheckSpec(SentinelForm(spec)).ok(); };
  BreakerSpec spec = ErrorCount(1, 5);
  spec.open_for = {};
  EXPECT_FALSE(valid(spec)) << "no timeWindow";
  spec.open_for = std::chrono::seconds(-1);
  EXPECT_FALSE(valid(spec));
  EXPECT_FALSE(valid(ErrorRatio(1.1, 5)));
  EXPECT_TRUE(valid(ErrorRatio(1.0, 5)));
  EXPECT_TRUE(valid(ErrorRatio(0.0, 5)));
  EXPECT_FALSE(valid(ErrorCount(-3, 5)));
  EXPECT_FALSE(valid(SlowRatio(15, 5)));
  EXPECT_FALSE(valid(ErrorCount(1, 0)));
  spec = ErrorCount(1, 5);
  spec.window = {};
  EXPECT_FALSE(valid(spec)) << "statIntervalMs 0";
  spec.window = std::chrono::milliseconds(INT32_MAX);
  spec.open_for = std::chrono::seconds(INT32_MAX);
  EXPECT_TRUE(valid(spec)) << "the largest that it can write";
}

TEST(BreakerSpecTest, ErrorsAndOkAreBadOrGoodByTheCondition) {
  const BreakerSpec errors = ErrorCount(1, 1);
  EXPECT_EQ(MarkOf(errors, Outcome::kOk, Ms(999)), CallMark::kGood);
  EXPECT_EQ(MarkOf(errors, Outcome::kError, Ms(0)), CallMark::kBad);
  const BreakerSpec slow = SlowRatio(0.5, 1);
  EXPECT_EQ(MarkOf(slow, Outcome::kOk, Ms(50)), CallMark::kGood);
  EXPECT_EQ(MarkOf(slow, Outcome::kOk, Ms(50) + Duration(1)), CallMark::kBad);
  EXPECT_EQ(MarkOf(slow, Outcome::kError, Ms(50)), CallMark::kGood);
  EXPECT_EQ(MarkOf(slow, Outcome::kError, Ms(51)), CallMark::kBad);
}

TEST(BreakerSpecTest, IgnoredAndCancelledSayNothing) {
  for (const BreakerSpec& spec : {ErrorCount(1, 1), ErrorRatio(0.5, 1)}) {
    EXPECT_EQ(MarkOf(spec, Outcome::kIgnoredError, Ms(999)), CallMark::kNeutral);
    EXPECT_EQ(MarkOf(spec, Outcome::kCancelled, Ms(999)), CallMark::kNeutral);
  }
  EXPECT_EQ(MarkOf(SlowRatio(0.5, 1), Outcome::kIgnoredError, Ms(50)), CallMark::kNeutral);
  EXPECT_EQ(MarkOf(SlowRatio(0.5, 1), Outcome::kCancelled, Ms(50)), CallMark::kNeutral);
}

// Rules out: a service that hangs and is never seen to, because its callers give up, or because
// it says no in the end.
TEST(BreakerSpecTest, ACallThatWasCancelledOrIgnoredWhenItWasSlowAlreadyIsSlow) {
  EXPECT_EQ(MarkOf(SlowRatio(0.5, 1), Outcome::kCancelled, Ms(51)), CallMark::kBad);
  EXPECT_EQ(MarkOf(SlowRatio(0.5, 1), Outcome::kIgnoredError, Ms(51)), CallMark::kBad);
}

// Rules out: rounding that opens at the ratio, or the ratio held against min_calls.
TEST(BreakerSpecTest, OpensAboveTheRatioAndNotAtIt) {
  for (int64_t calls = 1; calls <= 1'000; ++calls) {
    for (int percent = 0; percent <= 99; ++percent) {
      const double ratio = percent / 100.0;
      const int64_t at_most = calls * percent / 100;
      ASSERT_FALSE(Opens(ErrorRatio(ratio, 1), {calls, at_most})) << calls << " " << percent;
      ASSERT_TRUE(Opens(ErrorRatio(ratio, 1), {calls, at_most + 1})) << calls << " " << percent;
    }
  }
  EXPECT_FALSE(Opens(ErrorRatio(0.5, 20), {40, 12}));
}

TEST(BreakerSpecTest, ARatioOfOneOpensWhenAllAreBadButForSentinelsErrors) {
  EXPECT_TRUE(Opens(ErrorRatio(1, 3), {3, 3}));
  EXPECT_FALSE(Opens(ErrorRatio(1, 3), {4, 3}));
  EXPECT_TRUE(Opens(SlowRatio(1, 3), {3, 3}));
  EXPECT_TRUE(Opens(SentinelForm(SlowRatio(1, 3)), {3, 3}));
  EXPECT_FALSE(Opens(SentinelForm(ErrorRatio(1, 3)), {3, 3}));
}

}  // namespace
}  // namespace flowguard::breaker
