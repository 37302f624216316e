// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/to_rules.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dialects/sentinel/converting_test.h"
#include "dialects/sentinel/rule_maker.h"
#include "rules/compile.h"

namespace flowguard::dialects::sentinel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::TestWithParam;

Rule FlowOf(std::string_view members) {
  return OnlyRule(Convert(Kind::kFlow, OnR(members)));
}
Rule DegradeOf(std::string_view members) {
  return OnlyRule(Convert(Kind::kDegrade, OnR(members)));
}
Names NamesOf(const RuleSet& set) {
  Names names;
  for (const Rule& rule : set.rules)
    names.push_back(rule.name);
  return names;
}

// --- flow

TEST(ToRulesTest, QpsIsCountedExactly) {
  const ToRulesResult made = Convert(Kind::kFlow, OnR(R"("count":20)"));
  const Rule rule = OnlyRule(made);
  EXPECT_EQ(rule.kind, RuleKind::kLimit);
  EXPECT_EQ(rule.name, "flow/r");
  EXPECT_EQ(rule.origin, "f:1:2");
  EXPECT_EQ(rule.on, On("r"));
  EXPECT_EQ(rule.rate, (Rate{20, seconds(1)}));
  EXPECT_EQ(rule.algorithm, Algorithm::kSlidingLog);
  EXPECT_TRUE(rule.by.empty());
  ASSERT_EQ(made.differences.size(), 1u);
  EXPECT_EQ(
      LineOf(made.differences[0]),
      "f:1:2: flow rule #1: count: Sentinel counts in two halves of a second on the clock, so "
      "that twice the count passes around an edge, and more under concurrent calls; FlowGuard "
      "admits the count in every second, wherever it begins");
}

TEST(ToRulesTest, AboveAThousandItIsCountedInParts) {
  EXPECT_EQ(FlowOf(R"("count":1000)").algorithm, Algorithm::kSlidingLog);
  const Rule rule = FlowOf(R"("count":1001)");
  EXPECT_EQ(rule.algorithm, Algorithm::kSlidingBuckets);
  EXPECT_EQ(rule.buckets, 60);
}

