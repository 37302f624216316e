// SPDX-License-Identifier: Apache-2.0
//
// Decisions that need a store: what is asked, and what each outcome makes of them.
#include <string>

#include <gtest/gtest.h>

#include "rules/compiled_rule.h"
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
using testing::SharedRule;
using testing::Waits;

constexpr TakeOutcome::Status kTaken = TakeOutcome::Status::kTaken;
constexpr TakeOutcome::Status kRefused = TakeOutcome::Status::kRefused;
constexpr TakeOutcome::Status kFailed = TakeOutcome::Status::kFailed;

TakeOutcome Outcomes(TakeOutcome::Status status, int64_t cost = 1) {
  TakeOutcome outcome;
  outcome.status = status;
  outcome.numbers.limit = 9;
  outcome.numbers.allowed = status == kTaken;
  if (status == kTaken) outcome.receipt.cost = cost;
  if (status == kRefused) outcome.numbers.retry_after = seconds(3);
  return outcome;
}

class RemoteTest : public testing::EngineFixture {
 protected:
  Step Begin(Attempt& attempt, Mode mode = Mode::kEnter) {
    return engine_->Begin(attempt, FakeRequest("r", {{"user", "ann"}}), mode, now_);
  }
  void Resume(Attempt& attempt, std::initializer_list<TakeOutcome> outcomes) {
    engine_->Resume(attempt, {outcomes.begin(), outcomes.size()}, now_);
  }
};

TEST_F(RemoteTest, AsksForTheTakesOfSharedRulesAfterAllLocalOnesPassed) {
  Rule shared = SharedRule("shared", 9, seconds(1));
  shared.by = {"user"};
  shared.overrides = {{"ann", {77, seconds(1)}, std::nullopt}};
  Build({shared, LimitRule("local", 1, minutes(1))});
  Attempt attempt;

  EXPECT_EQ(Begin(attempt), Step::kRemote);

  ASSERT_EQ(attempt.remote_takes().size(), 1u);
  const RemoteTake& take = attempt.remote_takes()[0];
  EXPECT_EQ(take.rule->rule.name, "shared");
  ASSERT_EQ(take.rule->by.size(), 1u);
  EXPECT_EQ(take.rule->by[0].dimension->name, "user");
  EXPECT_EQ(take.config.rate.limit, 77) << "after overrides";
  EXPECT_EQ(take.cost, 1);
  EXPECT_NE(take.key.find("ann"), std::string_view::npos);
  Resume(attempt, {Outcomes(kTaken)});
  EXPECT_TRUE(attempt.entered());
  Settle(attempt);

  EXPECT_EQ(Begin(attempt), Step::kDone) << "nothing remote for what is refused locally";
  EXPECT_THAT(attempt.decision(), IsRefusedBy("local", Reason::kLimit));
}

// Rules are kept by what they say; the store was shown the target of an earlier load.
TEST_F(RemoteTest, TheStoreSeesTheTargetThatWasLoadedLast) {
  Rule shared = SharedRule("shared", 9, seconds(1));
  Build({shared});
  shared.on.resource = "*";
  Load({LimitRule("first", 1, minutes(1)), shared});
  Attempt attempt;

  ASSERT_EQ(Begin(attempt), Step::kRemote);

  EXPECT_EQ(attempt.remote_takes()[0].rule->rule.on, shared.on);
  EXPECT_TRUE(attempt.remote_takes()[0].rule->rule.origin.empty());
  engine_->Cancel(attempt, now_);
}

// The same: a token server is asked by what was loaded last.
TEST_F(RemoteTest, ATokenServerIsAskedByTheFlowIdThatWasLoadedLast) {
  Rule cluster = SharedRule("cluster", 9, seconds(1));
  cluster.scope = Scope::kCluster;
  Build({cluster});
  for (const ClusterCount& count : {ClusterCount{.flow_id = 7}, ClusterCount{.flow_id = 8},
                                    ClusterCount{.flow_id = 8, .per_client = true}}) {
    cluster.cluster = count;
    Load({cluster});
    Attempt attempt;
    ASSERT_EQ(Begin(attempt), Step::kRemote);
    EXPECT_EQ(attempt.remote_takes()[0].rule->rule.cluster, count);
    engine_->Cancel(attempt, now_);
  }
}

TEST_F(RemoteTest, ARemoteRefusalGivesLocalTakesBack) {
  Build({SharedRule("shared", 9, seconds(1)), LimitRule("local", 5, minutes(1)),
         ConcurrencyRule("slots", 1)});
  Attempt attempt;
  Begin(attempt);

  Resume(attempt, {Outcomes(kRefused)});

  EXPECT_THAT(attempt.decision(), IsRefusedBy("shared", Reason::kLimit));
  EXPECT_EQ(attempt.decision().retry_after, seconds(3));
  EXPECT_EQ(CountersOf("slots").inflight, 0);
  Load({LimitRule("local", 5, minutes(1))});
  EXPECT_EQ(Peek().remaining, 5);
}

