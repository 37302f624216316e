// SPDX-License-Identifier: Apache-2.0
//
// What Sentinel's breakers do in the same situations, as observed on Sentinel itself, in
// its form and in ours; where ours differs, both are stated.
#include <gtest/gtest.h>

#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

// Sentinel's form, or ours.
class SentinelVectors : public BreakerFixture, public ::testing::WithParamInterface<bool> {
 protected:
  static bool as_sentinel() { return GetParam(); }
  void Start(const BreakerSpec& spec) { Build(as_sentinel() ? SentinelForm(spec) : spec); }
};

INSTANTIATE_TEST_SUITE_P(Forms, SentinelVectors, ::testing::Bool(),
                         [](const auto& form) { return form.param ? "AsSentinel" : "Default"; });

TEST_P(SentinelVectors, V38SlowRatioOpensAboveItAndNotAtIt) {
  Start(SlowRatio(0.5, 4));
  EXPECT_EQ(OpensAt("ssffss"), 5);
}

TEST_P(SentinelVectors, V39SlowRatioOfOneOpens) {
  Start(SlowRatio(1.0, 3));
  EXPECT_EQ(OpensAt("sss"), 3);
}

TEST_P(SentinelVectors, V40SlowRatioOfZeroOpensAtTheFirstSlowCall) {
  Start(SlowRatio(0, 1));
  Call(0, Outcome::kOk, 10);
  EXPECT_EQ(state(), BreakerState::kClosed);
  Call(0, Outcome::kOk, 51);
  EXPECT_EQ(state(), BreakerState::kOpen);
}

TEST_P(SentinelVectors, V41ACallOfExactlyTheLimitIsNotSlow) {
  Start(SlowRatio(0, 1));
  Call(0, Outcome::kOk, 50);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

TEST_P(SentinelVectors, V42ErrorRatioOpensAboveItAndNotAtIt) {
  Start(ErrorRatio(0.5, 4));
  EXPECT_EQ(OpensAt("eoeoee"), 5);
}

// The difference: in Sentinel a ratio of 1 can never be exceeded.
TEST_P(SentinelVectors, V43ErrorRatioOfOne) {
  Start(ErrorRatio(1.0, 3));
  EXPECT_EQ(OpensAt("eeeeeeeeee"), as_sentinel() ? 0 : 3);
}

TEST_P(SentinelVectors, V44ErrorRatioOfZeroOpensAtTheFirstError) {
  Start(ErrorRatio(0, 1));
  EXPECT_EQ(OpensAt("oe"), 2);
}

TEST_P(SentinelVectors, V45ErrorCountOpensAboveIt) {
  Start(ErrorCount(2, 3));
  EXPECT_EQ(OpensAt("eee"), 3);
}

TEST_P(SentinelVectors, V46MinCallsAppliesToErrorCountToo) {
  Start(ErrorCount(0, 5));
  EXPECT_EQ(OpensAt("eeeee"), 5);
}

TEST_P(SentinelVectors, V47OpensProbesFailsWaitsAgainAndCloses) {
  Start(ErrorCount(0, 1));
  Call(0, Outcome::kError);
  EXPECT_FALSE(Enters(1'999));
  Call(2'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kOpen);
  EXPECT_FALSE(Enters(3'999));
  Call(4'000);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// The difference: Sentinel's window begins anew at each multiple of its length, so what
// happens around a boundary does not add up.
TEST_P(SentinelVectors, V48ErrorsAroundABoundary) {
  Start(ErrorCount(1, 1));
  Call(900, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kClosed);
  Call(1'000, Outcome::kError);
  EXPECT_EQ(state(), as_sentinel() ? BreakerState::kClosed : BreakerState::kOpen);
  if (!as_sentinel()) return;
  Call(1'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kOpen);
}

TEST_P(SentinelVectors, V50SlowRatioScript) {
  BreakerSpec spec = SlowRatio(0.8, 10);
  spec.window = Ms(20'000);
  spec.open_for = Ms(5'000);
  Start(spec);
  EXPECT_EQ(OpensAt("sssssssfff"), 0);
  EXPECT_EQ(OpensAt("sssss"), 0) << "12 of 15 is the ratio";
  EXPECT_EQ(OpensAt("s"), 1) << "13 of 16 is above it";
  EXPECT_FALSE(Enters(1'000));
  Call(6'000, Outcome::kOk, 60);
  EXPECT_EQ(state(), BreakerState::kOpen);
  Call(12'000, Outcome::kOk, 10);
  EXPECT_EQ(state(), BreakerState::kClosed);
  Call(12'000, Outcome::kOk, 60);
  EXPECT_EQ(state(), BreakerState::kClosed);
  EXPECT_TRUE(Enters(12'000));
}

TEST_P(SentinelVectors, V50aErrorRatioScript) {
  BreakerSpec spec = ErrorRatio(0.5, 10);
  spec.window = Ms(25'000);
  spec.open_for = Ms(5'000);
  Start(spec);
  EXPECT_EQ(OpensAt("eeeeeeooo"), 0);
  EXPECT_EQ(OpensAt("e"), 1) << "the tenth";
  EXPECT_FALSE(Enters(2'000));
  Call(7'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kOpen);
  Call(13'000);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// The difference in both forms: in Sentinel the first completion of any call while it is
// half-open decides, also one from before it opened.
TEST_P(SentinelVectors, OnlyTheProbeDecidesWhileHalfOpen) {
  Start(ErrorCount(0, 1));
  ASSERT_TRUE(Enters(0));
  Call(0, Outcome::kError);
  ASSERT_TRUE(Enters(2'000));
  Settle(0, 2'000);
  EXPECT_EQ(state(), BreakerState::kHalfOpen);
}

}  // namespace
}  // namespace flowguard::breaker
