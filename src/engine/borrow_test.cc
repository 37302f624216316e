// SPDX-License-Identifier: Apache-2.0
//
// Prioritised requests among the rules that a request meets: all or nothing, waits as any
// wait, and nobody who asked for none.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/quota_store.h"
#include "testing/engine_fixture.h"
#include "testing/fake_request.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::FakeRequest;
using testing::LimitRule;

class BorrowingTest : public testing::EngineFixture {
 protected:
  // 10 a second, and half a second of those to come.
  static Rule Lender(Algorithm algorithm = Algorithm::kSlidingLog) {
    Rule rule = LimitRule("lender", 10, seconds(1), algorithm);
    rule.borrow = milliseconds(500);
    return rule;
  }
  static FakeRequest Prioritised() {
    FakeRequest request("r");
    request.priority = true;
    return request;
  }
  // All of a second is taken now, and the time is 700 ms later.
  void UseUp() {
    Spend(10);
    ASSERT_FALSE(Check().allowed());
    now_ += milliseconds(700);
  }
  int PassNow() {
    int passed = 0;
    for (int i = 0; i < 100; ++i)
      passed += Check().allowed() ? 1 : 0;
    return passed;
  }
};

TEST_F(BorrowingTest, OnlyPrioritisedRequestsWaitForWhatIsToCome) {
  Build({Lender()});
  UseUp();
  EXPECT_FALSE(Check().allowed());
  EXPECT_THAT(Check(Prioritised()), testing::Waits(milliseconds(300)));
  now_ += milliseconds(300);
  EXPECT_EQ(PassNow(), 9);
}

TEST_F(BorrowingTest, WithoutBorrowThePriorityMeansNothing) {
  Build({LimitRule("rule", 10, seconds(1), Algorithm::kSlidingLog)});
  UseUp();
  EXPECT_FALSE(Check(Prioritised()).allowed());
}

TEST_F(BorrowingTest, WhatIsThereIsTakenWithoutAWait) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                    Algorithm::kSlidingBuckets, Algorithm::kLeapArray}) {
    Build({Lender(algorithm)});
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(Check(Prioritised()).verdict, Verdict::kAllow);
    EXPECT_FALSE(Check().allowed());
  }
}

TEST_F(BorrowingTest, WhoWaitsForLessBorrowsNothing) {
  Build({Lender()});
  UseUp();
  FakeRequest request = Prioritised();
  request.wait_max = milliseconds(299);
  const Decision refused = Check(request);
  EXPECT_FALSE(refused.allowed());
  EXPECT_EQ(refused.retry_after, milliseconds(1));
  now_ += milliseconds(300);
  EXPECT_EQ(PassNow(), 10);
}

// Sentinel lets a call that borrows pass by the rules that come after.
TEST_F(BorrowingTest, ALaterRuleRefusesItAndTheLoanGoesBack) {
  Build({Lender(), LimitRule("later", 10, minutes(1), Algorithm::kSlidingLog)});
  UseUp();
  const Decision refused = Check(Prioritised());
  EXPECT_FALSE(refused.allowed());
  EXPECT_EQ(refused.rule->name, "later");
  Load({Lender()});
  now_ += milliseconds(300);
  EXPECT_EQ(PassNow(), 10);
}

// A loan takes what is there too, which others would miss until it is due.
TEST_F(BorrowingTest, WhoIsRefusedLeavesWhatIsThereToOthers) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                    Algorithm::kSlidingBuckets, Algorithm::kLeapArray}) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)));
    now_ = Instant(hours(24 * 8));
    Build({Lender(algorithm), LimitRule("later", 6, minutes(1), Algorithm::kSlidingLog)});
    Spend(6);
    // A bucket has 4 and a part by then, the others 4.
    const bool fills = algorithm == Algorithm::kTokenBucket;
    now_ += fills ? milliseconds(50) : milliseconds(700);
    FakeRequest large = Prioritised();
    large.cost = fills ? 9 : 10;
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(Check(large).rule->name, "later");
    Load({Lender(algorithm)});
    EXPECT_EQ(Peek(large).verdict, Verdict::kWait);
    EXPECT_EQ(PassNow(), 4);
  }
}

