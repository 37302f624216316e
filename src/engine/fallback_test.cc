// SPDX-License-Identifier: Apache-2.0
//
// Shared rules while their store is away: the share of a node, and what it starts with.
#include <gtest/gtest.h>

#include "engine/share.h"
#include "testing/engine_fixture.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::SharedRule;

constexpr TakeOutcome::Status kTaken = TakeOutcome::Status::kTaken;
constexpr TakeOutcome::Status kRefused = TakeOutcome::Status::kRefused;
constexpr TakeOutcome::Status kFailed = TakeOutcome::Status::kFailed;

class FallbackTest : public testing::EngineFixture {
 protected:
  TakeOutcome Outcome(TakeOutcome::Status status, int64_t cost = 1) {
    TakeOutcome outcome;
    outcome.status = status;
    outcome.numbers.limit = 100;
    outcome.numbers.remaining = 50;
    outcome.numbers.allowed = status == kTaken;
    if (status == kTaken) outcome.receipt = {.cost = cost, .mark = 3};
    return outcome;
  }
  // A request that the store answers so.  True: it went.
  bool Goes(TakeOutcome::Status status) {
    Attempt attempt;
    engine_->Begin(attempt, FakeRequest("r"), Mode::kCheck, now_);
    const TakeOutcome outcome = Outcome(status);
    engine_->Resume(attempt, {&outcome, 1}, now_);
    return attempt.decision().allowed();
  }
  int HowManyGo(TakeOutcome::Status status, int of) {
    int count = 0;
    for (int i = 0; i < of; ++i)
      count += Goes(status) ? 1 : 0;
    return count;
  }
};

Rule Local(int64_t limit, Algorithm algorithm) {
  Rule rule = SharedRule("shared", limit, minutes(1), StoreFailurePolicy::kLocal);
  rule.algorithm = algorithm;
  return rule;
}

TEST_F(FallbackTest, TheShareStartsDebitedWithWhatTheStoreGrantedHere) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kSlidingLog,
                                    Algorithm::kSlidingWindow, Algorithm::kFixedWindow}) {
    Build({Local(12, algorithm)}, /*nodes=*/3);
    EXPECT_EQ(HowManyGo(kTaken, 3), 3);
    EXPECT_EQ(HowManyGo(kFailed, 10), 1)
        << "of a share of 4, algorithm " << static_cast<int>(algorithm);
  }
}

TEST_F(FallbackTest, ClusterRulesAreSharedByTheClientsOfTheirServer) {
  Rule cluster = Local(12, Algorithm::kTokenBucket);
  cluster.scope = Scope::kCluster;
  Build({cluster}, /*nodes=*/3);
  EXPECT_EQ(HowManyGo(kFailed, 20), 0) << "how many there are is not known";
  engine_->SetClusterNodes(6);
  EXPECT_EQ(HowManyGo(kFailed, 20), 2);
}

TEST_F(FallbackTest, OfALimitPerClientEachHasTheWhole) {
  Rule cluster = Local(12, Algorithm::kTokenBucket);
  cluster.scope = Scope::kCluster;
  cluster.cluster.per_client = true;
  Build({cluster}, /*nodes=*/3);
  EXPECT_EQ(HowManyGo(kFailed, 20), 12);
}

TEST_F(FallbackTest, WhatWasGrantedBeyondTheShareIsNoDebt) {
  Build({Local(12, Algorithm::kTokenBucket)}, /*nodes=*/3);
  HowManyGo(kTaken, 12);
  EXPECT_FALSE(Goes(kFailed));
  now_ += seconds(15);  // one unit of 4 a minute
  EXPECT_EQ(HowManyGo(kFailed, 5), 1);
}

TEST_F(FallbackTest, AStoreThatRefusesDebitsNothing) {
  Build({Local(12, Algorithm::kSlidingLog)}, /*nodes=*/3);
  HowManyGo(kRefused, 10);
  EXPECT_EQ(HowManyGo(kFailed, 10), 4);
}

TEST_F(FallbackTest, TheShareFollowsTheCountOfNodes) {
  Build({Local(12, Algorithm::kSlidingLog)}, /*nodes=*/0);
  Attempt attempt;
  engine_->Begin(attempt, FakeRequest("r"), Mode::kCheck, now_);
  const TakeOutcome failed = Outcome(kFailed);
  engine_->Resume(attempt, {&failed, 1}, now_);
  EXPECT_THAT(attempt.decision(), IsRefusedBy("shared", Reason::kStoreFailure));

  engine_->SetFallbackNodes(2);
  EXPECT_EQ(HowManyGo(kFailed, 10), 6);
  now_ += minutes(1);
  engine_->SetFallbackNodes(4);
  EXPECT_EQ(HowManyGo(kFailed, 10), 3);
}

TEST_F(FallbackTest, AllNodesTogetherGrantTheLimitAtMost) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kFixedWindow}) {
    for (const int nodes : {1, 2, 3, 7, 12}) {
      Build({Local(12, algorithm)}, nodes);
      EXPECT_LE(nodes * HowManyGo(kFailed, 20), 12);
    }
  }
}

