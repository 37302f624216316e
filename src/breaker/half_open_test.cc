// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

class HalfOpenTest : public BreakerFixture {
 protected:
  // Open since 0, so that it probes from 2,000 on.
  void BuildOpen(int probes, int successes = 0, BreakerSpec spec = ErrorCount(0, 1)) {
    spec.probes = probes;
    spec.probe_successes = successes;
    Build(spec);
    Call(0, Outcome::kError, 1'000);
    ASSERT_EQ(state(), BreakerState::kOpen);
  }
};

TEST_F(HalfOpenTest, LetsNProbesThroughAndNoMore) {
  BuildOpen(3);

  EXPECT_TRUE(Enters(2'000) && Enters(2'000) && Enters(2'001));
  EXPECT_FALSE(Enters(2'001));
  EXPECT_EQ(last_.retry_after, Ms(1'999)) << "then the first probe is overdue";
  EXPECT_EQ(breaker_->RefusedFor(At(2'500)), Ms(1'500));
}

TEST_F(HalfOpenTest, ClosesAfterTheSuccessesNeeded) {
  BuildOpen(3, 2);
  ASSERT_TRUE(Enters(2'000) && Enters(2'000) && Enters(2'000));

  Settle(1, 2'100);
  EXPECT_EQ(state(), BreakerState::kHalfOpen);
  EXPECT_FALSE(Enters(2'100)) << "a good probe keeps its place";
  Settle(2, 2'100);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// Rules out: a failure while half-open that is forgotten once others succeed.
TEST_F(HalfOpenTest, OneBadProbeOpensAgainForTheWholeTime) {
  BuildOpen(3);
  ASSERT_TRUE(Enters(2'000) && Enters(2'000) && Enters(2'000));
  Settle(0, 2'100);
  Settle(1, 2'500, Outcome::kError);

  EXPECT_EQ(state(), BreakerState::kOpen);
  EXPECT_EQ(breaker_->RefusedFor(At(2'500)), Ms(2'000));
  Settle(2, 2'600);
  EXPECT_EQ(state(), BreakerState::kOpen) << "its phase is over";
  EXPECT_FALSE(Enters(4'499));
  EXPECT_TRUE(Enters(4'500));
}

// Rules out: min_calls applied to probes, so that a failed one decides nothing.
TEST_F(HalfOpenTest, MinCallsDoesNotApplyToProbes) {
  BreakerSpec spec = ErrorRatio(0.5, 10);
  Build(spec);
  ASSERT_EQ(OpensAt("eeeeeeeeee"), 10);
  ASSERT_TRUE(Enters(2'000));

  Settle(0, 2'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kOpen);
  ASSERT_TRUE(Enters(4'000));
  Settle(1, 4'000);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// Rules out: results of probes that are forgotten because they come far apart.
TEST_F(HalfOpenTest, ProbesDecideHoweverFarApartTheyCome) {
  BuildOpen(10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(state(), i == 0 ? BreakerState::kOpen : BreakerState::kHalfOpen);
    Call(2'000 + 100'000 * i);
  }
  EXPECT_EQ(state(), BreakerState::kClosed);
}

TEST_F(HalfOpenTest, AProbeThatSaysNothingFreesItsPlace) {
  BuildOpen(1);
  for (const Outcome outcome : {Outcome::kCancelled, Outcome::kIgnoredError}) {
    ASSERT_TRUE(Enters(2'000));
    ASSERT_FALSE(Enters(2'000));
    breaker_->Settle(open_.back(), outcome, Ms(0), At(2'000));
    EXPECT_EQ(state(), BreakerState::kHalfOpen);
    EXPECT_EQ(breaker_->RefusedFor(At(2'000)), Ms(0));
  }
  Call(2'000);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

TEST_F(HalfOpenTest, AProbeThatNeverSettlesIsReplacedAfterOpenFor) {
  BuildOpen(2);
  ASSERT_TRUE(Enters(2'000) && Enters(2'500));

  EXPECT_FALSE(Enters(3'999));
  EXPECT_TRUE(Enters(4'000));
  EXPECT_FALSE(Enters(4'000)) << "one place for one overdue probe";
  EXPECT_EQ(last_.retry_after, Ms(500));
  Settle(0, 4'000, Outcome::kCancelled);
  EXPECT_EQ(breaker_->RefusedFor(At(4'000)), Ms(500)) << "its place is another's";
  Settle(1, 4'000);
  Settle(2, 4'000);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// Rules out: a breaker whose healthy calls take longer than open_for never closes, because
// each probe is replaced before it is heard.
TEST_F(HalfOpenTest, AReplacedProbeIsHeardForItsPlace) {
  BuildOpen(1);
  ASSERT_TRUE(Enters(2'000) && Enters(4'000));

  Settle(0, 4'500);

  EXPECT_EQ(state(), BreakerState::kClosed);
  Settle(1, 5'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kClosed) << "of a phase that is over";
}

TEST_F(HalfOpenTest, APlaceIsSettledOnce) {
  BuildOpen(2);
  ASSERT_TRUE(Enters(2'000) && Enters(2'000) && Enters(4'000) && Enters(4'000));

  Settle(0, 4'500);
  Settle(2, 4'500);
  EXPECT_EQ(state(), BreakerState::kHalfOpen) << "two results of one place are one";
  Settle(1, 4'500);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

TEST_F(HalfOpenTest, AnOverdueProbeThatNobodyReplacedStillCounts) {
  BuildOpen(1);
  ASSERT_TRUE(Enters(2'000));

  Settle(0, 100'000);

  EXPECT_EQ(state(), BreakerState::kClosed);
}

TEST_F(HalfOpenTest, ProbesOfAnOlderPhaseSettleNothing) {
  BuildOpen(2);
  ASSERT_TRUE(Enters(2'000) && Enters(2'000));
  Settle(0, 2'000, Outcome::kError);
  ASSERT_TRUE(Enters(4'000) && Enters(4'000));
  ASSERT_EQ(state(), BreakerState::kHalfOpen);

  Settle(1, 4'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kHalfOpen);
  Settle(2, 4'000);
  Settle(3, 4'000);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// Rules out: a give-back of a probe from before that frees a place of today's.
TEST_F(HalfOpenTest, AnOldProbeGivenBackFreesNothing) {
  BuildOpen(1);
  ASSERT_TRUE(Enters(2'000));
  BreakerTicket old = open_[0];
  Settle(0, 2'000, Outcome::kError);
  ASSERT_TRUE(Enters(4'000));

  breaker_->GiveBack(old, At(4'000));

  EXPECT_EQ(old.phase, 0u);
  EXPECT_EQ(state(), BreakerState::kHalfOpen);
  EXPECT_FALSE(Enters(4'000));
}

TEST_F(HalfOpenTest, TheOnlyProbeGivenBackOpensAgainWithoutANewWait) {
  BuildOpen(1);
  ASSERT_TRUE(Enters(2'000));

  breaker_->GiveBack(open_[0], At(2'000));

  EXPECT_EQ(state(), BreakerState::kOpen);
  EXPECT_EQ(breaker_->RefusedFor(At(2'000)), Ms(0));
  Call(2'001);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

TEST_F(HalfOpenTest, OneOfSeveralProbesGivenBackFreesItsPlaceOnly) {
  BuildOpen(2);
  ASSERT_TRUE(Enters(2'000) && Enters(2'000));

  breaker_->GiveBack(open_[0], At(2'000));

  EXPECT_EQ(state(), BreakerState::kHalfOpen);
  EXPECT_TRUE(Enters(2'000));
  EXPECT_FALSE(Enters(2'000));
}

TEST_F(HalfOpenTest, WhatProbesSaidIsKeptWhenAnotherIsGivenBack) {
  BuildOpen(2);
  ASSERT_TRUE(Enters(2'000) && Enters(2'000));
  Settle(0, 2'000);
  breaker_->GiveBack(open_[1], At(2'000));

  EXPECT_EQ(state(), BreakerState::kHalfOpen);
  Call(2'000);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// Two breakers of one resource, open until 10,000 and 20,000 (V50c): while the second
// refuses, the first neither sticks half-open nor waits anew.
TEST_F(HalfOpenTest, OfTwoBreakersOneRefusingGivesTheOthersProbeBack) {
  for (const bool as_sentinel : {false, true}) {
    BreakerSpec first = ErrorCount(0, 1);
    first.open_for = Ms(10'000);
    BreakerSpec second = first;
    second.open_for = Ms(20'000);
    if (as_sentinel) {
      first = SentinelForm(first);
      second = SentinelForm(second);
    }
    Build(first);
    const auto other = Breaker::Create(second).value();
    const auto enter = [&](int64_t ms, BreakerTicket& a, BreakerTicket& b) {
      a = breaker_->TryEnter(At(ms)).ticket;
      if (a.phase == 0) return false;
      b = other->TryEnter(At(ms)).ticket;
      if (b.phase == 0) breaker_->GiveBack(a, At(ms));
      return b.phase != 0;
    };
    BreakerTicket a;
    BreakerTicket b;
    ASSERT_TRUE(enter(0, a, b));
    breaker_->Settle(a, Outcome::kError, Ms(0), At(0));
    other->Settle(b, Outcome::kError, Ms(0), At(0));

    recorder_.events.clear();
    EXPECT_FALSE(enter(12'000, a, b));
    EXPECT_EQ(state(), BreakerState::kOpen);
    ASSERT_EQ(recorder_.events.size(), 2u);
    EXPECT_EQ(recorder_.events[1].from, BreakerState::kHalfOpen);
    EXPECT_EQ(recorder_.events[1].to, BreakerState::kOpen);

    ASSERT_TRUE(enter(21'000, a, b));
    breaker_->Settle(a, Outcome::kOk, Ms(0), At(21'000));
    other->Settle(b, Outcome::kOk, Ms(0), At(21'000));
    EXPECT_EQ(state(), BreakerState::kClosed);
    EXPECT_EQ(other->state(), BreakerState::kClosed);
    EXPECT_TRUE(enter(22'000, a, b));
  }
}

// Who asks all breakers first gives no probe to a call that one of them refuses.
TEST_F(HalfOpenTest, AskingTakesNoProbe) {
  BuildOpen(1);

  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(breaker_->RefusedFor(At(2'000)), Ms(0));

  EXPECT_TRUE(Enters(2'000));
  EXPECT_EQ(breaker_->RefusedFor(At(2'000)), Ms(2'000));
}

// Rules out: probes that are never overdue because the clock stepped back.
TEST_F(HalfOpenTest, AfterAStepBackProbesAreOverdueWithinOpenFor) {
  BuildOpen(1);
  ASSERT_TRUE(Enters(100'000));

  EXPECT_FALSE(Enters(50'000));
  EXPECT_EQ(last_.retry_after, Ms(2'000));
  EXPECT_FALSE(Enters(51'999));
  EXPECT_TRUE(Enters(52'000));
}

TEST_F(HalfOpenTest, ASlowProbeOpensAndAFastOneCloses) {
  BuildOpen(1, 0, SlowRatio(0.5, 1));
  Call(2'000, Outcome::kOk, 51);
  EXPECT_EQ(state(), BreakerState::kOpen);
  Call(4'000, Outcome::kOk, 50);
  EXPECT_EQ(state(), BreakerState::kClosed);
}

// Rules out: a hanging service whose probes are all cancelled, and which is never seen.
TEST_F(HalfOpenTest, AProbeCancelledWhenItWasSlowAlreadyOpensAgain) {
  BuildOpen(1, 0, SlowRatio(0.5, 1));
  ASSERT_TRUE(Enters(2'000));

  Settle(0, 2'051, Outcome::kCancelled, 51);

  EXPECT_EQ(state(), BreakerState::kOpen);
  EXPECT_EQ(breaker_->RefusedFor(At(2'051)), Ms(2'000));
}

}  // namespace
}  // namespace flowguard::breaker
