// SPDX-License-Identifier: Apache-2.0
//
// A refused request takes nothing, whichever rule refused it and whatever the others
// took before; a call that ends gives back what it held, once.
#include <string>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;
using testing::Waits;

using AllOrNothingTest = testing::EngineFixture;

TEST_F(AllOrNothingTest, WhatEarlierRulesTookIsGivenBackForEveryAlgorithm) {
  for (const Algorithm algorithm : testing::kEveryLocalAlgorithm) {
    Rule first = LimitRule("first", 10, minutes(1), algorithm);
    first.by = {"user"};
    const FakeRequest request("r", {{"user", "ann"}});
    Build({first});
    const int64_t whole = Peek(request).remaining;
    Build({first, LimitRule("second", 0, minutes(1))});

    for (int i = 0; i < 50; ++i)
      EXPECT_FALSE(Check(request).allowed());
    Load({first});

    EXPECT_EQ(Peek(request).remaining, whole) << "algorithm " << static_cast<int>(algorithm);
  }
}

TEST_F(AllOrNothingTest, CountRefusedTakesUpToExhaustionAndNoDebt) {
  Rule counting = LimitRule("counting", 5, minutes(1));
  counting.count_refused = true;
  for (const bool counting_first : {true, false}) {
    const Rule wall = LimitRule("wall", 0, minutes(1));
    Build(counting_first ? std::vector{counting, wall} : std::vector{wall, counting});

    for (int i = 0; i < 7; ++i)
      EXPECT_FALSE(Check().allowed());
    Load({counting});

    const Decision decision = Check();
    EXPECT_THAT(decision, IsRefusedBy("counting", Reason::kLimit));
    EXPECT_EQ(decision.retry_after, seconds(12)) << "one unit, and no debt";
  }
}

// With a retry_after of 0 the caller would be told to come back at once.
TEST_F(AllOrNothingTest, ACallerOfARuleThatCountsRefusedRequestsIsToldItsOwnWait) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kLeakyBucket}) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)));
    Rule rule = LimitRule("a", 60, minutes(1));
    rule.algorithm = algorithm;
    if (algorithm == Algorithm::kTokenBucket) rule.burst = 1;
    rule.count_refused = true;
    rule.wait = seconds(30);
    Build({rule});
    Spend();
    FakeRequest impatient("r", {}, 1);
    impatient.wait_max = Duration(1);

    const Decision refused = Check(impatient);

    EXPECT_THAT(refused, IsRefusedBy("a", Reason::kLimit));
    ASSERT_GT(refused.retry_after, Duration(1));
    now_ += refused.retry_after - Duration(1);
    EXPECT_FALSE(Peek(impatient).allowed());
    now_ += Duration(1);
    EXPECT_TRUE(Peek(impatient).allowed());
  }
}

TEST_F(AllOrNothingTest, AFullConcurrencyRuleGivesRatesBack) {
  Build({LimitRule("rate", 10, minutes(1)), ConcurrencyRule("slots", 1)});
  Attempt holder;
  Enter(holder, FakeRequest("r"));

  Attempt refused;
  Enter(refused, FakeRequest("r"));

  EXPECT_THAT(refused.decision(), IsRefusedBy("slots", Reason::kConcurrency));
  EXPECT_EQ(CountersOf("slots").inflight, 1);
  Settle(holder);
  EXPECT_EQ(Peek().remaining, 1) << "of the slots";
  Load({LimitRule("rate", 10, minutes(1))});
  EXPECT_EQ(Peek().remaining, 9);
}

// Sequential requests that something later refuses must leave no slot behind.
TEST_F(AllOrNothingTest, RefusedRequestsLeaveTheInflightGaugeAtZero) {
  Build({ConcurrencyRule("slots", 5), ConcurrencyRule("few", 1)});
  Attempt holder;
  Enter(holder, FakeRequest("r"));

  for (int i = 0; i < 20; ++i) {
    Attempt attempt;
    Enter(attempt, FakeRequest("r"));
    EXPECT_THAT(attempt.decision(), IsRefusedBy("few", Reason::kConcurrency));
    Settle(attempt);
  }

  EXPECT_EQ(CountersOf("slots").inflight, 1) << "the holder's";
  Settle(holder);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
  EXPECT_EQ(CountersOf("few").inflight, 0);
}

TEST_F(AllOrNothingTest, TwoConcurrencyRulesOnOneRequestBothReturnToZero) {
  Rule route = ConcurrencyRule("route", 10);
  route.by = {"user"};
  Build({ConcurrencyRule("global", 50), route});

  for (int i = 0; i < 200; ++i) {
    Attempt attempt;
    Enter(attempt, FakeRequest("r", {{"user", "ann"}}));
    Settle(attempt);
  }

  EXPECT_EQ(CountersOf("global").inflight, 0);
  EXPECT_EQ(CountersOf("route").inflight, 0);
}

