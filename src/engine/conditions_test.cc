// SPDX-License-Identifier: Apache-2.0
//
// Rules whose targets have conditions: a request that they do not hold for is as one that
// the rule does not match.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/matchers.h"
#include "testing/rules.h"
#include "testing/std_regex.h"

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

Rule OnlyTenant(Rule rule, std::vector<std::string> tenants) {
  rule.on.only = {{"tenant", std::move(tenants)}};
  return rule;
}

FakeRequest Of(std::string tenant) {
  return FakeRequest("r", {{"tenant", std::move(tenant)}});
}

using ConditionsTest = testing::EngineFixture;

TEST_F(ConditionsTest, OnlyTheListedMeetTheRule) {
  Build({OnlyTenant(LimitRule("a", 1, minutes(1)), {"acme", "globex-*"})});

  EXPECT_THAT(Check(Of("acme")), IsAllowed());
  EXPECT_THAT(Check(Of("globex-eu")), IsRefusedBy("a", Reason::kLimit)) << "one cell for all";
  const Decision other = Check(Of("other"));
  EXPECT_THAT(other, IsAllowed());
  EXPECT_EQ(other.rule, nullptr);
  EXPECT_THAT(Check(), IsAllowed()) << "without a tenant it is on no list";
  EXPECT_EQ(engine_->Counters().unmatched, 2u);
  EXPECT_EQ(CountersOf("a").passed, 1u);
}

TEST_F(ConditionsTest, ARequestOnTheExceptListDoesNotMeetTheRule) {
  Rule rule = LimitRule("a", 1, minutes(1));
  rule.on.except = {{"ip", {"10.0.0.0/8", "2001:db8::/32"}}, {"tenant", {"acme"}}};
  Build({rule});

  EXPECT_THAT(Check(FakeRequest("r", {{"ip", "10.1.2.3"}})), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("r", {{"ip", "2001:db8::1"}})), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("r", {{"ip", "192.0.2.1"}, {"tenant", "acme"}})), IsAllowed());
  EXPECT_EQ(engine_->Counters().unmatched, 3u);
  EXPECT_THAT(Check(FakeRequest("r", {{"ip", "192.0.2.1"}})), IsAllowed());
  EXPECT_THAT(Check(), IsRefusedBy("a", Reason::kLimit)) << "without either it is on no list";
}

TEST_F(ConditionsTest, PartsOfThePathAreValuesToo) {
  Rule one = LimitRule("one", 0, minutes(1));
  one.on.route = "/orders/{id}";
  one.on.only = {{"path:id", {"7"}}};
  Rule rest = LimitRule("rest", 0, minutes(1));
  rest.on.route = "/users/{id}";
  rest.on.except = {{"path:id", {"7"}}};
  Build({one, rest});
  const auto at = [this](std::string_view path) {
    FakeRequest request("");
    request.method = "GET";
    request.path = path;
    return Check(request);
  };

  EXPECT_THAT(at("/orders/7"), IsRefusedBy("one", Reason::kLimit));
  EXPECT_THAT(at("/orders/8"), IsAllowed());
  EXPECT_THAT(at("/users/7"), IsAllowed());
  EXPECT_THAT(at("/users/8"), IsRefusedBy("rest", Reason::kLimit));
}

TEST_F(ConditionsTest, AllListsHaveToHold) {
  Rule rule = LimitRule("a", 0, minutes(1));
  rule.on.only = {{"tenant", {"acme"}}, {"user", {"ann", "bob"}}};
  rule.on.except = {{"user", {"bob"}}};
  Build({rule});
  const auto check = [&](std::string tenant, std::string user) {
    return Check(FakeRequest("r", {{"tenant", std::move(tenant)}, {"user", std::move(user)}}));
  };

  EXPECT_FALSE(check("acme", "ann").allowed());
  EXPECT_TRUE(check("acme", "bob").allowed());
  EXPECT_TRUE(check("acme", "eve").allowed());
  EXPECT_TRUE(check("globex", "ann").allowed());
}

TEST_F(ConditionsTest, ASharedValueOfThoseWithoutOneIsLookedUp) {
  RuleSet set;
  set.rules = {OnlyTenant(LimitRule("a", 0, minutes(1)), {"anonymous"})};
  set.dimensions = {{"tenant", "header:x-tenant", MissingPolicy::kShare, "anonymous", false, true}};
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());

  EXPECT_FALSE(Check().allowed());
  EXPECT_FALSE(Check(Of("Anonymous")).allowed()) << "as the dimension has it, in small letters";
  EXPECT_TRUE(Check(Of("acme")).allowed());
  set.dimensions[0].missing = MissingPolicy::kRefuse;
  set.dimensions[0].missing_value.clear();
  ASSERT_TRUE(engine_->Load(set).ok());
  EXPECT_TRUE(Check().allowed()) << "a condition is no key: what is missing refuses nothing";
}