// Whoever waits less than others may is told of the later time.
TEST_F(BorrowingTest, ARefusalTellsWhenTheCallerCanCome) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                    Algorithm::kSlidingBuckets, Algorithm::kLeapArray}) {
    for (const auto wait_max :
         {milliseconds(0), milliseconds(20), milliseconds(200), milliseconds(600)}) {
      SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)) + " waits " +
                   std::to_string(wait_max.count()));
      Build({Lender(algorithm)});
      now_ = Instant(hours(24 * 8)) + milliseconds(10);
      FakeRequest request = Prioritised();
      request.cost = 10;
      request.wait_max = wait_max;
      EXPECT_TRUE(Check(request).allowed());
      const Decision refused = Check(request);
      ASSERT_FALSE(refused.allowed());
      EXPECT_EQ(Peek(request).retry_after, refused.retry_after);
      now_ += refused.retry_after - Duration(1);
      EXPECT_FALSE(Check(request).allowed());
      now_ += Duration(1);
      EXPECT_TRUE(Check(request).allowed());
    }
  }
}

TEST_F(BorrowingTest, OfTwoLendersTheLongerWaitCounts) {
  Rule other = LimitRule("other", 20, seconds(2), Algorithm::kSlidingLog);
  other.borrow = seconds(2);
  Build({Lender(), other});
  UseUp();
  EXPECT_THAT(Check(Prioritised()), testing::Waits(milliseconds(300)));
  for (int i = 0; i < 9; ++i)
    EXPECT_TRUE(Check(Prioritised()).allowed());
  EXPECT_FALSE(Check(Prioritised()).allowed());  // the first lends no more
}

TEST_F(BorrowingTest, AWaitingCallTakesItsSlotWhenItGoes) {
  Build({Lender(), testing::ConcurrencyRule("slots", 1)});
  UseUp();
  Attempt call;
  Enter(call, Prioritised());
  EXPECT_THAT(call.decision(), testing::Waits(milliseconds(300)));
  ASSERT_TRUE(call.waiting());
  EXPECT_EQ(CountersOf("slots").inflight, 0);
  now_ += milliseconds(300);
  engine_->Continue(call, now_);
  ASSERT_TRUE(call.entered());
  EXPECT_EQ(CountersOf("slots").inflight, 1);
  Settle(call);
  EXPECT_EQ(PassNow(), 9);
}

TEST_F(BorrowingTest, WhoIsCancelledGivesTheLoanBack) {
  for (const Algorithm algorithm :
       {Algorithm::kSlidingLog, Algorithm::kSlidingBuckets, Algorithm::kLeapArray}) {
    Build({Lender(algorithm)});
    now_ = Instant(hours(24 * 8));
    UseUp();
    Attempt call;
    Enter(call, Prioritised());
    ASSERT_TRUE(call.waiting());
    engine_->Cancel(call, now_);
    now_ += milliseconds(400);
    EXPECT_EQ(PassNow(), 10) << static_cast<int>(algorithm);
  }
}

// The store's answer takes time, in which the loan comes nearer, or goes to somebody else.
TEST_F(BorrowingTest, AWaitIsToldAsItIsWhenTheStoreHasAnswered) {
  Rule shared = LimitRule("shared", 100, seconds(1));
  shared.scope = Scope::kShared;
  Build({Lender(), shared});
  Load({Lender()});
  UseUp();
  Load({Lender(), shared});
  TakeOutcome granted;
  granted.status = TakeOutcome::Status::kTaken;
  granted.numbers = {.allowed = true, .limit = 100, .remaining = 99};
  Attempt call;
  ASSERT_EQ(engine_->Begin(call, Prioritised(), Mode::kCheck, now_), Step::kRemote);
  EXPECT_EQ(engine_->Resume(call, {&granted, 1}, now_ + milliseconds(200)), Step::kDone);
  EXPECT_THAT(call.decision(), testing::Waits(milliseconds(100)));
  Attempt late;
  ASSERT_EQ(engine_->Begin(late, Prioritised(), Mode::kCheck, now_), Step::kRemote);
  EXPECT_EQ(engine_->Resume(late, {&granted, 1}, now_ + milliseconds(300)), Step::kDone);
  EXPECT_EQ(late.decision().verdict, Verdict::kAllow);
}