TEST_F(FallbackTest, SharesBelowOneAreAWarning) {
  Build({}, /*nodes=*/5);
  RuleSet set;
  set.rules = {Local(4, Algorithm::kTokenBucket)};
  std::vector<std::string> warnings;
  ASSERT_TRUE(engine_->Load(set, &warnings).ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("a limit of 4 over 5 nodes"), std::string::npos) << warnings[0];
  EXPECT_EQ(HowManyGo(kFailed, 10), 1);
}

// --- shared concurrency

Rule Slots(StoreFailurePolicy policy) {
  Rule rule = testing::ConcurrencyRule("slots", 4);
  rule.scope = Scope::kShared;
  rule.on_store_failure = policy;
  return rule;
}

class SharedSlotsTest : public FallbackTest {
 protected:
  Step Enter(Attempt& attempt, Mode mode = Mode::kEnter) {
    return engine_->Begin(attempt, FakeRequest("r"), mode, now_);
  }
  void Resume(Attempt& attempt, const TakeOutcome& outcome) {
    engine_->Resume(attempt, {&outcome, 1}, now_);
  }
};

TEST_F(SharedSlotsTest, ASlotIsTakenFromTheStoreAndReleasedWhenTheCallEnds) {
  Build({Slots(StoreFailurePolicy::kClosed)});
  Attempt attempt;
  ASSERT_EQ(Enter(attempt), Step::kRemote);
  const RemoteTake& take = attempt.remote_takes()[0];
  EXPECT_EQ(take.config.rate.limit, 4);
  EXPECT_EQ(take.config.rate.window, base::kSlotExpiry);
  EXPECT_EQ(take.cost, 1);

  Resume(attempt, Outcome(kTaken));
  EXPECT_TRUE(attempt.entered());
  EXPECT_EQ(CountersOf("slots").inflight, 1);
  Settle(attempt, flowguard::Outcome::kOk, 70);

  ASSERT_EQ(attempt.store_dues().size(), 1u);
  EXPECT_EQ(attempt.store_dues()[0].receipt.cost, 1);
  EXPECT_EQ(attempt.store_dues()[0].receipt.mark, 3);
  EXPECT_EQ(attempt.store_dues()[0].charge, 0) << "a slot has no actual cost";
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

TEST_F(SharedSlotsTest, CancelAndARefusalOfAnotherRuleRelease) {
  Build({Slots(StoreFailurePolicy::kClosed), SharedRule("rate", 9, seconds(1))});
  Attempt attempt;
  Enter(attempt);
  const TakeOutcome refused[] = {Outcome(kTaken), Outcome(kRefused)};
  engine_->Resume(attempt, refused, now_);
  ASSERT_EQ(attempt.store_dues().size(), 1u);
  EXPECT_EQ(CountersOf("slots").inflight, 0);

  Enter(attempt);
  const TakeOutcome both[] = {Outcome(kTaken), Outcome(kTaken)};
  engine_->Resume(attempt, both, now_);
  EXPECT_EQ(CountersOf("slots").inflight, 1);
  engine_->Cancel(attempt, now_);
  EXPECT_EQ(attempt.store_dues().size(), 2u);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

TEST_F(SharedSlotsTest, ACheckLooksAndTakesNothing) {
  Build({Slots(StoreFailurePolicy::kClosed)});
  Attempt attempt;
  Enter(attempt, Mode::kCheck);
  EXPECT_EQ(attempt.remote_takes()[0].cost, 0);
  TakeOutcome full = Outcome(kTaken, 0);
  full.receipt = {};
  full.numbers.remaining = 0;
  Resume(attempt, full);
  EXPECT_THAT(attempt.decision(), IsRefusedBy("slots", Reason::kConcurrency));

  Enter(attempt, Mode::kCheck);
  full.numbers.remaining = 1;
  Resume(attempt, full);
  EXPECT_THAT(attempt.decision(), IsAllowed());
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

TEST_F(SharedSlotsTest, WithoutTheStoreANodeHasItsShareOfTheSlots) {
  Build({Slots(StoreFailurePolicy::kLocal)}, /*nodes=*/2);
  Attempt first;
  Attempt second;
  Attempt third;
  for (Attempt* attempt : {&first, &second, &third}) {
    Enter(*attempt);
    Resume(*attempt, Outcome(kFailed));
  }
  EXPECT_TRUE(first.entered());
  EXPECT_TRUE(second.entered());
  EXPECT_THAT(third.decision(), IsRefusedBy("slots", Reason::kConcurrency));
  EXPECT_EQ(CountersOf("slots").inflight, 2);

  Settle(first);
  EXPECT_TRUE(first.store_dues().empty()) << "the store knows nothing of it";
  Enter(third);
  Resume(third, Outcome(kFailed));
  EXPECT_TRUE(third.entered());
  Settle(second);
  Settle(third);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

TEST_F(SharedSlotsTest, TheOtherPoliciesOpenAndClose) {
  Build({Slots(StoreFailurePolicy::kOpen)});
  Attempt attempt;
  Enter(attempt);
  Resume(attempt, Outcome(kFailed));
  EXPECT_TRUE(attempt.entered());
  Settle(attempt);
  Load({Slots(StoreFailurePolicy::kClosed)});
  Enter(attempt);
  Resume(attempt, Outcome(kFailed));
  EXPECT_THAT(attempt.decision(), IsRefusedBy("slots", Reason::kStoreFailure));
}

}  // namespace
}  // namespace flowguard::engine
