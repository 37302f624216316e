// SPDX-License-Identifier: Apache-2.0
//
// Rules that a token server is given, and given anew.
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/token_service_fixture_test.h"

namespace flowguard::serve {
namespace {

using ::testing::HasSubstr;

using TokenServiceLoadTest = TokenServiceFixture;

Rule At(std::string origin, Rule rule) {
  rule.origin = std::move(origin);
  return rule;
}

TEST_F(TokenServiceLoadTest, CountsOfRulesThatStayGoOn) {
  Load({ClusterRule("orders", 1, 3), ClusterRule("gone", 2, 3)});
  EXPECT_EQ(Flow(1, 2), "OK 1");
  EXPECT_EQ(Flow(2, 2), "OK 1");
  Load({ClusterRule("orders", 1, 4)});
  EXPECT_EQ(Flows(3, 1), "OK 1, OK 0, BLOCKED");
  EXPECT_EQ(Flow(2), "NO_RULE_EXISTS");
}

TEST_F(TokenServiceLoadTest, AWindowThatChangesCountsAnew) {
  Load({ClusterRule("orders", 1, 2)});
  EXPECT_EQ(Flow(1, 2), "OK 0");
  Rule rule = ClusterRule("orders", 1, 2);
  rule.rate.window = seconds(3);
  Load({rule});
  EXPECT_EQ(Flow(1, 2), "OK 0");
  now_ += seconds(2);
  EXPECT_EQ(Flow(1), "BLOCKED");
  now_ += seconds(1);
  EXPECT_EQ(Flow(1), "OK 1");
}

// Between the two steps of a load the table may still name what the engine has no more.
TEST_F(TokenServiceLoadTest, WhatTheEngineHasNoMoreIsGone) {
  Rule keyed = ClusterRule("keyed", 2, 3);
  keyed.by = {"user"};
  Rule shadow = ClusterRule("shadow", 4, 3);
  shadow.shadow = true;
  Load({ClusterRule("orders", 1, 3), keyed, ClusterSlots("slots", 3, 3), shadow});
  ASSERT_TRUE(service_->engine().Load(RuleSet{}).ok());
  EXPECT_EQ(Flow(1), "NO_RULE_EXISTS");
  EXPECT_EQ(Param(2, {Text("ann")}), "NO_RULE_EXISTS");
  EXPECT_EQ(Told(Ask(AcquireQuestion(3))), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(4), "OK 0");
  EXPECT_EQ(service_->Tokens().open, 0u);
}

// The id names the count to those who ask; the name, to those who keep it.
TEST_F(TokenServiceLoadTest, AnIdIsMadeOfTheNameWhereNoneIsWritten) {
  Rule rule = ClusterRule("orders", 0, 3);
  Load({rule});
  const int64_t flow_id = rules::FlowIdOf(rule);
  EXPECT_EQ(Flow(flow_id), "OK 2");
  Load({ClusterRule("orders", 5, 3)});
  EXPECT_EQ(Flow(flow_id), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(5), "OK 1");
}

TEST_F(TokenServiceLoadTest, RulesOfOneNameInTwoNamespacesCountApart) {
  Load({Space("a", {ClusterRule("orders", 1, 1)}), Space("b", {ClusterRule("orders", 2, 1)}),
        Space("default", {ClusterRule("orders", 3, 1)})});
  EXPECT_EQ(Flows(2, 1), "OK 0, BLOCKED");
  EXPECT_EQ(Flows(2, 2), "OK 0, BLOCKED");
  EXPECT_EQ(Flows(2, 3), "OK 0, BLOCKED");
  const engine::EngineCounters counters = service_->engine().Counters();
  EXPECT_EQ(counters.rules.at(0).rule, "orders@a");
  EXPECT_EQ(counters.rules.at(2).rule, "orders");
}

TEST_F(TokenServiceLoadTest, RulesOfOtherScopesArePassedOver) {
  Rule local = ClusterRule("local", 1, 1);
  local.scope = Scope::kLocal;
  Rule shared = ClusterRule("shared", 2, 1);
  shared.scope = Scope::kShared;
  Load({local, shared, ClusterRule("orders", 3, 1)});
  EXPECT_EQ(Flow(1), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(2), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(3), "OK 0");
}

TEST_F(TokenServiceLoadTest, AnErrorInOneNamespaceChangesNothingOfAny) {
  Load({ClusterRule("orders", 1, 1)});
  TokenNamespace bad = Space("app", {ClusterRule("much", 2, -1)});
  TokenNamespace good = Space("default", {ClusterRule("new", 3, 1), ClusterRule("orders", 1, 9)});
  good.questions_per_second = 1;
  EXPECT_THAT(TryLoad({good, bad}), HasSubstr("much"));
  EXPECT_EQ(Flows(2, 1), "OK 0, BLOCKED");
  EXPECT_EQ(Flow(2), "NO_RULE_EXISTS");
  EXPECT_EQ(Flow(3), "NO_RULE_EXISTS");
  EXPECT_EQ(service_->Counted().size(), 2u);
}

TEST_F(TokenServiceLoadTest, OneNumberForTwoRulesIsAnErrorInAnyNamespaces) {
  Load({ClusterRule("orders", 1, 1)});
  const std::string told = TryLoad({Space("a", {At("a.yaml:3:5", ClusterRule("one", 7, 1))}),
                                    Space("b", {At("b.yaml:8:5", ClusterRule("two", 7, 1))})});
  EXPECT_EQ(told,
            "b.yaml:8:5: rule \"two\": flow_id: found 7 twice for a limit without by; the other "
            "is a.yaml:3:5: rule \"one\" of namespace \"a\". Give one of them another");
  EXPECT_EQ(Flow(1), "OK 0");
  EXPECT_EQ(Flow(7), "NO_RULE_EXISTS");
}

TEST_F(TokenServiceLoadTest, FaultsNameTheirPlace) {
  Rule breaker = At("r.yaml:1:1", ClusterRule("breaker", 1, 1));
  breaker.kind = RuleKind::kBreaker;
  Rule negative = At("r.yaml:2:1", ClusterRule("negative", -1, 1));
  Rule typed = At("r.yaml:3:1", ClusterRule("typed", 3, 1));
  typed.by = {"user"};
  typed.overrides = {For(ValueType::kInt, "x", 1), For(ValueType::kAny, std::string(124, 'x'), 1)};
  Rule two = At("r.yaml:4:1", ClusterRule("two", 4, 1));
  two.by = {"user", "tenant"};
  two.overrides = {For(ValueType::kAny, "x", 1)};
  const std::string told = TryLoad({Space("default", {breaker, negative, typed, two})});
  EXPECT_THAT(told, HasSubstr("r.yaml:1:1: rule \"breaker\": scope: cluster: found here"));
  EXPECT_THAT(told, HasSubstr("r.yaml:2:1: rule \"negative\": flow_id: found -1; above 0"));
  EXPECT_THAT(told, HasSubstr("r.yaml:3:1: rule \"typed\": overrides.\"x\": no value of type int"));
  EXPECT_THAT(told, HasSubstr("found 124 bytes; with scope cluster a value has at most 123"));
  EXPECT_THAT(told, HasSubstr("r.yaml:4:1: rule \"two\": overrides: found beside several"));
}

// A request meets 32 rules at most, but no request comes here.
TEST_F(TokenServiceLoadTest, AnyNumberOfRulesMayHaveOneTarget) {
  std::vector<Rule> rules;
  for (int i = 1; i <= 1'000; ++i) {
    rules.push_back(ClusterRule("orders-" + std::to_string(i), i, i));
    if (i % 2 == 0) rules.back().on.resource = "orders";
  }
  Load(rules);
  EXPECT_EQ(Flow(1), "OK 0");
  EXPECT_EQ(Flow(1'000), "OK 999");
}

TEST_F(TokenServiceLoadTest, DimensionsThatAreWrongAreToldOnce) {
  TokenNamespace space = Space("default", {ClusterRule("one", 1, 1), ClusterRule("two", 2, 1)});
  space.rules.dimensions.resize(1);
  space.rules.dimensions[0].name = "no name";
  const std::string told = TryLoad({space});
  EXPECT_THAT(told, HasSubstr("dimension \"no name\": name: found"));
  EXPECT_EQ(told.find('\n'), std::string::npos);
}

TEST_F(TokenServiceLoadTest, OneNameForTwoRulesIsAnError) {
  EXPECT_THAT(
      TryLoad({Space("default", {At("r.yaml:1:1", ClusterRule("orders", 1, 1)),
                                 At("r.yaml:2:1", ClusterRule("orders", 2, 1))})}),
      HasSubstr("r.yaml:2:1: rule \"orders\": name: found twice; the other is at r.yaml:1:1"));
}

// The counts of a leap array are in this process.
TEST_F(TokenServiceLoadTest, AStoreCountsWhatItCan) {
  TokenServiceOptions options;
  options.shared = true;
  Make(options);
  EXPECT_THAT(TryLoad({Space("default", {ClusterRule("orders", 1, 1, Algorithm::kLeapArray)})}),
              HasSubstr("rule \"orders\": scope: found shared with algorithm leap_array"));
}

TEST_F(TokenServiceLoadTest, NamespacesHaveANameOfTheirOwnAndABound) {
  EXPECT_THAT(TryLoad({Space("", {})}), HasSubstr("namespace \"\": a name has 1 to 128"));
  EXPECT_THAT(TryLoad({Space("a b", {})}), HasSubstr("namespace \"a b\": a name has"));
  EXPECT_THAT(TryLoad({Space("a", {}), Space("a", {})}), HasSubstr("found twice"));
  for (const int64_t wrong : {int64_t{0}, int64_t{1'000'000'001}}) {
    TokenNamespace space = Space("a", {});
    space.questions_per_second = wrong;
    EXPECT_THAT(TryLoad({space}), HasSubstr("questions_per_second: found " + std::to_string(wrong) +
                                            "; allowed 1 to 1000000000"));
  }
}

TEST_F(TokenServiceLoadTest, NamespacesSinceTheStartAreBounded) {
  std::vector<TokenNamespace> spaces;
  for (size_t i = 0; i < base::kTokenNamespacesMax; ++i)
    spaces.push_back(Space("n" + std::to_string(i), {}));
  Load(spaces);
  EXPECT_THAT(TryLoad({Space("default", {ClusterRule("orders", 1, 1)})}),
              HasSubstr("found 1001 since the start; at most 1000"));
  EXPECT_EQ(Flow(1), "NO_RULE_EXISTS");
  spaces.front().rules.rules = {ClusterRule("orders", 1, 1)};
  Load(spaces);
  EXPECT_EQ(Flow(1), "OK 0");
}

TEST_F(TokenServiceLoadTest, AnotherBoundOfANamespaceRefillsNothing) {
  TokenNamespace space = Space("default", {ClusterRule("orders", 1, 100)});
  space.questions_per_second = 2;
  Load({space});
  EXPECT_EQ(Flows(3, 1), "OK 99, OK 98, TOO_MANY_REQUEST");
  space.questions_per_second = 10;
  Load({space});
  EXPECT_EQ(Flow(1), "TOO_MANY_REQUEST");
  now_ += milliseconds(100);
  EXPECT_EQ(Flows(2, 1), "OK 97, TOO_MANY_REQUEST");
}

// A product that is too large is the largest limit that there is.
TEST_F(TokenServiceLoadTest, LimitsPerClientAreBoundedAsOthersAre) {
  Rule log = ClusterRule("log", 1, 60'000);
  log.cluster.per_client = true;
  Rule buckets = ClusterRule("buckets", 2, 1'000'000'000, Algorithm::kSlidingBuckets);
  buckets.cluster.per_client = true;
  Rule bucket = ClusterRule("bucket", 3, 1'000'000'000, Algorithm::kTokenBucket);
  bucket.burst = 900'000'000'000;
  bucket.cluster.per_client = true;
  for (int i = 0; i < 5; ++i)
    static_cast<void>(service_->Join("app"));
  Load({log, buckets, bucket});
  EXPECT_EQ(Flow(1), "OK 99999");
  EXPECT_EQ(Flow(2), "OK 999999999");
  EXPECT_EQ(Flow(3), "OK 2147483647");
}

TEST_F(TokenServiceLoadTest, AServiceNeedsRoomForItsCells) {
  TokenServiceOptions options;
  options.cells = 1;
  EXPECT_FALSE(TokenService::Create(options).ok());
}

}  // namespace
}  // namespace flowguard::serve