TEST(ToRulesTest, OnlyTheWholePartOfACountMatters) {
  EXPECT_EQ(FlowOf(R"("count":2.9)").rate, (Rate{2, seconds(1)}));
  const ToRulesResult half = Convert(Kind::kFlow, OnR(R"("count":0.5)"));
  EXPECT_EQ(OnlyRule(half).rate.limit, 0);
  EXPECT_EQ(Told(half.differences, "count"),
            "compares with the whole part, 0; refuses every call as well");
  EXPECT_EQ(FlowOf(R"("count":0)").rate, (Rate{0, seconds(1)}));
  EXPECT_EQ(FlowOf(R"("count":1e300)").rate.limit, 1'000'000'000);
}

TEST(ToRulesTest, ConcurrencyIgnoresTheBehavior) {
  const Rule rule = FlowOf(R"("grade":0,"count":7.5,"controlBehavior":2)");
  EXPECT_EQ(rule.kind, RuleKind::kConcurrency);
  EXPECT_EQ(rule.concurrency, 7);
  EXPECT_EQ(rule.name, "flow/r/concurrency");
  const Rule none = FlowOf(R"("grade":0,"count":0.9)");
  EXPECT_EQ(none.kind, RuleKind::kLimit);
  EXPECT_EQ(none.rate.limit, 0);
}

TEST(ToRulesTest, WarmUp) {
  const ToRulesResult made =
      Convert(Kind::kFlow, OnR(R"("count":100,"controlBehavior":1,"warmUpPeriodSec":30)"));
  const Rule rule = OnlyRule(made);
  EXPECT_EQ(rule.algorithm, Algorithm::kWarmUpWindow);
  EXPECT_EQ(rule.rate, (Rate{100, seconds(1)}));
  EXPECT_EQ(rule.warm_up, seconds(30));
  EXPECT_EQ(rule.cold_factor, 3);
  EXPECT_EQ(Told(made.differences, "count"), "");
  const ToRulesResult small = Convert(Kind::kFlow, OnR(R"("count":2,"controlBehavior":1)"));
  EXPECT_EQ(Told(small.differences, "count"),
            "never admits a call while cold, and never warms up; admits one in each second at "
            "least");
}

TEST(ToRulesTest, Queue) {
  const Rule rule = FlowOf(R"("count":200,"controlBehavior":2,"maxQueueingTimeMs":700)");
  EXPECT_EQ(rule.algorithm, Algorithm::kLeakyBucket);
  EXPECT_EQ(rule.rate, (Rate{200, seconds(1)}));
  EXPECT_EQ(rule.wait, milliseconds(700));
}

TEST(ToRulesTest, AQueueKeepsFractionsOfACount) {
  const auto rate = [](std::string_view count) {
    return FlowOf(R"("controlBehavior":2,"count":)" + std::string(count)).rate;
  };
  EXPECT_EQ(rate("0.5"), (Rate{1, seconds(2)}));
  EXPECT_EQ(rate("2.9"), (Rate{29, seconds(10)}));
  EXPECT_EQ(rate("1.125"), (Rate{1'125, seconds(1'000)}));
  EXPECT_EQ(rate("0.7123456"), (Rate{1, Duration(1'403'812'981)}));
  EXPECT_EQ(rate("0").limit, 0);
}

TEST(ToRulesTest, ALongQueueIsCutToAnHour) {
  const ToRulesResult made =
      Convert(Kind::kFlow, OnR(R"("count":1,"controlBehavior":2,"maxQueueingTimeMs":3600001)"));
  EXPECT_EQ(OnlyRule(made).wait, hours(1));
  EXPECT_EQ(Told(made.differences, "maxQueueingTimeMs"),
            "lets calls wait longer than an hour; an hour at most");
}

TEST(ToRulesTest, WarmUpWithQueueIsTheNearest) {
  const ToRulesResult made = Convert(
      Kind::kFlow,
      OnR(R"("count":10,"controlBehavior":3,"warmUpPeriodSec":5,"maxQueueingTimeMs":1000)"));
  const Rule rule = OnlyRule(made);
  EXPECT_EQ(rule.algorithm, Algorithm::kWarmUp);
  EXPECT_EQ(rule.warm_up, seconds(5));
  EXPECT_EQ(rule.wait, seconds(1));
  EXPECT_NE(Told(made.differences, "controlBehavior").find("as Guava's"), std::string::npos);
}

TEST(ToRulesTest, WarmUpWithQueueKeepsFractionsOfACount) {
  const auto rate = [](std::string_view count) {
    return FlowOf(R"("controlBehavior":3,"count":)" + std::string(count)).rate;
  };
  EXPECT_EQ(rate("0.5"), (Rate{1, seconds(2)}));
  EXPECT_EQ(rate("2.5"), (Rate{5, seconds(2)}));
  EXPECT_EQ(rate("0").limit, 0);
  const ToRulesResult made = Convert(Kind::kFlow, OnR(R"("count":2.5,"controlBehavior":3)"));
  EXPECT_EQ(Told(made.differences, "count"), "");
}

TEST(ToRulesTest, AQueueFasterThanABillionIsTold) {
  for (const std::string behavior : {"2", "3"}) {
    const ToRulesResult made =
        Convert(Kind::kFlow, OnR(R"("count":1e18,"controlBehavior":)" + behavior));
    EXPECT_EQ(OnlyRule(made).rate, (Rate{1'000'000'000, seconds(1)}));
    EXPECT_EQ(Told(made.differences, "count"), "takes any number; 1000000000 at most");
  }
}

// Valid for concurrency, where Sentinel does not look at it before the call.
TEST(ToRulesTest, RelateAndChainOfNothingNeverLimit) {
  for (const std::string strategy : {"1", "2"}) {
    const ToRulesResult made =
        Convert(Kind::kFlow, OnR(R"("count":5,"grade":0,"strategy":)" + strategy));
    EXPECT_TRUE(made.rules.rules.empty());
    EXPECT_EQ(Told(made.differences, "refResource"),
              "left out: never limits by nothing; needs no rule for that");
  }
}

TEST(ToRulesTest, OriginsByName) {
  const ToRulesResult made = Convert(Kind::kFlow, R"([
      {"resource":"r","count":1,"limitApp":"app1"},
      {"resource":"r","count":2,"limitApp":"app2"},
      {"resource":"r","count":3,"limitApp":"other"},
      {"resource":"r","count":4},
      {"resource":"s","count":5,"limitApp":"other"}])");
  const std::vector<Rule>& rules = made.rules.rules;
  ASSERT_EQ(rules.size(), 5u);
  EXPECT_EQ(rules[0].on.only, (std::vector<ValuesOf>{{"origin", {"app1"}}}));
  EXPECT_TRUE(rules[0].by.empty());
  // Each of the others has a count of its own, and who names no origin is none of them.
  EXPECT_EQ(rules[2].on.only, (std::vector<ValuesOf>{{"origin", {"*"}}}));
  EXPECT_EQ(rules[2].on.except, (std::vector<ValuesOf>{{"origin", {"app1", "app2"}}}));
  EXPECT_EQ(rules[2].by, Names{"origin"});
  EXPECT_TRUE(rules[3].on.only.empty());
  EXPECT_TRUE(rules[4].on.except.empty());
  EXPECT_EQ(NamesOf(made.rules),
            (Names{"flow/r@app1", "flow/r@app2", "flow/r@other", "flow/r", "flow/s@other"}));
  EXPECT_EQ(DimensionOf(made.rules, "origin").missing, MissingPolicy::kSkip);
  EXPECT_EQ(made.rules.dimensions.size(), 1u);
}

TEST(ToRulesTest, TheNamesOfOtherFilesCountForOther) {
  const std::vector<RuleFile> files = {FileOf(Kind::kFlow, OnR(R"("count":1,"limitApp":"other")")),
                                       FileOf(Kind::kFlow, OnR(R"("count":1,"limitApp":"app1")"))};
  const ToRulesResult made = ToRules(files);
  ASSERT_EQ(made.rules.rules.size(), 2u);
  EXPECT_EQ(made.rules.rules[0].on.except, (std::vector<ValuesOf>{{"origin", {"app1"}}}));
}

TEST(ToRulesTest, RulesThatRefuseAtOnceLendHalfASecond) {
  EXPECT_EQ(FlowOf(R"("count":5)").borrow, milliseconds(500));
  EXPECT_EQ(FlowOf(R"("count":5000)").borrow, milliseconds(500));
  EXPECT_EQ(FlowOf(R"("count":5,"strategy":2,"refResource":"web")").borrow, milliseconds(500));
  for (const char* behavior : {"1", "2", "3"}) {
    EXPECT_EQ(FlowOf(R"("count":5,"controlBehavior":)" + std::string(behavior)).borrow, Duration{});
  }
  EXPECT_EQ(FlowOf(R"("count":5,"grade":0)").borrow, Duration{});
}

TEST(ToRulesTest, RelateCountsTheOtherResource) {
  const ToRulesResult made =
      Convert(Kind::kFlow, OnR(R"("count":5,"strategy":1,"refResource":"pay")"));
  EXPECT_EQ(OnlyRule(made).relate_to, "pay");
  EXPECT_EQ(OnlyRule(made).name, "flow/r/relate/pay");
  EXPECT_EQ(OnlyRule(made).borrow, Duration{}) << "its calls take nothing of what is counted";
  EXPECT_EQ(Told(made.differences, "refResource"), "");
  const Rule none = FlowOf(R"("count":0,"strategy":1,"refResource":"pay")");
  EXPECT_TRUE(none.relate_to.empty()) << "a limit of 0 counts nothing";
}

// A resource that relates to itself counts itself.
TEST(ToRulesTest, RelateToItselfIsDirect) {
  const ToRulesResult made =
      Convert(Kind::kFlow, OnR(R"("count":5,"strategy":1,"refResource":"r","limitApp":"a")"));
  EXPECT_TRUE(OnlyRule(made).relate_to.empty());
  EXPECT_NE(Told(made.differences, "limitApp"), "");
}

TEST(ToRulesTest, AQueueIsOfItsRuleAlone) {
  const ToRulesResult relate = Convert(
      Kind::kFlow, OnR(R"("count":5,"strategy":1,"refResource":"pay","controlBehavior":2)"));
  EXPECT_TRUE(OnlyRule(relate).relate_to.empty());
  EXPECT_NE(Told(relate.differences, "strategy"), "");
  const Rule other = FlowOf(R"("count":5,"limitApp":"other","controlBehavior":2)");
  EXPECT_TRUE(other.by.empty()) << "all others stand in one queue";
  EXPECT_EQ(other.on.only, (std::vector<ValuesOf>{{"origin", {"*"}}}));
}

TEST(ToRulesTest, ANameThatFlowGuardTakesForAPrefixIsNotRelatedTo) {
  for (const std::string name : {"pay*", "p*y"}) {
    const ToRulesResult made =
        Convert(Kind::kFlow, OnR(R"("count":5,"strategy":1,"refResource":")" + name + "\""));
    EXPECT_TRUE(made.rules.rules.empty());
    EXPECT_NE(Told(made.differences, "refResource").find("left out: "), std::string::npos);
  }
}

TEST(ToRulesTest, WhatAListCannotNameAsItIsWrittenIsLeftOut) {
  const std::string longer(129, 'x');
  for (const std::string& name : {std::string("web*"), std::string("w*b"), longer}) {
    const ToRulesResult chain =
        Convert(Kind::kFlow, OnR(R"("count":5,"strategy":2,"refResource":")" + name + "\""));
    EXPECT_TRUE(chain.rules.rules.empty());
    EXPECT_EQ(Told(chain.differences, "refResource").substr(0, 10), "left out: ");
    const ToRulesResult origin =
        Convert(Kind::kFlow, OnR(R"("count":5,"limitApp":")" + name + "\""));
    EXPECT_TRUE(origin.rules.rules.empty());
    EXPECT_EQ(Told(origin.differences, "limitApp").substr(0, 10), "left out: ");
  }
}

// The other rules of the list are taken all the same.
TEST(ToRulesTest, AnOriginThatNoListCanNameIsLeftAway) {
  const ToRulesResult made =
      Convert(Kind::kAuthority, R"([{"resource":"r","limitApp":"a*b,c,d*","strategy":1}])");
  EXPECT_EQ(OnlyRule(made).deny, (std::vector<AccessList>{{"origin", {"c", "d*"}}}));
  EXPECT_NE(Told(made.differences, "limitApp").find("takes \"a*b\" as it is written; cannot name"),
            std::string::npos);
  const ToRulesResult alone = Convert(Kind::kAuthority, R"([{"resource":"r","limitApp":"a*b"}])");
  EXPECT_TRUE(alone.rules.rules.empty());
  EXPECT_NE(Told(alone.differences, "limitApp").find("left out: takes names as they are written"),
            std::string::npos);
}

TEST(ToRulesTest, ChainIsAConditionOnTheContext) {
  const ToRulesResult made =
      Convert(Kind::kFlow, OnR(R"("count":5,"strategy":2,"refResource":"web","limitApp":"a")"));
  EXPECT_EQ(OnlyRule(made).on.only,
            (std::vector<ValuesOf>{{"origin", {"a"}}, {"context", {"web"}}}));
  EXPECT_EQ(DimensionOf(made.rules, "context").missing_value, "sentinel_default_context");
  EXPECT_NE(Told(made.differences, "limitApp"), "");
}

TEST(ToRulesTest, AnUnknownStrategyLimitsNothing) {
  const ToRulesResult made = Convert(Kind::kFlow, OnR(R"("count":5,"strategy":9)"));
  EXPECT_TRUE(made.rules.rules.empty());
  EXPECT_EQ(Told(made.differences, "strategy"),
            "left out: never limits by this one; needs no rule for that");
}

TEST(ToRulesTest, APatternCountsEachResource) {
  const Rule rule = OnlyRule(Convert(
      Kind::kFlow, R"([{"resource":"order:.*","regex":true,"count":5,"limitApp":"other"}])"));
  EXPECT_EQ(rule.on.resource_regex, "order:.*");
  EXPECT_EQ(rule.on.resource, "");
  EXPECT_EQ(rule.by, (Names{"resource", "origin"}));
}

// --- names and targets

TEST(ToRulesTest, PathsMeetHttpRequestsToo) {
  const auto target = [](std::string_view resource) {
    return OnlyRule(Convert(Kind::kFlow,
                            R"([{"count":1,"resource":")" + std::string(resource) + R"("}])"))
        .on;
  };
  EXPECT_EQ(target("/orders/{id}"), On("/orders/{id}", "/orders/{id}"));
  EXPECT_EQ(target("GET:/orders"), On("GET:/orders", "GET /orders"));
  EXPECT_EQ(target("/a/**"), On("", "/a/**"));
  EXPECT_EQ(target("get:/orders").route, "");
  EXPECT_EQ(target("GET:http://h/x").route, "");
  EXPECT_EQ(target("com.shop.Order:create(long)").route, "");
  EXPECT_EQ(target("a*b").resource_regex, R"(a\*b)");
}

TEST(ToRulesTest, NamesAreMadeOfWhatRulesAreAbout) {
  EXPECT_EQ(NameFrom("flow/order:create"), "flow/order:create");
  EXPECT_EQ(NameFrom("a b").substr(0, 4), "a_b-");
  EXPECT_NE(NameFrom("a b"), NameFrom("a?b"));
  EXPECT_LT(NameFrom(std::string(500, 'x')).size(), 128u);
  EXPECT_NE(NameFrom(std::string(500, 'x')), NameFrom(std::string(501, 'x')));
  const ToRulesResult made =
      Convert(Kind::kFlow, R"([{"resource":"r","count":1},{"resource":"r","count":2}])");
  EXPECT_EQ(NamesOf(made.rules), (Names{"flow/r", "flow/r-2"}));
}

TEST(ToRulesTest, QuotedTextIsFoundAgain) {
  for (const std::string text : {"/a/**", "x", "a.b+c", "\xC3\xA9*", "\\"}) {
    EXPECT_EQ(UnquotedRegex(QuotedRegex(text)), text);
  }
  EXPECT_EQ(UnquotedRegex("a.*"), std::nullopt);
  EXPECT_EQ(UnquotedRegex("\\d"), std::nullopt);
}

TEST(ToRulesTest, WhatIsTrueOfManyRulesIsToldOnce) {
  const ToRulesResult made = Convert(Kind::kFlow, R"([{"resource":"a","count":1},
      {"resource":"b","count":2},{"resource":"c","count":3}])");
  ASSERT_EQ(made.differences.size(), 1u);
  EXPECT_EQ(LineOf(made.differences[0]).substr(0, 37), "f:1:2: flow rule #1 (and 2 more): cou");
}

// --- degrade

TEST(ToRulesTest, SlowCalls) {
  const Rule rule = DegradeOf(
      R"("grade":0,"count":200,"slowRatioThreshold":0.4,"timeWindow":10,"minRequestAmount":7,
         "statIntervalMs":20000)");
  EXPECT_EQ(rule.kind, RuleKind::kBreaker);
  EXPECT_EQ(rule.name, "degrade/r/slow");
  BreakerRule breaker;
  breaker.slow_ratio = 0.4;
  breaker.slow_over = milliseconds(200);
  breaker.min_calls = 7;
  breaker.window = seconds(20);
  breaker.open_for = seconds(10);
  breaker.probes = 1;
  EXPECT_EQ(rule.breaker, breaker);
  EXPECT_EQ(DegradeOf(R"("count":10.5,"timeWindow":1)").breaker.slow_over, milliseconds(11));
  EXPECT_EQ(DegradeOf(R"("count":0,"timeWindow":1)").breaker.slow_over, milliseconds(1));
}

TEST(ToRulesTest, Errors) {
  const Rule ratio = DegradeOf(R"("grade":1,"count":0.5,"timeWindow":3)");
  EXPECT_EQ(ratio.breaker.error_ratio, 0.5);
  EXPECT_EQ(ratio.breaker.min_calls, 5);
  EXPECT_EQ(ratio.breaker.window, seconds(1));
  const Rule count = DegradeOf(R"("grade":2,"count":9.9,"timeWindow":3)");
  EXPECT_EQ(count.breaker.error_count, 9);
  const ToRulesResult all = Convert(Kind::kDegrade, OnR(R"("grade":1,"count":1,"timeWindow":3)"));
  EXPECT_EQ(Told(all.differences, "count"),
            "never opens at a ratio of 1; opens when all calls fail");
}

// What counts alike is no difference; the rest is.
TEST(ToRulesTest, ASetThatCountsAlikeTellsNothingOfTheCounting) {
  const auto convert = [](Kind kind, std::string_view members) {
    return ToRules(FileOf(kind, OnR(members)).rules, "f", Compat::kSentinel);
  };
  const ToRulesResult flow = convert(Kind::kFlow, R"("count":20)");
  EXPECT_EQ(flow.rules.compat, Compat::kSentinel);
  EXPECT_EQ(OnlyRule(flow).algorithm, Algorithm::kSlidingLog);
  EXPECT_TRUE(flow.differences.empty());
  const ToRulesResult breaker = convert(Kind::kDegrade, R"("grade":1,"count":1,"timeWindow":3)");
  EXPECT_EQ(Told(breaker.differences, "count"), "");
  EXPECT_EQ(Told(breaker.differences, "statIntervalMs"), "");
  EXPECT_NE(Told(breaker.differences, "timeWindow"), "");
  EXPECT_EQ(Told(convert(Kind::kParamFlow, R"("paramIdx":0,"count":5)").differences, "count"),
            "forgets a value when 4,000 others came; forgets full buckets first");
  // Its token server is none of it.
  EXPECT_NE(Told(convert(Kind::kFlow, R"("count":20,"clusterMode":true,"clusterConfig":
                 {"flowId":1,"thresholdType":1})")
                     .differences,
                 "count"),
            "");
}

TEST(ToRulesTest, DefaultBreakers) {
  const ToRulesResult made = Convert(Kind::kDegrade, R"([
      {"resource":"*","grade":1,"count":0.5,"timeWindow":3},
      {"resource":"pay","grade":1,"count":0.1,"timeWindow":3},
      {"resource":"a.*","regex":true,"grade":1,"count":0.1,"timeWindow":3}])");
  ASSERT_EQ(made.rules.rules.size(), 3u);
  const Rule& every = made.rules.rules[0];
  EXPECT_EQ(every.name, "degrade/every/errors");
  EXPECT_EQ(every.on.resource, "*");
  EXPECT_EQ(every.on.except, (std::vector<ValuesOf>{{"resource", {"pay"}}}));
  EXPECT_EQ(every.by, Names{"resource"});
  EXPECT_EQ(made.rules.rules[2].by, Names{"resource"});
  EXPECT_NE(Told(made.differences, "resource").find("rules with regex"), std::string::npos);
}

// --- system, authority

TEST(ToRulesTest, System) {
  const ToRulesResult made = Convert(Kind::kSystem, R"([
      {"qps":10.5,"avgRt":20,"maxThread":3,"highestSystemLoad":1.5,"highestCpuUsage":0.8},
      {"qps":5},{"limitApp":"default"}])");
  ASSERT_EQ(made.rules.rules.size(), 2u);
  EXPECT_EQ(made.rules.rules[0].kind, RuleKind::kSystem);
  EXPECT_EQ(made.rules.rules[0].system, (flowguard::SystemRule{1.5, 0.8, milliseconds(20), 4, 10}));
  EXPECT_EQ(made.rules.rules[1].system.qps, 5);
  EXPECT_EQ(made.rules.rules[1].system.avg_rt, std::nullopt);
  EXPECT_EQ(NamesOf(made.rules), (Names{"system", "system-2"}));
  EXPECT_NE(Told(made.differences, "qps").find("looks at the others all the same"),
            std::string::npos);
}

