// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/value_maker.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dialects/sentinel/converting_test.h"

namespace flowguard::dialects::sentinel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Rule ParamOf(std::string_view members) {
  return OnlyRule(Convert(Kind::kParamFlow, OnR(members)));
}
Rule GatewayOf(std::string_view members) {
  return OnlyRule(Convert(Kind::kGatewayFlow, OnR(members)));
}

// --- hot parameters

TEST(ValueRulesTest, ParamFlow) {
  const ToRulesResult made =
      Convert(Kind::kParamFlow,
              OnR(R"("paramIdx":1,"count":5,"durationInSec":60,"burstCount":3,"paramFlowItemList":[
          {"object":"vip","count":50,"classType":"java.lang.String"},
          {"object":"7","count":0,"classType":"int"},
          {"object":"7","count":9,"classType":"long"},
          {"object":"1.1","count":2,"classType":"float"}])"));
  const Rule rule = OnlyRule(made);
  EXPECT_EQ(rule.name, "param/r/arg1");
  EXPECT_EQ(rule.by, Names{"arg1"});
  EXPECT_EQ(rule.algorithm, Algorithm::kTokenBucket);
  EXPECT_EQ(rule.rate, (Rate{5, seconds(60)}));
  EXPECT_EQ(rule.burst, 8);
  EXPECT_EQ(rule.overrides, (std::vector<Override>{{"vip", {50, seconds(60)}, 53},
                                                   {"7", {0, seconds(60)}, {}},
                                                   {"1.1", {2, seconds(60)}, 5}}));
  EXPECT_EQ(DimensionOf(made.rules, "arg1").missing, MissingPolicy::kSkip);
  EXPECT_EQ(
      Told(made.differences, "paramFlowItemList[2].object"),
      "has another item for \"7\" of another class; compares texts, and takes the first item");
}

TEST(ValueRulesTest, ParamFlowQueueRefusesAWaitOfTheMaximum) {
  const Rule rule =
      ParamOf(R"("paramIdx":0,"count":5,"controlBehavior":2,"maxQueueingTimeMs":500)");
  EXPECT_EQ(rule.algorithm, Algorithm::kLeakyBucket);
  EXPECT_EQ(rule.wait, milliseconds(499));
  EXPECT_EQ(ParamOf(R"("paramIdx":0,"count":5,"controlBehavior":2)").wait, Duration{});
}

TEST(ValueRulesTest, ParamFlowConcurrency) {
  const Rule rule = ParamOf(R"("paramIdx":0,"grade":0,"count":5,
      "paramFlowItemList":[{"object":"vip","count":50,"classType":""}])");
  EXPECT_EQ(rule.kind, RuleKind::kConcurrency);
  EXPECT_EQ(rule.concurrency, 5);
  EXPECT_EQ(rule.overrides, (std::vector<Override>{{"vip", {50, {}}, {}}}));
}

