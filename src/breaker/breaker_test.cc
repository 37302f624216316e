// SPDX-License-Identifier: Apache-2.0
//
// Closed and open.  Half-open: half_open_test.cc.
#include "breaker/breaker.h"

#include <gtest/gtest.h>

#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

class BreakerTest : public BreakerFixture {};

TEST_F(BreakerTest, OneFailureOfOneCallOpensNothingBelowMinCalls) {
  Build(ErrorRatio(0.5, 10));

  EXPECT_EQ(OpensAt("eeeeeeeee"), 0);
  EXPECT_EQ(OpensAt("e"), 1);
}

// Rules out: a window that has to be full before anything opens.
TEST_F(BreakerTest, OpensAtTheCallThatReachesMinCalls) {
  for (const int min_calls : {1, 5, 20, 100}) {
    Build(ErrorRatio(0.5, min_calls));

    EXPECT_EQ(OpensAt(std::string(200, 'e')), min_calls);
  }
}

TEST_F(BreakerTest, AGoodCallMayBeTheOneThatReachesMinCalls) {
  Build(ErrorRatio(0.5, 4));

  EXPECT_EQ(OpensAt("eeeo"), 4);
}

TEST_F(BreakerTest, RefusesForOpenForAndSaysHowLongStill) {
  Build(ErrorCount(0, 1));
  Call(0, Outcome::kError);

  EXPECT_FALSE(Enters(0));
  EXPECT_EQ(last_.retry_after, Ms(2'000));
  EXPECT_FALSE(Enters(1'999));
  EXPECT_EQ(last_.retry_after, Ms(1));
  EXPECT_EQ(breaker_->RefusedFor(At(1'500)), Ms(500));
  EXPECT_EQ(breaker_->RefusedFor(At(2'000)), Ms(0));
  EXPECT_EQ(state(), BreakerState::kOpen) << "to ask is not to probe";
  EXPECT_TRUE(Enters(2'000));
  EXPECT_TRUE(last_.ticket.is_probe());
}

// Rules out: errors that are older than the window, or from before it closed, and open it.
TEST_F(BreakerTest, ErrorsDoNotSurviveTheWindowNorClosing) {
  Build(ErrorCount(2, 1));
  EXPECT_EQ(OpensAt("ee", 0), 0);
  EXPECT_EQ(OpensAt("ee", 1'000), 0);
  EXPECT_EQ(OpensAt("e", 1'100), 1);
  Call(3'100);
  ASSERT_EQ(state(), BreakerState::kClosed);

  EXPECT_EQ(OpensAt("ee", 3'100), 0);
  EXPECT_EQ(OpensAt("e", 3'100), 1);
}

TEST_F(BreakerTest, NeutralCallsAreNotCounted) {
  Build(ErrorCount(2, 3));
  EXPECT_EQ(OpensAt("ee"), 0);
  for (int i = 0; i < 100; ++i) {
    Call(0, Outcome::kIgnoredError);
    Call(0, Outcome::kCancelled);
    ASSERT_TRUE(Enters(0));
    breaker_->GiveBack(open_.back(), At(0));
  }

  EXPECT_EQ(breaker_->Look(At(0)), (CallCounts{2, 2}));
  EXPECT_EQ(OpensAt("e"), 1);
}

TEST_F(BreakerTest, ATicketSettlesOnce) {
  Build(ErrorCount(1, 1));
  ASSERT_TRUE(Enters(0));
  Settle(0, 0, Outcome::kError);
  Settle(0, 0, Outcome::kError);
  breaker_->GiveBack(open_[0], At(0));

  EXPECT_EQ(breaker_->Look(At(0)), (CallCounts{1, 1}));
  EXPECT_EQ(state(), BreakerState::kClosed);
}

TEST_F(BreakerTest, CallsFromBeforeItOpenedSettleNothingWhileItIsOpen) {
  Build(ErrorCount(0, 1));
  ASSERT_TRUE(Enters(0) && Enters(0) && Enters(0));
  Settle(0, 0, Outcome::kError);
  ASSERT_EQ(state(), BreakerState::kOpen);
  Settle(1, 1'000, Outcome::kError);

  EXPECT_EQ(breaker_->RefusedFor(At(1'000)), Ms(1'000)) << "not opened anew";
  Settle(2, 1'000, Outcome::kOk);
  EXPECT_EQ(state(), BreakerState::kOpen);
}

// Rules out: a slow success of an old call that closes a breaker whose service is still
// down, and an old failure that opens one whose service is well.
TEST_F(BreakerTest, CallsFromBeforeItOpenedSettleNothingLater) {
  Build(ErrorCount(0, 1));
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(Enters(0));
  Settle(0, 0, Outcome::kError);
  ASSERT_TRUE(Enters(2'000));
  ASSERT_EQ(state(), BreakerState::kHalfOpen);

  Settle(1, 2'000, Outcome::kOk);
  Settle(2, 2'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kHalfOpen);

  Settle(5, 2'000, Outcome::kOk);
  ASSERT_EQ(state(), BreakerState::kClosed);
  Settle(3, 2'000, Outcome::kError);
  EXPECT_EQ(state(), BreakerState::kClosed);
  EXPECT_EQ(breaker_->Look(At(2'000)), (CallCounts{0, 0}));
  EXPECT_EQ(OpensAt("e", 2'000), 1);
}

TEST_F(BreakerTest, AStepBackIsPaidOnceWithOpenForAtMost) {
  Build(ErrorCount(0, 1));
  Call(100'000, Outcome::kError);

  EXPECT_FALSE(Enters(50'000));
  EXPECT_EQ(last_.retry_after, Ms(2'000)) << "noticed here";
  EXPECT_FALSE(Enters(51'999));
  EXPECT_EQ(last_.retry_after, Ms(1));
  EXPECT_TRUE(Enters(52'000));
}

TEST_F(BreakerTest, AStepBackIsNoticedByAskingToo) {
  Build(ErrorCount(0, 1));
  Call(100'000, Outcome::kError);

  EXPECT_EQ(breaker_->RefusedFor(At(50'000)), Ms(2'000));
  EXPECT_EQ(breaker_->RefusedFor(At(52'000)), Ms(0));
  EXPECT_TRUE(Enters(52'000));
}

TEST_F(BreakerTest, AStepForwardOpensEarlyAndOnlyProbes) {
  Build(ErrorCount(0, 1));
  Call(0, Outcome::kError);

  EXPECT_TRUE(Enters(3'600'000));
  EXPECT_FALSE(Enters(3'600'000));
}

TEST_F(BreakerTest, WhenIdleItStaysOpenUntilACallComes) {
  Build(ErrorCount(0, 1));
  Call(0, Outcome::kError);

  EXPECT_EQ(breaker_->RefusedFor(At(1'000'000)), Ms(0));
  EXPECT_EQ(state(), BreakerState::kOpen);
}

}  // namespace
}  // namespace flowguard::breaker