TEST(ToRulesTest, WhatASystemRuleCannotHoldIsTold) {
  const ToRulesResult made = Convert(Kind::kSystem, R"([{"qps":1e10,"maxThread":2000000000000}])");
  EXPECT_EQ(OnlyRule(made).system.qps, 1'000'000'000);
  EXPECT_EQ(Told(made.differences, "qps"), "takes any number; 1000000000 at most");
  EXPECT_EQ(OnlyRule(made).system.inflight, 1'000'000'000'000);
  EXPECT_NE(Told(made.differences, "maxThread").find("999999999999 at most"), std::string::npos);
}

TEST(ToRulesTest, ConcurrencyAboveTheMostIsTold) {
  const ToRulesResult made = Convert(Kind::kFlow, OnR(R"("grade":0,"count":1e18)"));
  EXPECT_EQ(OnlyRule(made).concurrency, 1'000'000'000'000);
  EXPECT_EQ(Told(made.differences, "count"), "takes any number; 1000000000000 at most");
}

TEST(ToRulesTest, Authority) {
  const ToRulesResult made = Convert(Kind::kAuthority, R"([
      {"resource":"r","limitApp":"a,b, c,"},
      {"resource":"s","limitApp":"x","strategy":1},
      {"resource":"t","limitApp":"x","strategy":2},
      {"resource":"u","limitApp":","}])");
  ASSERT_EQ(made.rules.rules.size(), 2u);
  EXPECT_EQ(made.rules.rules[0].kind, RuleKind::kAccess);
  EXPECT_EQ(made.rules.rules[0].allow, (std::vector<AccessList>{{"origin", {"a", "b", " c"}}}));
  EXPECT_EQ(made.rules.rules[1].deny, (std::vector<AccessList>{{"origin", {"x"}}}));
  EXPECT_EQ(DimensionOf(made.rules, "origin").missing, MissingPolicy::kSkip);
  EXPECT_NE(Told(made.differences, "limitApp").find("`missing: refuse` closes that way"),
            std::string::npos);
  EXPECT_EQ(Told(made.differences, "strategy"),
            "left out: lets everybody through by this one; needs no rule for that");
}