TEST_F(ConditionsTest, HoldForEveryKind) {
  Rule access;
  access.name = "access";
  access.kind = RuleKind::kAccess;
  access.deny = {{"user", {"*"}}};
  Rule shared = testing::SharedRule("shared", 1, minutes(1));
  std::vector<Rule> rules = {access, ErrorCountBreaker("breaker", 0), ConcurrencyRule("slots", 1),
                             LimitRule("limit", 1, minutes(1)), shared};
  for (Rule& rule : rules)
    rule = OnlyTenant(rule, {"acme"});
  Build(rules);

  for (int i = 0; i < 3; ++i) {
    Attempt attempt;
    const FakeRequest request("r", {{"tenant", "other"}, {"user", "ann"}});
    ASSERT_EQ(engine_->Begin(attempt, request, Mode::kEnter, now_), Step::kDone)
        << "no store is asked";
    EXPECT_THAT(attempt.decision(), IsAllowed());
    Settle(attempt, Outcome::kError);
  }

  for (const Rule& rule : rules) {
    EXPECT_EQ(CountersOf(rule.name).passed, 0u) << rule.name;
    EXPECT_EQ(CountersOf(rule.name).failed_after, 0u) << rule.name;
    EXPECT_EQ(CountersOf(rule.name).breakers_open, 0u) << rule.name;
  }
  Attempt attempt;
  EXPECT_EQ(engine_->Begin(attempt, Of("acme"), Mode::kEnter, now_), Step::kRemote);
  engine_->Cancel(attempt, now_);
}

TEST_F(ConditionsTest, TheMostSpecificRuleOfThoseThatAreMetApplies) {
  RuleSet set;
  set.match = MatchMode::kMostSpecific;
  Rule special = OnlyTenant(LimitRule("special", 100, minutes(1)), {"acme"});
  special.on.resource = "r";
  set.rules = {LimitRule("default", 0, minutes(1)), special};
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());

  EXPECT_THAT(Check(Of("acme")), IsAllowed());
  EXPECT_THAT(Check(Of("other")), IsRefusedBy("default", Reason::kLimit));
}

TEST_F(ConditionsTest, AReloadKeepsWhatIsTaken) {
  Rule rule = OnlyTenant(LimitRule("a", 2, minutes(1)), {"acme"});
  Build({rule});
  EXPECT_THAT(Check(Of("acme")), IsAllowed());

  rule.on.only[0].values = {"globex"};
  Load({rule});

  EXPECT_EQ(Check(Of("acme")).rule, nullptr);
  EXPECT_EQ(Check(Of("globex")).remaining, 0) << "one of two was taken before";
}

TEST_F(ConditionsTest, ResourcesMayBeLeftOut) {
  Rule breaker = ErrorCountBreaker("default", 0);
  breaker.by = {"resource"};
  breaker.on.except = {{"resource", {"health", "internal:*"}}};
  Build({breaker});
  const auto fail = [&](const char* resource) {
    Attempt attempt;
    Enter(attempt, FakeRequest(resource));
    Settle(attempt, Outcome::kError);
  };
  for (const char* resource : {"health", "internal:gc", "order:create"})
    fail(resource);

  EXPECT_THAT(Check(FakeRequest("health")), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("internal:gc")), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("order:create")), IsRefusedBy("default", Reason::kBreaker));
  EXPECT_THAT(Check(FakeRequest("order:pay")), IsAllowed()) << "each has a breaker of its own";
}

TEST_F(ConditionsTest, ResourcesAreMetByRegularExpression) {
  const testing::StdRegexEngine regex;
  RuleSet set;
  set.regex = &regex;
  Rule rule = LimitRule("a", 0, minutes(1));
  rule.on.resource_regex = "order:(create|pay)";
  rule.on.except = {{"tenant", {"acme"}}};
  set.rules = {rule};
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());

  EXPECT_THAT(Check(FakeRequest("order:pay")), IsRefusedBy("a", Reason::kLimit));
  EXPECT_THAT(Check(FakeRequest("order:pay", {{"tenant", "acme"}})), IsAllowed());
  EXPECT_THAT(Check(FakeRequest("order:payment")), IsAllowed());
}

TEST_F(ConditionsTest, ExplainSaysWhyARuleIsNotMet) {
  Rule except = LimitRule("except", 5, minutes(1));
  except.on.except = {{"ip", {"10.0.0.0/8"}}};
  Build({OnlyTenant(LimitRule("only", 5, minutes(1)), {"acme"}), except,
         LimitRule("met", 5, minutes(1))});
  const FakeRequest request("r", {{"tenant", "other"}, {"ip", "10.1.2.3"}});

  const std::vector<Explanation> told = engine_->Explain(request, now_);

  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].rule, "met");
  EXPECT_EQ(told[0].not_met, "");
  EXPECT_EQ(told[1].rule, "only");
  EXPECT_EQ(told[1].matched_by, "every request; only tenant");
  EXPECT_EQ(told[1].not_met, "only: tenant=other is not listed");
  EXPECT_EQ(told[2].rule, "except");
  EXPECT_EQ(told[2].not_met, "except: ip=10.1.2.3 is listed");
  EXPECT_EQ(engine_->Explain(FakeRequest("r"), now_).back().not_met,
            "only: tenant missing is not listed");
}

}  // namespace
}  // namespace flowguard::engine