TEST_F(AllOrNothingTest, ASecondSettleOfACallDoesNothing) {
  Build({ConcurrencyRule("slots", 10)});
  Attempt one;
  Attempt two;
  Enter(one, FakeRequest("r", {}, 4));
  Enter(two, FakeRequest("r", {}, 4));
  Attempt three;
  Enter(three, FakeRequest("r", {}, 4));
  EXPECT_FALSE(three.entered()) << "eight of ten are in use";

  Settle(one);
  Settle(one);
  Settle(three);

  EXPECT_EQ(CountersOf("slots").inflight, 4);
  Settle(two);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
  EXPECT_EQ(Peek().remaining, 10);
}

TEST_F(AllOrNothingTest, ACheckLooksAtConcurrencyAndTakesNone) {
  Build({ConcurrencyRule("slots", 1)});

  EXPECT_THAT(Check(), IsAllowed());
  EXPECT_THAT(Check(), IsAllowed());

  Attempt holder;
  Enter(holder, FakeRequest("r"));
  EXPECT_THAT(Check(), IsRefusedBy("slots", Reason::kConcurrency));
  Settle(holder);
}

class WaitingTest : public testing::EngineFixture {
 protected:
  void BuildWaiting() {
    Rule rate = LimitRule("rate", 1, seconds(1));
    rate.wait = seconds(5);
    Build({rate, ConcurrencyRule("slots", 1)});
    Spend();
  }
};

TEST_F(WaitingTest, AWaitingCallHoldsNoSlotAndTakesItWhenTheWaitEnds) {
  BuildWaiting();
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));
  EXPECT_THAT(attempt.decision(), Waits(seconds(1)));
  EXPECT_EQ(CountersOf("slots").inflight, 0);

  now_ += seconds(1);
  engine_->Continue(attempt, now_);

  EXPECT_THAT(attempt.decision(), IsAllowed());
  EXPECT_EQ(CountersOf("slots").inflight, 1);
  Settle(attempt);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

TEST_F(WaitingTest, RefusedWhenTheWaitEndsItGivesBackWhatItTook) {
  BuildWaiting();
  Attempt holder;
  Enter(holder, FakeRequest("r"));
  Attempt waiting;
  Enter(waiting, FakeRequest("r"));
  EXPECT_THAT(waiting.decision(), Waits(seconds(2)));
  now_ += seconds(2) - Duration(1);
  engine_->Continue(holder, now_);
  ASSERT_TRUE(holder.entered());

  engine_->Continue(waiting, now_);

  EXPECT_THAT(waiting.decision(), IsRefusedBy("slots", Reason::kConcurrency));
  EXPECT_FALSE(waiting.waiting());
  Settle(holder);
  now_ += Duration(1);
  EXPECT_THAT(Check(), IsAllowed()) << "at once: its place is free";
}

// Cancelled waiters must not keep their place: whoever is patient is served soon.
TEST_F(WaitingTest, CancelledWaitersGiveTheirPlaceBack) {
  Rule rate = LimitRule("rate", 10, seconds(1));
  rate.burst = 1;
  rate.wait = minutes(10);
  Build({rate});
  Spend();
  for (int i = 0; i < 1'000; ++i) {
    Attempt attempt;
    Enter(attempt, FakeRequest("r"));
    ASSERT_TRUE(attempt.waiting());
    engine_->Cancel(attempt, now_);
  }

  EXPECT_THAT(Check(), Waits(std::chrono::milliseconds(100)));
}

TEST_F(WaitingTest, CancelAtEveryStepLeavesNothing) {
  BuildWaiting();
  const auto full = [this] {
    now_ += minutes(1);
    const Decision decision = Peek();
    return decision.remaining == 1 && CountersOf("slots").inflight == 0;
  };
  Attempt attempt;
  engine_->Cancel(attempt, now_);
  EXPECT_TRUE(full()) << "idle";

  now_ += minutes(1);
  Enter(attempt, FakeRequest("r"));
  ASSERT_TRUE(attempt.entered());
  engine_->Cancel(attempt, now_);
  EXPECT_EQ(Peek().remaining, 1) << "entered: given back at once";
  EXPECT_EQ(CountersOf("slots").inflight, 0);

  Spend();
  Enter(attempt, FakeRequest("r"));
  ASSERT_TRUE(attempt.waiting());
  engine_->Cancel(attempt, now_);
  EXPECT_EQ(Peek().wait, seconds(0));
  EXPECT_TRUE(full()) << "waiting";
  engine_->Continue(attempt, now_);
  Settle(attempt);
  EXPECT_TRUE(full()) << "steps after a cancel do nothing";
}

}  // namespace
}  // namespace flowguard::engine