TEST_F(RemoteTest, AFailedStoreFollowsTheRulesPolicy) {
  for (const StoreFailurePolicy policy :
       {StoreFailurePolicy::kOpen, StoreFailurePolicy::kClosed, StoreFailurePolicy::kLocal}) {
    Build({SharedRule("shared", 8, minutes(1), policy)}, /*nodes=*/4);
    int allowed = 0;
    for (int i = 0; i < 10; ++i) {
      Attempt attempt;
      Begin(attempt, Mode::kCheck);
      Resume(attempt, {Outcomes(kFailed)});
      allowed += attempt.decision().allowed() ? 1 : 0;
      if (policy == StoreFailurePolicy::kClosed) {
        EXPECT_THAT(attempt.decision(), IsRefusedBy("shared", Reason::kStoreFailure));
        EXPECT_EQ(attempt.decision().retry_after, seconds(1));
      }
    }
    const int expected = policy == StoreFailurePolicy::kOpen     ? 10
                         : policy == StoreFailurePolicy::kClosed ? 0
                                                                 : 2;
    EXPECT_EQ(allowed, expected) << "policy " << static_cast<int>(policy);
  }
}

TEST_F(RemoteTest, TheLocalShareIsAtLeastOneAndNeedsAKnownNumberOfNodes) {
  Build({SharedRule("shared", 2, minutes(1), StoreFailurePolicy::kLocal)}, /*nodes=*/10);
  Attempt attempt;
  Begin(attempt, Mode::kCheck);
  Resume(attempt, {Outcomes(kFailed)});
  EXPECT_THAT(attempt.decision(), IsAllowed());
  Begin(attempt, Mode::kCheck);
  Resume(attempt, {Outcomes(kFailed)});
  EXPECT_EQ(attempt.decision().retry_after, minutes(5)) << "two a minute over ten nodes";

  Build({SharedRule("shared", 2, minutes(1), StoreFailurePolicy::kLocal)}, /*nodes=*/0);
  Attempt unknown;
  Begin(unknown, Mode::kCheck);
  Resume(unknown, {Outcomes(kFailed)});
  EXPECT_THAT(unknown.decision(), IsRefusedBy("shared", Reason::kStoreFailure));
}

TEST_F(RemoteTest, WhatAStoreTookIsGivenBackWhenAnotherRuleFailsClosed) {
  Build({SharedRule("a", 9, seconds(1)), SharedRule("b", 9, seconds(1))});
  Attempt attempt;
  Begin(attempt);

  Resume(attempt, {Outcomes(kTaken, 1), Outcomes(kFailed)});

  EXPECT_THAT(attempt.decision(), IsRefusedBy("b", Reason::kStoreFailure));
  ASSERT_EQ(attempt.store_dues().size(), 1u);
  EXPECT_EQ(attempt.store_dues()[0].take, &attempt.remote_takes()[0]);
  EXPECT_EQ(attempt.store_dues()[0].receipt.cost, 1);
}