TEST(ValueRulesTest, ParamFlowConcurrencyOfNoneForSomeValues) {
  const ToRulesResult made = Convert(Kind::kParamFlow, OnR(R"("paramIdx":0,"grade":0,"count":5,
      "paramFlowItemList":[{"object":"bot","count":0,"classType":""},
                           {"object":"vip","count":9,"classType":""}])"));
  ASSERT_EQ(made.rules.rules.size(), 2u);
  EXPECT_EQ(made.rules.rules[0].rate.limit, 0);
  EXPECT_EQ(made.rules.rules[0].on.only, (std::vector<ValuesOf>{{"arg0", {"bot"}}}));
  EXPECT_EQ(made.rules.rules[1].concurrency, 5);
  EXPECT_EQ(made.rules.rules[1].overrides, (std::vector<Override>{{"vip", {9, {}}, {}}}));
}

TEST(ValueRulesTest, ParamFlowConcurrencyOfSomeValuesOnly) {
  const ToRulesResult made = Convert(Kind::kParamFlow, OnR(R"("paramIdx":0,"grade":0,"count":0,
      "paramFlowItemList":[{"object":"vip","count":50,"classType":""}])"));
  ASSERT_EQ(made.rules.rules.size(), 2u);
  const Rule& none = made.rules.rules[0];
  EXPECT_EQ(none.rate.limit, 0);
  EXPECT_EQ(none.on.only, (std::vector<ValuesOf>{{"arg0", {"*"}}}));
  EXPECT_EQ(none.on.except, (std::vector<ValuesOf>{{"arg0", {"vip"}}}));
  const Rule& some = made.rules.rules[1];
  EXPECT_EQ(some.kind, RuleKind::kConcurrency);
  EXPECT_EQ(some.on.only, (std::vector<ValuesOf>{{"arg0", {"vip"}}}));
  ASSERT_EQ(some.overrides.size(), 1u);
  EXPECT_EQ(some.overrides[0].rate.limit, 50);
}

TEST(ValueRulesTest, ArgumentsFromTheEndHaveANameOfTheirOwn) {
  const ToRulesResult made = Convert(Kind::kParamFlow, OnR(R"("paramIdx":-1,"count":5)"));
  EXPECT_EQ(OnlyRule(made).by, Names{"arg-1"});
  EXPECT_NE(Told(made.differences, "paramIdx").find("the dimension arg-1"), std::string::npos);
}

TEST(ValueRulesTest, ItemsThatCannotBeNamedAreLeftAway) {
  const ToRulesResult made =
      Convert(Kind::kParamFlow, OnR(R"("paramIdx":0,"count":5,"paramFlowItemList":[
          {"object":"","count":1,"classType":""},{"object":"a*","count":2,"classType":""},
          {"object":")" + std::string(129, 'x') +
                                    R"(","count":3,"classType":""}])"));
  EXPECT_EQ(OnlyRule(made).overrides, (std::vector<Override>{{"a*", {2, seconds(1)}, {}}}));
  EXPECT_NE(Told(made.differences, "paramFlowItemList[0].object"), "");
  EXPECT_NE(Told(made.differences, "paramFlowItemList[2].object"), "");
}

// Exceptions of a bound are exact; a list of values would take the '*' for any end.
TEST(ValueRulesTest, AListOfValuesTakesNoWildcardFromAnItem) {
  const ToRulesResult none = Convert(Kind::kParamFlow, OnR(R"("paramIdx":0,"grade":0,"count":5,
      "paramFlowItemList":[{"object":"a*","count":0,"classType":""},
                           {"object":"b*","count":9,"classType":""}])"));
  EXPECT_EQ(OnlyRule(none).concurrency, 5);
  EXPECT_EQ(OnlyRule(none).overrides, (std::vector<Override>{{"b*", {9, {}}, {}}}));
  EXPECT_EQ(Told(none.differences, "paramFlowItemList"),
            "takes \"a*\" as it is written; cannot list it, and gives it the count of all others");
  const ToRulesResult some = Convert(Kind::kParamFlow, OnR(R"("paramIdx":0,"grade":0,"count":0,
      "paramFlowItemList":[{"object":"a*","count":5,"classType":""}])"));
  EXPECT_EQ(OnlyRule(some).rate.limit, 0);
  EXPECT_TRUE(OnlyRule(some).on.except.empty());
}

TEST(ValueRulesTest, ABurstThatFillsTooSlowlyIsCut) {
  const ToRulesResult made = Convert(
      Kind::kParamFlow, OnR(R"("paramIdx":0,"count":1,"durationInSec":86400,"burstCount":30000)"));
  EXPECT_EQ(OnlyRule(made).burst, 26'687);
  EXPECT_EQ(Told(made.differences, "burstCount"), "takes any number; 26687 at most");
}

TEST(ValueRulesTest, CountsAboveTheMostAreTold) {
  const ToRulesResult made =
      Convert(Kind::kParamFlow, OnR(R"("paramIdx":0,"count":1e12,"paramFlowItemList":[
          {"object":"x","count":2000000000,"classType":""}])"));
  EXPECT_EQ(Told(made.differences, "paramFlowItemList"), "takes any number; 1000000000 at most");
  EXPECT_NE(Told(made.differences, "count").find("1000000000 at most"), std::string::npos);
}

// --- gateway

TEST(ValueRulesTest, GatewayConcurrencyOfNoneLetsRequestsWithoutTheValuePass) {
  const Rule rule =
      GatewayOf(R"("grade":0,"count":0.5,"paramItem":{"parseStrategy":2,"fieldName":"X-Id"})");
  EXPECT_EQ(rule.rate.limit, 0);
  EXPECT_EQ(rule.on.only, (std::vector<ValuesOf>{{"header-X-Id", {"*"}}}));
  const Rule exact = GatewayOf(R"("grade":0,"count":0,
      "paramItem":{"parseStrategy":2,"fieldName":"X-Id","pattern":"7"})");
  EXPECT_EQ(exact.on.only, (std::vector<ValuesOf>{{"header-X-Id", {"7"}}}));
  EXPECT_TRUE(GatewayOf(R"("grade":0,"count":0)").on.only.empty());
}

TEST(ValueRulesTest, GatewayPatternsThatNoListCanNameAreLeftOut) {
  const auto made = [](std::string_view item) {
    return Convert(Kind::kGatewayFlow,
                   OnR(R"("count":5,"paramItem":{"parseStrategy":)" + std::string(item) + "}"));
  };
  for (const char* item :
       {R"(1,"pattern":"go*")", R"(1,"pattern":"1*2")", R"(0,"pattern":"10.0.*")",
        R"(0,"pattern":"10.0.0.0/8")", R"(0,"pattern":"office")"}) {
    EXPECT_TRUE(made(item).rules.rules.empty()) << item;
    EXPECT_EQ(Told(made(item).differences, "paramItem.pattern").substr(0, 10), "left out: ");
  }
  EXPECT_EQ(OnlyRule(made(R"(0,"pattern":"10.0.0.1")")).on.only,
            (std::vector<ValuesOf>{{"ip", {"10.0.0.1"}}}));
}

TEST(ValueRulesTest, AGroupWithoutARuleIsTold) {
  const ToRulesResult made = Convert(
      Kind::kApiDefinition, R"([{"apiName":"shop","predicateItems":[{"pattern":"/cart"}]}])");
  EXPECT_TRUE(made.rules.rules.empty());
  EXPECT_NE(Told(made.differences, "apiName"), "");
}

TEST(ValueRulesTest, GatewayFlowByItsParameter) {
  EXPECT_TRUE(GatewayOf(R"("count":5,"intervalSec":2,"burst":1)").by.empty());
  const Rule by_ip =
      GatewayOf(R"("count":5,"intervalSec":2,"burst":1,"paramItem":{"parseStrategy":0})");
  EXPECT_EQ(by_ip.by, Names{"ip"});
  EXPECT_EQ(by_ip.rate, (Rate{5, seconds(2)}));
  EXPECT_EQ(by_ip.burst, 6);

  const ToRulesResult made = Convert(Kind::kGatewayFlow, R"([
      {"resource":"r","count":1,"paramItem":{"parseStrategy":1}},
      {"resource":"r","count":2,"paramItem":{"parseStrategy":2,"fieldName":"X-Id"}},
      {"resource":"r","count":3,"paramItem":{"parseStrategy":3,"fieldName":"page"}},
      {"resource":"r","count":4,"paramItem":{"parseStrategy":4,"fieldName":"sid"}},
      {"resource":"r","count":5,"paramItem":{"parseStrategy":3,"fieldName":"a b"}},
      {"resource":"r","count":6,"paramItem":{"parseStrategy":3,"fieldName":"a_b"}}])");
  Names sources;
  for (const Rule& rule : made.rules.rules)
    sources.push_back(rule.by.front() + " " + DimensionOf(made.rules, rule.by.front()).source);
  EXPECT_EQ(sources,
            (Names{"host header:host", "header-X-Id header:X-Id", "query-page query:page",
                   "cookie-sid cookie:sid", "query-a_b query:a b", "query-a_b-2 query:a_b"}));
  EXPECT_EQ(DimensionOf(made.rules, "cookie-sid").missing, MissingPolicy::kSkip);
}

TEST(ValueRulesTest, GatewayFlowOfValuesThatMatch) {
  const Rule exact = GatewayOf(
      R"("count":5,"paramItem":{"parseStrategy":3,"fieldName":"p",
         "pattern":"gold","matchStrategy":0})");
  EXPECT_EQ(exact.on.only, (std::vector<ValuesOf>{{"query-p", {"gold"}}}));
  const Rule prefix = GatewayOf(
      R"("count":5,"paramItem":{"parseStrategy":3,"fieldName":"p",
         "pattern":"go","matchStrategy":1})");
  EXPECT_TRUE(prefix.on.only.empty()) << "Sentinel does not look at it";
  const ToRulesResult regex = Convert(
      Kind::kGatewayFlow,
      OnR(R"("count":5,"paramItem":{"parseStrategy":0,"pattern":"10.*","matchStrategy":2})"));
  EXPECT_TRUE(regex.rules.rules.empty());
  EXPECT_NE(Told(regex.differences, "paramItem.pattern").find("left out: limits values that match"),
            std::string::npos);
}

TEST(ValueRulesTest, GatewayFlowOfAnApiGroup) {
  const std::vector<RuleFile> files = {
      FileOf(Kind::kGatewayFlow,
             R"([{"resource":"shop","resourceMode":1,"count":5},
                 {"resource":"route-1","count":5},
                 {"resource":"unknown","resourceMode":1,"count":5}])"),
      FileOf(Kind::kApiDefinition,
             R"([{"apiName":"shop","predicateItems":[{"pattern":"/cart"},
                  {"pattern":"/order/**","matchStrategy":1},
                  {"pattern":"/x.*","matchStrategy":2}]}])")};
  const ToRulesResult made = ToRules(files);
  ASSERT_EQ(made.rules.rules.size(), 4u);
  EXPECT_EQ(made.rules.rules[0].on, On("shop", "/cart"));
  EXPECT_EQ(made.rules.rules[1].on, On("", "/order/**"));
  EXPECT_EQ(made.rules.rules[2].on, On("route-1"));
  const std::string told = Told(made.differences, "resource");
  EXPECT_NE(told.find("counts all 2 paths of the API group together"), std::string::npos);
  EXPECT_NE(told.find("by the pattern \"/x.*\""), std::string::npos);
  EXPECT_NE(told.find("knows the path of this route"), std::string::npos);
  EXPECT_NE(told.find("knows the paths of this API group"), std::string::npos);
  EXPECT_EQ(Told(made.differences, "apiName"), "");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
