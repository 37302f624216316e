// SPDX-License-Identifier: Apache-2.0
//
// What lists of values are to the rules that count, mark, list or break: a request is one.
#include <gtest/gtest.h>

#include "engine/lists_fixture_test.h"
#include "testing/matchers.h"

namespace flowguard::engine {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::ErrorCountBreaker;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;
using testing::Waits;

using ListsRulesTest = ListsFixture;

// --- counters, shadow, degrade

TEST_F(ListsRulesTest, ARuleCountsARequestOnce) {
  Rule queue = BySku(LimitRule("a", 5, minutes(1)));
  Build({queue, BySku(ConcurrencyRule("slots", 5))});
  Attempt attempt;
  Enter(attempt, Of({"A", "B", "C"}));
  Settle(attempt, Outcome::kError);
  UseUp("A");
  const uint64_t refused = CountersOf("a").refused;
  EXPECT_FALSE(Check(Of({"A", "B", "C"})).allowed());

  EXPECT_EQ(CountersOf("a").passed, 1u + 4u);
  EXPECT_EQ(CountersOf("a").failed_after, 1u);
  EXPECT_EQ(CountersOf("slots").passed, 1u + 4u);
  EXPECT_EQ(CountersOf("slots").failed_after, 1u);
  EXPECT_EQ(CountersOf("a").refused, refused + 1);
}

TEST_F(ListsRulesTest, AShadowRuleTakesAsIfEnforced) {
  for (const bool shadow : {false, true}) {
    Rule rule = BySku(LimitRule("a", 2, minutes(1)));
    rule.shadow = shadow;
    Build({rule});
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(Check(Of({"E"})).allowed());

    EXPECT_EQ(Check(Of({"C", "E", "D", "E"})).allowed(), shadow);

    EXPECT_EQ(CountersOf("a").shadow_refused, shadow ? 1u : 0u);
    EXPECT_EQ(CountersOf("a").passed, 2u);
    rule.shadow = false;
    Load({rule});
    EXPECT_EQ(LeftOf("C"), 2);
    EXPECT_EQ(LeftOf("D"), 2);
  }
}

TEST_F(ListsRulesTest, AShadowRuleHasCallsInProgressAsIfEnforced) {
  for (const bool shadow : {false, true}) {
    Rule slots = BySku(ConcurrencyRule("slots", 1));
    slots.shadow = shadow;
    Build({slots});
    Attempt holder;
    Enter(holder, Of({"A", "B"}));

    Attempt over;
    Enter(over, Of({"C", "B", "A"}));

    EXPECT_EQ(over.entered(), shadow);
    EXPECT_EQ(CountersOf("slots").shadow_refused, shadow ? 1u : 0u);
    EXPECT_EQ(CountersOf("slots").inflight, 2);
    Settle(over);
    Settle(holder);
    EXPECT_EQ(CountersOf("slots").inflight, 0);
    EXPECT_EQ(CountersOf("slots").passed, 1u);
  }
}

TEST_F(ListsRulesTest, ADegradeRuleMarksOnceAndTakesNothing) {
  Rule rule = BySku(LimitRule("a", 1, minutes(1), Algorithm::kLeakyBucket));
  rule.wait = minutes(1);  // two go, the second after a minute
  rule.degrade.enabled = true;
  Build({rule});
  for (const char* sku : {"A", "B"})
    ASSERT_THAT(Check(Of({sku})), IsAllowed());
  ASSERT_THAT(Check(Of({"A"})), Waits(minutes(1)));

  Attempt attempt;
  Enter(attempt, Of({"B", "A", "C"}));

  EXPECT_TRUE(attempt.entered()) << "it does not wait for B";
  EXPECT_TRUE(attempt.decision().degraded);
  Settle(attempt);
  EXPECT_EQ(CountersOf("a").degraded, 1u);
  EXPECT_THAT(Check(Of({"B"})), Waits(minutes(1))) << "the place is free";
  EXPECT_THAT(Check(Of({"C"})), IsAllowed());
}

TEST_F(ListsRulesTest, CountRefusedUsesUpEachValue) {
  Rule rule = BySku(LimitRule("a", 3, minutes(1)));
  rule.count_refused = true;
  Build({rule});
  for (int i = 0; i < 3; ++i)
    static_cast<void>(Check(Of({"A"})));

  EXPECT_THAT(Check(Of({"B", "A", "C"})), IsRefusedBy("a", Reason::kLimit));

  EXPECT_EQ(LeftOf("B"), 2);
  EXPECT_EQ(LeftOf("C"), 2);
  EXPECT_EQ(Check(Of({"A"})).retry_after, seconds(20)) << "one unit, and no debt";
}

// --- access and conditions

TEST_F(ListsRulesTest, ADenyListRefusesAnyAndAnAllowListNeedsAll) {
  Rule deny;
  deny.name = "deny";
  deny.kind = RuleKind::kAccess;
  deny.deny = {{"param:sku", {"bad", "worse*"}}};
  Rule allow = deny;
  allow.name = "allow";
  allow.deny.clear();
  allow.allow = {{"param:sku", {"A", "B"}}};

  Build({deny});
  EXPECT_THAT(Check(Of({"A", "B", "C"})), IsAllowed());
  EXPECT_THAT(Check(Of({"A", "bad", "C"})), IsRefusedBy("deny", Reason::kAccess));
  EXPECT_THAT(Check(Of({"A", "B", "worse1"})), IsRefusedBy("deny", Reason::kAccess));
  Build({allow});
  EXPECT_THAT(Check(Of({"A", "B"})), IsAllowed());
  EXPECT_THAT(Check(Of({"A", "C"})), IsRefusedBy("allow", Reason::kAccess));
  EXPECT_THAT(Check(Of({"C", "A"})), IsRefusedBy("allow", Reason::kAccess));
  EXPECT_EQ(CountersOf("allow").passed, 1u);
}

TEST_F(ListsRulesTest, ConditionsLookAtTheFirst) {
  Rule rule = LimitRule("a", 0, minutes(1));
  rule.on.only = {{"param:sku", {"A"}}};
  Build({rule});

  EXPECT_FALSE(Check(Of({"A", "B"})).allowed());
  EXPECT_TRUE(Check(Of({"B", "A"})).allowed());
}

// --- breakers

TEST_F(ListsRulesTest, EachValuesBreakerHearsOfTheCallOnce) {
  Rule breaker = BySku(ErrorCountBreaker("b", 1));
  Build({breaker});
  const auto fail = [&](const FakeRequest& request) {
    Attempt attempt;
    Enter(attempt, request);
    Settle(attempt, Outcome::kError);
  };

  fail(Of({"A", "A", "B"}));
  EXPECT_EQ(CountersOf("b").breakers_open, 0u) << "one error of each";
  fail(Of({"A", "C"}));

  EXPECT_EQ(CountersOf("b").breakers_open, 1u);
  EXPECT_THAT(Check(Of({"D", "A"})), IsRefusedBy("b", Reason::kBreaker));
  EXPECT_THAT(Check(Of({"D", "B"})), IsAllowed());
  EXPECT_EQ(CountersOf("b").passed, 2u + 1u);
}

TEST_F(ListsRulesTest, AProbeThatAnotherValuesBreakerRefusesIsGivenBack) {
  Rule breaker = BySku(ErrorCountBreaker("b", 0));
  breaker.breaker.open_for = seconds(1);
  Build({breaker});
  Attempt both;
  Enter(both, Of({"A", "B"}));
  Settle(both, Outcome::kError);
  now_ += seconds(1);
  Attempt probe;
  Enter(probe, Of({"B"}));
  ASSERT_TRUE(probe.entered());

  Attempt refused;
  Enter(refused, Of({"A", "B"}));

  EXPECT_THAT(refused.decision(), IsRefusedBy("b", Reason::kBreaker));
  Attempt other;
  Enter(other, Of({"A"}));
  EXPECT_TRUE(other.entered()) << "A's probe is there";
  Settle(other);
  Settle(probe);
  EXPECT_THAT(Check(Of({"A", "B"})), IsAllowed());
}

TEST_F(ListsRulesTest, AShadowBreakerThatWouldRefuseOneHearsOfNone) {
  Rule breaker = BySku(ErrorCountBreaker("b", 0));
  breaker.breaker.open_for = seconds(1);
  breaker.shadow = true;
  Build({breaker});
  Attempt both;
  Enter(both, Of({"A", "B"}));
  Settle(both, Outcome::kError);
  now_ += seconds(1);
  Attempt probe;
  Enter(probe, Of({"B"}));

  Attempt other;
  Enter(other, Of({"A", "B"}));
  EXPECT_TRUE(other.entered());
  Settle(other);

  EXPECT_EQ(CountersOf("b").shadow_refused, 1u);
  EXPECT_EQ(CountersOf("b").passed, 2u);
  EXPECT_EQ(CountersOf("b").breakers_open + CountersOf("b").breakers_half_open, 2u)
      << "the call that it would have refused does not close A's";
  Settle(probe);
  Enter(other, Of({"A", "B"}));
  Settle(other);
  EXPECT_EQ(CountersOf("b").breakers_open + CountersOf("b").breakers_half_open, 0u);
}

}  // namespace
}  // namespace flowguard::engine