TEST_F(BorrowingTest, ALoanThatSomebodyElseTookLeavesNoWaitBehind) {
  Rule degrades = Lender();
  degrades.degrade.enabled = true;
  Rule shared = LimitRule("shared", 100, seconds(1));
  shared.scope = Scope::kShared;
  Build({Lender()});
  UseUp();
  Load({degrades, shared});
  TakeOutcome granted;
  granted.status = TakeOutcome::Status::kTaken;
  granted.numbers = {.allowed = true, .limit = 100, .remaining = 99};
  Attempt call;
  ASSERT_EQ(engine_->Begin(call, Prioritised(), Mode::kCheck, now_), Step::kRemote);
  Load({Lender()});
  FakeRequest all = Prioritised();
  all.cost = 10;
  EXPECT_THAT(Check(all), testing::Waits(milliseconds(300)));
  EXPECT_EQ(engine_->Resume(call, {&granted, 1}, now_), Step::kDone);
  EXPECT_EQ(call.decision().verdict, Verdict::kAllow);
  EXPECT_TRUE(call.decision().degraded);
  EXPECT_EQ(call.decision().wait, Duration::zero());
}

// Each value of a list borrows of its own, and all of them or none.
TEST_F(BorrowingTest, OfAListEachValueBorrows) {
  Rule rule = Lender();
  rule.by = {"param:sku"};
  Build({rule});
  for (const char* sku : {"a", "b"}) {
    for (int i = 0; i < 10; ++i)
      static_cast<void>(Check(FakeRequest("r", {{"param:sku", sku}})));
    now_ += milliseconds(100);
  }
  now_ += milliseconds(500);  // a was used up 700 ms ago, b 600
  FakeRequest both("r", {{"param:sku", "a"}, {"param:sku", "b"}, {"param:sku", "c"}});
  both.priority = true;
  EXPECT_THAT(Check(both), testing::Waits(milliseconds(400)));
  both.cost = 10;
  EXPECT_FALSE(Check(both).allowed());
  now_ += milliseconds(400);
  int passed = 0;
  for (int i = 0; i < 20; ++i)
    passed += Check(FakeRequest("r", {{"param:sku", "b"}})).allowed() ? 1 : 0;
  EXPECT_EQ(passed, 9);
}

TEST_F(BorrowingTest, APeekTellsTheWaitAndTakesNothing) {
  Build({Lender()});
  UseUp();
  FakeRequest request = Prioritised();
  request.cost = 10;
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(Peek(request), testing::Waits(milliseconds(300)));
  EXPECT_THAT(Check(request), testing::Waits(milliseconds(300)));
}

TEST_F(BorrowingTest, EachKeyBorrowsOfItsOwn) {
  Rule rule = Lender();
  rule.by = {"user"};
  rule.overrides = {{.value = "large", .rate = {20, seconds(1)}, .burst = {}}};
  Build({rule});
  const auto of = [](const char* user, bool priority) {
    FakeRequest request("r", {{"user", user}});
    request.priority = priority;
    return request;
  };
  for (int i = 0; i < 20; ++i) {
    static_cast<void>(Check(of("small", false)));
    static_cast<void>(Check(of("large", false)));
  }
  now_ += milliseconds(700);
  int waits = 0;
  for (int i = 0; i < 30; ++i)
    waits += Check(of("large", true)).verdict == Verdict::kWait ? 1 : 0;
  EXPECT_EQ(waits, 20);
  EXPECT_THAT(Check(of("small", true)), testing::Waits(milliseconds(300)));
}

TEST_F(BorrowingTest, LoansOutliveAReload) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                    Algorithm::kSlidingBuckets, Algorithm::kLeapArray}) {
    now_ = Instant(hours(24 * 8));
    Build({Lender(algorithm)});
    UseUp();
    for (int i = 0; i < 30; ++i)
      static_cast<void>(Check(Prioritised()));
    Rule message = Lender(algorithm);
    message.refuse.message = "later";
    Load({message});
    EXPECT_FALSE(Check(Prioritised()).allowed());
    now_ += milliseconds(300);
    EXPECT_EQ(PassNow(), 0) << static_cast<int>(algorithm);
  }
}

TEST_F(BorrowingTest, InShadowItIsSaidAndNotWaitedFor) {
  Rule rule = Lender();
  rule.shadow = true;
  Build({rule});
  Spend(10);
  now_ += milliseconds(700);
  EXPECT_EQ(Check(Prioritised()).verdict, Verdict::kAllow);
  EXPECT_EQ(CountersOf("lender").shadow_refused, 0U);
  now_ += milliseconds(1);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(Check(Prioritised()).verdict, Verdict::kAllow);
  EXPECT_EQ(CountersOf("lender").shadow_refused, 1U);
}

}  // namespace
}  // namespace flowguard::engine
