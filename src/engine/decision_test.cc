// SPDX-License-Identifier: Apache-2.0
//
// What is answered when one or several rules meet a request.
#include <string>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;
using testing::Waits;

using DecisionTest = testing::EngineFixture;

TEST_F(DecisionTest, ARequestThatNoRuleMeetsPassesWithoutARule) {
  Rule rule = LimitRule("a", 1, seconds(1));
  rule.on.resource = "other";
  Build({rule});

  const Decision decision = Check();

  EXPECT_THAT(decision, IsAllowed());
  EXPECT_EQ(decision.rule, nullptr);
  EXPECT_EQ(engine_->Counters().unmatched, 1u);
}

TEST_F(DecisionTest, SaysTheFiveNumbers) {
  Build({LimitRule("a", 2, seconds(1))});

  const Decision first = Check();
  Spend();
  const Decision third = Check();

  EXPECT_THAT(first, IsAllowed());
  EXPECT_EQ(first.limit, 2);
  EXPECT_EQ(first.remaining, 1);
  EXPECT_EQ(first.reset_after, milliseconds(500));
  EXPECT_THAT(third, IsRefusedBy("a", Reason::kLimit));
  EXPECT_EQ(third.remaining, 0);
  EXPECT_EQ(third.retry_after, milliseconds(500));
}