TEST_F(RemoteTest, AnAttemptTellsTheLatestTimeAtWhichAStoreDecided) {
  Build({SharedRule("a", 9, seconds(1)), SharedRule("b", 9, seconds(1))});
  Attempt attempt;
  Begin(attempt);
  EXPECT_EQ(attempt.store_time_us(), 0);
  TakeOutcome first = Outcomes(kTaken);
  first.store_time_us = 1'796'000'000'000'002;
  TakeOutcome second = Outcomes(kTaken);
  second.store_time_us = 1'796'000'000'000'001;
  Resume(attempt, {first, second});
  EXPECT_EQ(attempt.store_time_us(), 1'796'000'000'000'002);
  Settle(attempt);

  Begin(attempt);
  Resume(attempt, {Outcomes(kTaken), Outcomes(kTaken)});
  EXPECT_EQ(attempt.store_time_us(), 0) << "nothing is left of the one before";
  Settle(attempt);
}

TEST_F(RemoteTest, MissingOutcomesCountAsFailed) {
  Build({SharedRule("a", 9, seconds(1))});
  Attempt attempt;
  Begin(attempt);

  Resume(attempt, {});

  EXPECT_THAT(attempt.decision(), IsRefusedBy("a", Reason::kStoreFailure));
}

TEST_F(RemoteTest, ASharedShadowRuleNeverRefuses) {
  Rule shadow = SharedRule("s", 9, seconds(1));
  shadow.shadow = true;
  Build({shadow});
  for (const TakeOutcome::Status status : {kRefused, kFailed}) {
    Attempt attempt;
    Begin(attempt);
    Resume(attempt, {Outcomes(status)});
    EXPECT_TRUE(attempt.entered());
    Settle(attempt);
  }
  EXPECT_EQ(CountersOf("s").shadow_refused, 2u);
}

TEST_F(RemoteTest, ActualCostsAreSettledWithTheStore) {
  Rule shared = SharedRule("tokens", 100, seconds(1));
  shared.cost = {.reserve = 10, .settle = "", .max_debt = 50};
  Build({shared});
  Attempt attempt;
  Begin(attempt);
  Resume(attempt, {Outcomes(kTaken, 10)});
  Settle(attempt, Outcome::kOk, 4);
  ASSERT_EQ(attempt.store_dues().size(), 1u);
  EXPECT_EQ(attempt.store_dues()[0].receipt.cost, 6);

  Begin(attempt);
  Resume(attempt, {Outcomes(kTaken, 10)});
  Settle(attempt, Outcome::kOk, 25);
  ASSERT_EQ(attempt.store_dues().size(), 1u);
  EXPECT_EQ(attempt.store_dues()[0].charge, 15);
}

TEST_F(RemoteTest, AWaitOfTheStoreReleasesConcurrencyUntilItIsOver) {
  Build({SharedRule("shared", 9, seconds(1)), ConcurrencyRule("slots", 1)});
  Attempt attempt;
  Begin(attempt);
  TakeOutcome outcome = Outcomes(kTaken);
  outcome.numbers.wait = seconds(2);

  Resume(attempt, {outcome});

  EXPECT_THAT(attempt.decision(), Waits(seconds(2)));
  EXPECT_EQ(CountersOf("slots").inflight, 0);
  Attempt holder;
  Begin(holder);
  Resume(holder, {Outcomes(kTaken)});
  engine_->Continue(attempt, now_ + seconds(2));
  EXPECT_THAT(attempt.decision(), IsRefusedBy("slots", Reason::kConcurrency));
  EXPECT_EQ(attempt.store_dues().size(), 1u) << "the remote take is given back";
  Settle(holder);
}

TEST_F(RemoteTest, CancelWhileAskedGivesLocalTakesBackAndLaterStepsDoNothing) {
  Build({SharedRule("shared", 9, seconds(1)), ConcurrencyRule("slots", 1)});
  Attempt attempt;
  Begin(attempt);

  engine_->Cancel(attempt, now_);
  Resume(attempt, {Outcomes(kTaken)});

  EXPECT_FALSE(attempt.entered());
  EXPECT_EQ(CountersOf("slots").inflight, 0);
  EXPECT_TRUE(attempt.store_dues().empty());
}

TEST_F(RemoteTest, KeysOfClientsStayDistinctHoweverLong) {
  Rule shared = SharedRule("shared", 9, seconds(1));
  shared.by = {"user", "tenant", "header:x-region"};
  Build({shared});
  const std::string longest(120, 'x');
  const auto key_of = [&](const std::string& region) {
    Attempt attempt;
    engine_->Begin(
        attempt,
        FakeRequest("r", {{"user", longest}, {"tenant", longest}, {"header:x-region", region}}),
        Mode::kCheck, now_);
    std::string key(attempt.remote_takes()[0].key);
    engine_->Cancel(attempt, now_);
    return key;
  };

  EXPECT_NE(key_of("north"), key_of("south"));
  EXPECT_EQ(key_of("north"), key_of("north"));
  EXPECT_LT(key_of("north").size(), 64u);
}

TEST_F(RemoteTest, MoreSharedRulesThanCanBeAskedCountAsNotAnswered) {
  std::vector<Rule> rules;
  for (int i = 0; i < 9; ++i) {
    rules.push_back(SharedRule("s" + std::to_string(i), 9, seconds(1), StoreFailurePolicy::kOpen));
  }
  Build(rules);
  Attempt attempt;
  EXPECT_EQ(Begin(attempt, Mode::kCheck), Step::kRemote);
  EXPECT_EQ(attempt.remote_takes().size(), 8u);
  engine_->Cancel(attempt, now_);

  rules[8].on_store_failure = StoreFailurePolicy::kClosed;
  Load(rules);
  EXPECT_EQ(Begin(attempt, Mode::kCheck), Step::kDone);
  EXPECT_THAT(attempt.decision(), IsRefusedBy("s8", Reason::kStoreFailure));
}

}  // namespace
}  // namespace flowguard::engine