// --- what is made can be loaded

struct Loadable {
  const char* name;
  Kind kind;
  const char* json;
};

class LoadableRules : public TestWithParam<Loadable> {};

TEST_P(LoadableRules, AreTaken) {
  const ToRulesResult made = Convert(GetParam().kind, GetParam().json);
  ASSERT_FALSE(made.rules.rules.empty());
  const auto table = rules::Compile(made.rules, {.remote_allowed = true, .cluster_allowed = true});
  EXPECT_TRUE(table.ok()) << table.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, LoadableRules,
    ::testing::Values(
        Loadable{"Behaviors", Kind::kFlow, R"([{"resource":"a","count":20},
            {"resource":"b","count":5000},{"resource":"c","count":1e18},
            {"resource":"d","count":2.5,"controlBehavior":1,"warmUpPeriodSec":2147483647},
            {"resource":"e","count":0.51,"controlBehavior":2,"maxQueueingTimeMs":2147483647},
            {"resource":"f","count":1e18,"controlBehavior":2},
            {"resource":"g","count":1e18,"controlBehavior":3},
            {"resource":"h","count":0,"controlBehavior":3},
            {"resource":"i","count":3,"grade":0},{"resource":"j","count":0,"grade":0},
            {"resource":"k","count":0.5,"controlBehavior":3},
            {"resource":"l","count":1e-300,"controlBehavior":3}])"},
        Loadable{"Targets", Kind::kFlow, R"([{"resource":"a","count":1,"limitApp":"app1"},
            {"resource":"a","count":1,"limitApp":"other"},
            {"resource":"b","count":1,"strategy":1,"refResource":"c"},
            {"resource":"b","count":1,"strategy":1,"refResource":"b"},
            {"resource":"b","count":1,"strategy":1,"refResource":"c","controlBehavior":2},
            {"resource":"b","count":1,"strategy":1,"refResource":"c","controlBehavior":3},
            {"resource":"b","count":1,"strategy":1,"refResource":"c","grade":0},
            {"resource":"b","count":1,"strategy":1,"refResource":"c","limitApp":"other"},
            {"resource":"b","count":1,"strategy":2,"refResource":"web"},
            {"resource":"d.*","regex":true,"count":1}])"},
        Loadable{"ClusterFlow", Kind::kFlow, R"([{"resource":"a","count":20,"clusterMode":true,
            "clusterConfig":{"flowId":1,"thresholdType":1}},
            {"resource":"b","count":1e18,"clusterMode":true,
            "clusterConfig":{"flowId":2,"thresholdType":1,"windowIntervalMs":2147483640}}])"},
        Loadable{"Breakers", Kind::kDegrade, R"([
            {"resource":"a","grade":0,"count":1e18,"timeWindow":2147483647,
             "statIntervalMs":2147483647,"minRequestAmount":2147483647},
            {"resource":"b","grade":2,"count":1e18,"timeWindow":1,"statIntervalMs":1},
            {"resource":"c","grade":0,"count":5,"slowRatioThreshold":-0.0,"timeWindow":1},
            {"resource":"d","grade":1,"count":-0.0,"timeWindow":1},
            {"resource":"*","grade":1,"count":0.5,"timeWindow":1}])"},
        Loadable{"System", Kind::kSystem, R"([
            {"highestSystemLoad":-0.0},{"highestCpuUsage":-0.0},
            {"qps":1e18,"maxThread":9000000000000000}])"},
        Loadable{
            "Authority", Kind::kAuthority,
            R"([{"resource":"a","limitApp":"x,y"},{"resource":"b","limitApp":"x","strategy":1}])"},
        Loadable{"Params", Kind::kParamFlow, R"([
            {"resource":"a","paramIdx":0,"count":1e18,"durationInSec":9000000000000000,
             "burstCount":2147483647},
            {"resource":"b","paramIdx":-2147483648,"count":0,"burstCount":5,
             "paramFlowItemList":[{"object":"x","count":2147483647,"classType":""}]},
            {"resource":"c","paramIdx":0,"count":3,"controlBehavior":2,
             "paramFlowItemList":[{"object":"x","count":0,"classType":""}]},
            {"resource":"d","paramIdx":0,"count":3,"grade":0,
             "paramFlowItemList":[{"object":"x","count":0,"classType":""}]},
            {"resource":"e","paramIdx":0,"count":1,"durationInSec":86400,"burstCount":30000},
            {"resource":"f","paramIdx":0,"count":9,"durationInSec":86400,"burstCount":1,
             "paramFlowItemList":[{"object":"","count":1,"classType":""}]},
            {"resource":"g","paramIdx":0,"count":9000000,"durationInSec":86400,"burstCount":30000,
             "paramFlowItemList":[{"object":"x","count":1,"classType":""}]},
            {"resource":"h","paramIdx":0,"count":3,"grade":0,
             "paramFlowItemList":[{"object":"1*2","count":0,"classType":""}]},
            {"resource":"i","paramIdx":0,"count":0,"grade":0,
             "paramFlowItemList":[{"object":"1*2","count":3,"classType":""}]}])"},
        Loadable{"Gateway", Kind::kGatewayFlow, R"([
            {"resource":"a","count":3,"paramItem":{"parseStrategy":0}},
            {"resource":"a","count":3,"paramItem":{"parseStrategy":2,"fieldName":"X"}},
            {"resource":"a","count":3,"controlBehavior":2,"paramItem":{"parseStrategy":1}},
            {"resource":"b","count":3,"paramItem":{"parseStrategy":0,"pattern":"10.0.*"}},
            {"resource":"b","count":3,"paramItem":{"parseStrategy":0,"pattern":"office"}},
            {"resource":"b","count":3,"paramItem":{"parseStrategy":1,"pattern":"1*2"}}])"},
        Loadable{"OddNames", Kind::kFlow,
                 R"([{"resource":"下单 [*]","count":3},{"resource":"/a//b","count":3}])"}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace flowguard::dialects::sentinel