// The window of a bucket is the time to fill it, of a key with an override its own.
TEST_F(DecisionTest, SaysInWhichTimeTheLimitComesBack) {
  Rule rule = LimitRule("a", 10, seconds(1));
  rule.burst = 50;
  rule.by = {"user"};
  rule.overrides = {{"vip", {600, minutes(1)}, std::nullopt}};
  Build({rule, ConcurrencyRule("c", 1'000)});

  EXPECT_EQ(Check(FakeRequest("r", {{"user", "ann"}})).window, seconds(5));
  EXPECT_EQ(Check(FakeRequest("r", {{"user", "vip"}})).window, minutes(1));
  Load({ConcurrencyRule("c", 1'000)});
  EXPECT_EQ(Check().window, Duration::zero());
}

TEST_F(DecisionTest, ConcurrencyIsNoMatterForACallerThatTellsNoEnd) {
  Build({ConcurrencyRule("full", 1), LimitRule("a", 5, minutes(1))});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));
  FakeRequest request("r");
  EXPECT_THAT(Check(request), IsRefusedBy("full", Reason::kConcurrency));

  request.skip_calls = true;

  EXPECT_THAT(Check(request), IsAllowed());
  EXPECT_EQ(CountersOf("full").passed, 1u);
  Settle(attempt);
}

TEST_F(DecisionTest, AllowedRequestsAreToldOfTheRuleWithLeastRemaining) {
  Build({LimitRule("wide", 100, seconds(1)), LimitRule("narrow", 5, seconds(1)),
         LimitRule("middle", 50, seconds(1))});

  const Decision decision = Check();

  EXPECT_EQ(decision.rule->name, "narrow");
  EXPECT_EQ(decision.remaining, 4);
}

TEST_F(DecisionTest, EveryRuleThatARequestMeetsIsHeldAgainstIt) {
  Rule per_user = LimitRule("per-user", 30, minutes(1));
  per_user.by = {"user"};
  for (const bool narrow_first : {true, false}) {
    const Rule all = LimitRule("all", 3, minutes(1));
    Build(narrow_first ? std::vector{all, per_user} : std::vector{per_user, all});
    for (const char* user : {"ann", "bob", "ann"})
      EXPECT_THAT(Check(FakeRequest("r", {{"user", user}})), IsAllowed());
    EXPECT_THAT(Check(FakeRequest("r", {{"user", "eve"}})), IsRefusedBy("all", Reason::kLimit));
  }
}

TEST_F(DecisionTest, RefusedRequestsAreToldOfTheLongestWait) {
  Build({LimitRule("second", 1, seconds(1)), LimitRule("minute", 1, minutes(1)),
         LimitRule("free", 9, seconds(1))});
  Spend();

  const Decision decision = Check();

  EXPECT_THAT(decision, IsRefusedBy("minute", Reason::kLimit));
  EXPECT_EQ(decision.retry_after, minutes(1));
}

TEST_F(DecisionTest, ALimitOfZeroRefusesAll) {
  Build({LimitRule("none", 0, seconds(1))});

  const Decision decision = Check();

  EXPECT_THAT(decision, IsRefusedBy("none", Reason::kLimit));
  EXPECT_EQ(decision.retry_after, kNever);
}

TEST_F(DecisionTest, CostsThatCanNeverBeHadAreInvalid) {
  Build({LimitRule("a", 5, seconds(1))});

  EXPECT_EQ(Check(FakeRequest("r", {}, -1)).reason, Reason::kInvalidCost);
  EXPECT_THAT(Check(FakeRequest("r", {}, 6)), IsRefusedBy("a", Reason::kInvalidCost));
  EXPECT_EQ(Check(FakeRequest("r", {}, 6)).retry_after, kNever);
  EXPECT_EQ(Peek().remaining, 5) << "and take nothing";
}

TEST_F(DecisionTest, APeekTakesAndCountsNothing) {
  Build({LimitRule("a", 3, seconds(1))});

  EXPECT_EQ(Peek().remaining, 3);
  EXPECT_EQ(Peek(FakeRequest("r", {}, 2)).remaining, 1);
  EXPECT_THAT(Peek(FakeRequest("r", {}, 3)), IsAllowed());
  EXPECT_EQ(Peek().remaining, 3);
  EXPECT_EQ(engine_->Counters().decisions, 0u);
  EXPECT_EQ(CountersOf("a").passed, 0u);
}

TEST_F(DecisionTest, KeysHaveCellsOfTheirOwn) {
  Rule rule = LimitRule("a", 1, seconds(1));
  rule.by = {"user"};
  Build({rule});

  EXPECT_THAT(Check(FakeRequest("r", {{"user", "ann"}})), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("r", {{"user", "ann"}})), IsRefusedBy("a", Reason::kLimit));
  EXPECT_THAT(Check(FakeRequest("r", {{"user", "bob"}})), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("r", {})), IsAllowed()) << "those without one share a cell";
  EXPECT_THAT(Check(FakeRequest("r", {})), IsRefusedBy("a", Reason::kLimit));
}

TEST_F(DecisionTest, AnOverrideHoldsForItsValueAlone) {
  Rule rule = LimitRule("a", 1, seconds(1));
  rule.by = {"user"};
  rule.overrides = {{"big", {3, seconds(1)}, std::nullopt}};
  Build({rule});

  EXPECT_EQ(Check(FakeRequest("r", {{"user", "big"}})).remaining, 2);
  EXPECT_EQ(Check(FakeRequest("r", {{"user", "small"}})).remaining, 0);
}

TEST_F(DecisionTest, MissingDimensionsFollowTheirPolicy) {
  Rule rule = LimitRule("a", 1, seconds(1));
  rule.by = {"tenant"};
  for (const MissingPolicy policy : {MissingPolicy::kSkip, MissingPolicy::kRefuse}) {
    Build({});
    RuleSet set;
    set.rules = {rule};
    DimensionSpec tenant;
    tenant.name = "tenant";
    tenant.source = "header:x-tenant";
    tenant.missing = policy;
    set.dimensions = {tenant};
    ASSERT_TRUE(engine_->Load(set).ok());

    Spend();
    const Decision second = Check();

    if (policy == MissingPolicy::kSkip) {
      EXPECT_THAT(second, IsAllowed());
      EXPECT_EQ(second.rule, nullptr);
    } else {
      EXPECT_THAT(second, IsRefusedBy("a", Reason::kMissingDimension));
    }
  }
}

// A shadow rule that is exhausted must not end the evaluation.
TEST_F(DecisionTest, AnExhaustedShadowRuleNeitherRefusesNorHidesTheEnforcedOne) {
  for (const bool shadow_first : {true, false}) {
    Rule shadow = LimitRule("s", 1, minutes(1));
    shadow.shadow = true;
    const Rule enforced = LimitRule("e", 3, minutes(1));
    Build(shadow_first ? std::vector{shadow, enforced} : std::vector{enforced, shadow});

    int allowed = 0;
    for (int i = 0; i < 10; ++i)
      allowed += Check().allowed() ? 1 : 0;

    EXPECT_EQ(allowed, 3);
    EXPECT_EQ(CountersOf("s").shadow_refused, 9u) << "shadow first: " << shadow_first;
    EXPECT_EQ(CountersOf("e").refused, 7u);
    EXPECT_EQ(CountersOf("e").passed, 3u);
  }
}

TEST_F(DecisionTest, ADegradeRuleLetsGoMarked) {
  Rule rule = LimitRule("a", 1, seconds(1));
  rule.degrade.enabled = true;
  Build({rule, LimitRule("hard", 2, seconds(1))});
  EXPECT_FALSE(Check().degraded);

  const Decision second = Check();
  const Decision third = Check();

  EXPECT_THAT(second, IsAllowed());
  EXPECT_TRUE(second.degraded);
  EXPECT_EQ(second.rule->name, "a");
  EXPECT_THAT(third, IsRefusedBy("hard", Reason::kLimit));
  EXPECT_FALSE(third.degraded);
  EXPECT_EQ(CountersOf("a").degraded, 1u);
}

TEST_F(DecisionTest, OfSeveralWaitsTheLongestCounts) {
  Rule slow = LimitRule("slow", 1, seconds(1));
  Rule slower = LimitRule("slower", 1, seconds(2));
  slow.wait = slower.wait = seconds(5);
  Build({slow, slower});
  EXPECT_THAT(Check(), IsAllowed());

  EXPECT_THAT(Check(), Waits(seconds(2)));

  EXPECT_EQ(CountersOf("slower").waited, 1u);
  EXPECT_EQ(CountersOf("slower").wait_ns, 2'000'000'000u);
  EXPECT_EQ(CountersOf("slow").waited, 0u);
}

TEST_F(DecisionTest, AWaitLongerThanTheCallersIsARefusalThatTakesNothing) {
  Rule rule = LimitRule("a", 1, seconds(1));
  rule.wait = seconds(10);
  Build({rule});
  Spend();
  FakeRequest request("r");
  request.wait_max = milliseconds(300);

  const Decision decision = Check(request);

  EXPECT_THAT(decision, IsRefusedBy("a", Reason::kLimit));
  EXPECT_EQ(decision.retry_after, milliseconds(700));
  now_ += milliseconds(700);
  EXPECT_THAT(Check(request), Waits(milliseconds(300)));
}

TEST_F(DecisionTest, AccessComesFirstAndTakesNothing) {
  Rule access;
  access.name = "partners";
  access.kind = RuleKind::kAccess;
  access.allow = {{"tenant", {"acme"}}};
  Build({LimitRule("a", 5, seconds(1)), access});

  const Decision stranger = Check(FakeRequest("r", {{"tenant", "other"}}));

  EXPECT_THAT(stranger, IsRefusedBy("partners", Reason::kAccess));
  EXPECT_EQ(stranger.rule->refuse.status, 403);
  EXPECT_THAT(Check(), IsRefusedBy("partners", Reason::kAccess)) << "no tenant is on no list";
  EXPECT_EQ(Peek(FakeRequest("r", {{"tenant", "acme"}})).remaining, 5);
}

TEST_F(DecisionTest, DenyBeatsAllow) {
  Rule access;
  access.name = "lists";
  access.kind = RuleKind::kAccess;
  access.allow = {{"tenant", {"a*"}}};
  access.deny = {{"tenant", {"acme"}}};
  Build({access});

  EXPECT_THAT(Check(FakeRequest("r", {{"tenant", "apex"}})), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("r", {{"tenant", "acme"}})), IsRefusedBy("lists", Reason::kAccess));
}

// Rules out both: that `missing: skip` refuses, and that a client who leaves a value out
// escapes the other lists of the rule.
TEST_F(DecisionTest, AListOfADimensionThatSkipsDoesNotApplyWithoutAValue) {
  RuleSet set;
  Rule& access = set.rules.emplace_back();
  access.name = "lists";
  access.kind = RuleKind::kAccess;
  access.allow = {{"tenant", {"acme"}}};
  access.deny = {{"tenant", {"evil"}}, {"user", {"mallory"}}};
  set.dimensions = {{.name = "tenant",
                     .source = "",
                     .missing = MissingPolicy::kSkip,
                     .missing_value = "",
                     .trim = false,
                     .lower = false}};
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());

  EXPECT_THAT(Check(), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("r", {{"tenant", "acme"}})), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("r", {{"tenant", "x"}})), IsRefusedBy("lists", Reason::kAccess));
  EXPECT_THAT(Check(FakeRequest("r", {{"user", "mallory"}})),
              IsRefusedBy("lists", Reason::kAccess));
}

TEST_F(DecisionTest, ExplainNamesEveryRuleWithKeyAndNumbersAndTakesNothing) {
  Rule keyed = LimitRule("keyed", 3, seconds(1));
  keyed.by = {"user"};
  keyed.shadow = true;
  Build({keyed, ConcurrencyRule("slots", 4)});

  const auto explained = engine_->Explain(FakeRequest("r", {{"user", "ann"}}), now_);

  ASSERT_EQ(explained.size(), 2u);
  EXPECT_EQ(explained[0].rule, "keyed");
  EXPECT_EQ(explained[0].key, "user=ann");
  EXPECT_EQ(explained[0].decision.remaining, 3);
  EXPECT_EQ(explained[1].decision.limit, 4);
}

TEST_F(DecisionTest, AClockThatStepsBackIsCountedAndGivesNothingAway) {
  Build({LimitRule("a", 2, seconds(1))});
  Spend();
  Spend();

  now_ -= std::chrono::hours(1);

  EXPECT_FALSE(Check().allowed());
  EXPECT_EQ(engine_->Counters().clock_backward, 1u);
}

}  // namespace
}  // namespace flowguard::engine
