// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/from_rules.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "dialects/sentinel/converting_test.h"
#include "dialects/sentinel/validity.h"
#include "dialects/sentinel/writer.h"

namespace flowguard::dialects::sentinel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RuleSet SetOf(std::string_view yaml) {
  auto parsed = ParseRules(yaml, "r.yaml");
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return parsed.ok() ? std::move(parsed->rules) : RuleSet();
}

Rule Limit(std::string resource, int64_t limit, Algorithm algorithm = Algorithm::kSlidingLog) {
  Rule rule;
  rule.name = "n";
  rule.on.resource = std::move(resource);
  rule.rate = {limit, seconds(1)};
  rule.algorithm = algorithm;
  return rule;
}

FromRulesResult Back(Rule rule, std::vector<DimensionSpec> dimensions = {}) {
  RuleSet set;
  set.rules.push_back(std::move(rule));
  set.dimensions = std::move(dimensions);
  return FromRules(set);
}

template <typename One>
One Only(const FromRulesResult& made) {
  EXPECT_EQ(made.lists.size(), 1u);
  if (made.lists.size() != 1) return {};
  const auto* list = std::get_if<std::vector<Listed<One>>>(&made.lists.front());
  EXPECT_TRUE(list != nullptr && list->size() == 1);
  return list != nullptr && list->size() == 1 ? list->front().rule : One();
}

void ExpectLeftOut(Rule rule, std::string_view field) {
  const FromRulesResult made = Back(std::move(rule));
  EXPECT_TRUE(made.lists.empty());
  ASSERT_FALSE(made.differences.empty());
  EXPECT_TRUE(made.differences.back().left_out);
  EXPECT_EQ(made.differences.back().field, field);
}

// --- there and back

struct Unchanged {
  const char* name;
  Kind kind;
  const char* json;
};

class ThereAndBack : public ::testing::TestWithParam<Unchanged> {};

TEST_P(ThereAndBack, IsTheSameList) {
  const RuleFile file = FileOf(GetParam().kind, GetParam().json);
  const FromRulesResult made = FromRules(ToRules({&file, 1}).rules);
  ASSERT_EQ(made.lists.size(), 1u);
  EXPECT_EQ(WriteRules(made.lists.front()), WriteRules(file.rules));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ThereAndBack,
                         ::testing::Values(Unchanged{"Flow", Kind::kFlow, R"([
            {"resource":"a","count":20},{"resource":"b","count":5000},
            {"resource":"c","count":7,"grade":0},
            {"resource":"d","count":100,"controlBehavior":1,"warmUpPeriodSec":30},
            {"resource":"e","count":200,"controlBehavior":2,"maxQueueingTimeMs":700},
            {"resource":"f","count":2.5,"controlBehavior":2},
            {"resource":"g","count":10,"controlBehavior":3,"warmUpPeriodSec":5,
             "maxQueueingTimeMs":9},
            {"resource":"g","count":2.5,"controlBehavior":3,"warmUpPeriodSec":5},
            {"resource":"g","count":0.5,"controlBehavior":3,"warmUpPeriodSec":5},
            {"resource":"h","count":0},
            {"resource":"i","count":1,"limitApp":"app1"},
            {"resource":"i","count":2,"limitApp":"other"},
            {"resource":"j","count":1,"strategy":1,"refResource":"k"},
            {"resource":"j","count":1,"strategy":2,"refResource":"web","limitApp":"app1"},
            {"resource":"j","count":1,"strategy":1,"refResource":"k","limitApp":"other"},
            {"resource":"l.*","count":1,"regex":true},
            {"resource":"/m/**","count":1},{"resource":"GET:/n","count":1},
            {"resource":"o*p","count":1}])"},
                                           Unchanged{"Degrade", Kind::kDegrade, R"([
            {"resource":"a","grade":0,"count":200,"slowRatioThreshold":0.4,"timeWindow":10},
            {"resource":"b","grade":1,"count":0.5,"timeWindow":3,"statIntervalMs":20000},
            {"resource":"c","grade":2,"count":9,"timeWindow":3,"minRequestAmount":1},
            {"resource":"*","grade":1,"count":0.9,"timeWindow":3},
            {"resource":"d.*","regex":true,"grade":1,"count":0.9,"timeWindow":3}])"},
                                           Unchanged{"System", Kind::kSystem, R"([
            {"qps":10,"avgRt":20,"maxThread":3,"highestSystemLoad":1.5,"highestCpuUsage":0.8},
            {"avgRt":5}])"},
                                           Unchanged{"Authority", Kind::kAuthority, R"([
            {"resource":"a","limitApp":"x,y"},{"resource":"b","limitApp":"x","strategy":1},
            {"resource":"c.*","limitApp":"x","regex":true}])"},
                                           Unchanged{"ParamFlow", Kind::kParamFlow, R"([
            {"resource":"a","paramIdx":0,"count":5,"durationInSec":60,"burstCount":3,
             "paramFlowItemList":[{"object":"v","count":10,"classType":"java.lang.String"}]},
            {"resource":"b","paramIdx":-1,"count":5,"controlBehavior":2,"maxQueueingTimeMs":500},
            {"resource":"c.*","paramIdx":2,"count":5,"regex":true},
            {"resource":"d","paramIdx":0,"count":5,"grade":0}])"},
                                           Unchanged{"GatewayFlow", Kind::kGatewayFlow, R"([
            {"resource":"a","count":5,"intervalSec":2,"burst":1,"paramItem":{"parseStrategy":0}},
            {"resource":"a","count":5,"paramItem":{"parseStrategy":1}},
            {"resource":"a","count":5,"paramItem":{"parseStrategy":2,"fieldName":"x-id"}},
            {"resource":"a","count":5,"controlBehavior":2,"maxQueueingTimeoutMs":20,
             "paramItem":{"parseStrategy":3,"fieldName":"page","pattern":"1"}},
            {"resource":"a","count":5,"grade":0,
             "paramItem":{"parseStrategy":4,"fieldName":"sid"}}])"}),
                         [](const auto& one) { return one.param.name; });

// --- FlowGuard's own rules

TEST(FromRulesTest, RulesOfEveryKindBecomeListsOfTheirOwn) {
  const FromRulesResult made = FromRules(SetOf(R"(
rules:
  - {name: calls, on: {resource: pay}, concurrency: 4}
  - {name: cut, on: {resource: pay}, breaker: {errors: {count: 3}, open_for: 1500ms, probes: 2}}
  - {name: who, on: {resource: pay}, access: {deny: {origin: [a, b]}}}
  - {name: ip, on: {resource: pay}, limit: 5/min, by: [ip], overrides: {"10.0.0.1": 6/min}}
dimensions:
  origin: {header: x-origin}
)"));
  ASSERT_EQ(made.lists.size(), 4u);
  EXPECT_EQ(KindOf(made.lists[0]), Kind::kFlow);
  EXPECT_EQ(KindOf(made.lists[1]), Kind::kDegrade);
  EXPECT_EQ(KindOf(made.lists[2]), Kind::kAuthority);
  EXPECT_EQ(KindOf(made.lists[3]), Kind::kGatewayFlow);
  EXPECT_EQ(Told(made.differences, "breaker.probes"), "has one; has 2");
  EXPECT_EQ(Told(made.differences, "breaker.open_for"), "counts in whole seconds; does not");
  EXPECT_EQ(Told(made.differences, "overrides"), "has no exceptions for single values; has them");
  ASSERT_FALSE(made.differences.empty());
  EXPECT_EQ(LineOf(made.differences[0]).substr(0, 39), "r.yaml:4:5: rule \"cut\": breaker.probes:");
}

TEST(FromRulesTest, WhatCountsAsSentinelDoesIsNotTold) {
  const FromRulesResult leap = Back(Limit("r", 10, Algorithm::kLeapArray));
  EXPECT_EQ(Only<FlowRule>(leap).count, 10);
  EXPECT_EQ(Told(leap.differences, "algorithm"), "");

  Rule steps = Limit("r", 10, Algorithm::kStepBucket);
  steps.burst = 13;
  steps.by = {"arg0"};
  const FromRulesResult param = Back(steps, {{"arg0", "", MissingPolicy::kSkip, "", false, false}});
  EXPECT_EQ(Only<ParamFlowRule>(param).burst_count, 3);
  EXPECT_EQ(Told(param.differences, "algorithm"), "");

  RuleSet set = SetOf(
      "compat: sentinel\n"
      "rules: [{name: b, on: {resource: r}, breaker: {errors: {ratio: 1}, min_calls: 5, window: "
      "1s, open_for: 5s}}]\n");
  EXPECT_EQ(Told(FromRules(set).differences, "breaker.errors.ratio"), "");
  set.compat = Compat::kNone;
  EXPECT_NE(Told(FromRules(set).differences, "breaker.errors.ratio"), "");
}

TEST(FromRulesTest, WhatIsLentForAnotherTimeOrNotAtAllIsTold) {
  Rule rule = Limit("a", 10);
  EXPECT_NE(Told(Back(rule).differences, "borrow"), "");
  rule.borrow = milliseconds(200);
  EXPECT_EQ(Told(Back(rule).differences, "borrow"),
            "lends prioritised calls what comes in half a second; lends for another time");
  rule.borrow = milliseconds(500);
  EXPECT_EQ(Told(Back(rule).differences, "borrow"), "");
  Rule param = Limit("a", 10, Algorithm::kTokenBucket);
  param.by = {"arg0"};
  EXPECT_EQ(Told(Back(param).differences, "borrow"), "");
  param.borrow = milliseconds(500);
  EXPECT_EQ(Told(Back(param).differences, "borrow"),
            "lends nothing by value; lends prioritised calls");
}

TEST(FromRulesTest, ATokenBucketIsTold) {
  Rule rule = Limit("r", 10, Algorithm::kTokenBucket);
  rule.burst = 20;
  rule.wait = seconds(1);
  const FromRulesResult made = Back(rule);
  EXPECT_EQ(Only<FlowRule>(made).count, 10);
  EXPECT_NE(Told(made.differences, "algorithm"), "");
  EXPECT_EQ(Told(made.differences, "limit"), "has no burst in flow rules; has one");
  EXPECT_NE(Told(made.differences, "wait"), "");
}

TEST(FromRulesTest, AQueueHasAnyWindow) {
  Rule rule = Limit("r", 30, Algorithm::kLeakyBucket);
  rule.rate.window = std::chrono::minutes(1);
  rule.rate.limit = 90;
  const FromRulesResult made = Back(rule);
  EXPECT_EQ(Only<FlowRule>(made).count, 1.5);
  EXPECT_EQ(Only<FlowRule>(made).max_queueing_time_ms, 1);
  EXPECT_NE(Told(made.differences, "wait"), "");
}

TEST(FromRulesTest, ARouteIsNamedAsAdaptersNameIt) {
  Rule rule = Limit("", 1);
  rule.on.route = "POST /orders/{id}";
  const FromRulesResult made = Back(rule);
  EXPECT_EQ(Only<FlowRule>(made).resource, "POST:/orders/{id}");
  EXPECT_NE(Told(made.differences, "on.route"), "");
}

TEST(FromRulesTest, ASharedLimitIsOfATokenServer) {
  Rule rule = Limit("r", 1);
  rule.scope = Scope::kShared;
  rule.on_store_failure = StoreFailurePolicy::kClosed;
  const FromRulesResult made = Back(rule);
  const FlowRule flow = Only<FlowRule>(made);
  EXPECT_TRUE(flow.cluster_mode);
  EXPECT_TRUE(ReasonsAgainst(flow).empty());
  EXPECT_EQ(flow.cluster_config->threshold_type, 1);
  EXPECT_FALSE(flow.cluster_config->fallback_to_local_when_fail);
  EXPECT_NE(Told(made.differences, "on_store_failure"), "");
}

// Its token server counts the calls of a resource by the second, and looks at nothing else.
TEST(FromRulesTest, OtherSharedRulesAreOfNoTokenServer) {
  Rule rule = Limit("r", 1);
  rule.scope = Scope::kShared;
  const Rule plain = rule;
  rule.on.only = {{"origin", {"app1"}}};
  ExpectLeftOut(rule, "scope");

  rule = plain;
  rule.on.only = {{"context", {"web"}}};
  ExpectLeftOut(rule, "scope");

  rule = plain;
  rule.algorithm = Algorithm::kLeakyBucket;
  ExpectLeftOut(rule, "scope");

  rule = plain;
  rule.on.resource = "order:*";
  rule.by = {"resource"};
  ExpectLeftOut(rule, "scope");

  rule = plain;
  rule.kind = RuleKind::kConcurrency;
  rule.rate = {};
  rule.algorithm = Rule{}.algorithm;
  rule.concurrency = 5;
  ExpectLeftOut(rule, "scope");
}

TEST(FromRulesTest, ASystemRuleOfSomeRequestsIsLeftOut) {
  Rule rule;
  rule.name = "n";
  rule.kind = RuleKind::kSystem;
  rule.system.qps = 10;
  EXPECT_EQ(Only<SystemRule>(Back(rule)).qps, 10);
  rule.on.resource = "report";
  ExpectLeftOut(rule, "on");
}

TEST(FromRulesTest, WhatDimensionsSayIsTold) {
  Rule rule = Limit("r", 1, Algorithm::kTokenBucket);
  rule.by = {"arg0"};
  const auto told = [](const FromRulesResult& made, const char* member) {
    return Told(made.differences, std::string("dimensions.arg0.") + member);
  };
  EXPECT_EQ(told(Back(rule), "missing"), "lets calls without the value pass; counts them together");

  DimensionSpec spec;
  spec.name = "arg0";
  spec.missing = MissingPolicy::kSkip;
  const FromRulesResult skips = Back(rule, {spec});
  EXPECT_EQ(told(skips, "missing") + told(skips, "trim") + told(skips, "lower"), "");

  spec.missing = MissingPolicy::kRefuse;
  spec.trim = true;
  spec.lower = true;
  const FromRulesResult refuses = Back(rule, {spec});
  EXPECT_EQ(told(refuses, "missing"), "lets calls without the value pass; refuses them");
  EXPECT_EQ(told(refuses, "trim"), "compares values as they are sent; without spaces");
  EXPECT_EQ(told(refuses, "lower"), "compares values as they are sent; in lower case");

  spec = {};
  spec.name = "arg0";
  spec.missing_value = "none";
  EXPECT_EQ(told(Back(rule, {spec}), "missing"),
            "lets calls without the value pass; takes \"none\" for it");

  rule = Limit("r", 1);
  rule.on.only = {{"origin", {"a"}}};
  spec = {};
  spec.name = "origin";
  spec.missing = MissingPolicy::kRefuse;
  EXPECT_EQ(Told(Back(rule, {spec}).differences, "dimensions.origin.missing"), "")
      << "a condition does not hold without its value, and refuses nothing";

  rule.by = {"ip"};
  EXPECT_EQ(Told(Back(rule).differences, "dimensions.ip.missing"), "") << "every request has one";
}

TEST(FromRulesTest, AnAllowListOfOriginsTellsWhoNamesNone) {
  Rule rule;
  rule.name = "n";
  rule.kind = RuleKind::kAccess;
  rule.on.resource = "r";
  rule.allow = {{"origin", {"a"}}};
  EXPECT_EQ(Told(Back(rule).differences, "dimensions.origin.missing"),
            "lets calls without the value pass; refuses those, which are on no allow list");
  std::swap(rule.allow, rule.deny);
  EXPECT_EQ(Told(Back(rule).differences, "dimensions.origin.missing"), "");
}

TEST(FromRulesTest, TheMostSpecificRulesAloneAreTold) {
  RuleSet set;
  set.rules.push_back(Limit("r", 1));
  EXPECT_EQ(Told(FromRules(set).differences, "match"), "");
  set.match = MatchMode::kMostSpecific;
  EXPECT_EQ(Told(FromRules(set).differences, "match"),
            "asks every rule of a resource; asks the most specific ones of each kind alone");
}

TEST(FromRulesTest, OtherOriginsAreThoseThatNoRuleNames) {
  Rule others = Limit("r", 1);
  others.on.only = {{"origin", {"*"}}};
  others.on.except = {{"origin", {"vip"}}};
  others.by = {"origin"};
  const FromRulesResult alone = Back(others);
  EXPECT_EQ(Only<FlowRule>(alone).limit_app, "other");
  EXPECT_EQ(Told(alone.differences, "on.except"),
            "leaves out the origins that have a flow rule of their own for the resource; leaves "
            "out those that are listed");

  Rule vip = Limit("r", 9);
  vip.on.only = {{"origin", {"vip"}}};
  RuleSet set;
  set.rules = {others, vip};
  EXPECT_EQ(Told(FromRules(set).differences, "on.except"), "");
}

TEST(FromRulesTest, AWarmUpBelowTheColdFactorIsTold) {
  Rule rule = Limit("r", 2, Algorithm::kWarmUpWindow);
  rule.warm_up = seconds(10);
  EXPECT_EQ(Told(Back(rule).differences, "limit"),
            "never admits a call while cold, and never warms up; admits one in each second at "
            "least");
  rule.rate.limit = 3;
  EXPECT_EQ(Told(Back(rule).differences, "limit"), "");
}

TEST(FromRulesTest, WhatIsCutIsTold) {
  Rule rule = Limit("r", 1, Algorithm::kTokenBucket);
  rule.by = {"arg0"};
  rule.overrides = {{"x", {3'000'000'000, seconds(1)}, 4'000'000'000}};
  EXPECT_EQ(Told(Back(rule).differences, "overrides"),
            "has counts of values up to 2147483647; has 3000000000 for \"x\"\n"
            "adds one burst to the counts of all values; has another for \"x\"\n"
            "compares texts with texts only, as they are written here; compares every value as "
            "text");
}

TEST(FromRulesTest, WhatSentinelCannotSayIsLeftOut) {
  Rule rule = Limit("r", 1);
  rule.enabled = false;
  ExpectLeftOut(rule, "enabled");

  rule = Limit("r", 1);
  rule.shadow = true;
  ExpectLeftOut(rule, "shadow");

  rule = Limit("r", 1);
  rule.rate.window = seconds(60);
  ExpectLeftOut(rule, "limit");

  ExpectLeftOut(Limit("", 1), "on");
  ExpectLeftOut(Limit("order:*", 1), "by");

  rule = Limit("r", 1);
  rule.by = {"tenant"};
  ExpectLeftOut(rule, "by");

  rule = Limit("r", 1);
  rule.by = {"ip", "arg0"};
  ExpectLeftOut(rule, "by");

  rule = Limit("r", 1);
  rule.on.only = {{"origin", {"a", "b"}}};
  ExpectLeftOut(rule, "on.only");

  rule = Limit("r", 1);
  rule.on.only = {{"context", {"web*"}}};
  ExpectLeftOut(rule, "on.only");

  rule = Limit("r", 1, Algorithm::kLeakyBucket);
  rule.relate_to = "pay";
  ExpectLeftOut(rule, "relate_to");

  rule = Limit("r", 1);
  rule.on.except = {{"tenant", {"a"}}};
  ExpectLeftOut(rule, "on.except");

  rule = Limit("r", 1, Algorithm::kTokenBucket);
  rule.by = {"arg0"};
  rule.rate.window = milliseconds(1'500);
  ExpectLeftOut(rule, "limit");

  rule = Limit("r", 1, Algorithm::kLeakyBucket);
  rule.rate.window = seconds(3);
  ExpectLeftOut(rule, "limit");

  rule = {};
  rule.name = "n";
  rule.kind = RuleKind::kAccess;
  rule.on.resource = "r";
  rule.allow = {{"ip", {"10.0.0.0/8"}}};
  ExpectLeftOut(rule, "access");
  rule.allow = {{"origin", {"a*"}}};
  ExpectLeftOut(rule, "access");
}

TEST(FromRulesTest, WhatAnswersAndCostsSayIsTold) {
  Rule rule = Limit("r", 1);
  rule.refuse.status = 418;
  rule.cost.reserve = 3;
  rule.count_refused = true;
  const FromRulesResult made = Back(rule);
  EXPECT_EQ(Only<FlowRule>(made).resource, "r");
  EXPECT_NE(Told(made.differences, "refuse"), "");
  EXPECT_NE(Told(made.differences, "cost"), "");
  EXPECT_NE(Told(made.differences, "count_refused"), "");
}

// --- the dashboard's form

TEST(WriteEntitiesTest, AreReadBackAsTheSameRules) {
  const struct {
    Kind kind;
    const char* json;
    const char* entity;
  } kLists[] = {
      {Kind::kDegrade, R"([{"id":1,"resource":"a","grade":2,"count":9,"timeWindow":3}])",
       R"([{"app":"shop","id":1,"count":9.0,"grade":2,"minRequestAmount":5,"regex":false,)"
       R"("resource":"a","slowRatioThreshold":1.0,"statIntervalMs":1000,"timeWindow":3}])"},
      {Kind::kAuthority, R"([{"resource":"a","limitApp":"x"},{"resource":"b","limitApp":"x"}])",
       R"([{"app":"shop","id":1,)"
       R"("rule":{"limitApp":"x","regex":false,"resource":"a","strategy":0}},)"
       R"({"app":"shop","id":2,)"
       R"("rule":{"limitApp":"x","regex":false,"resource":"b","strategy":0}}])"},
      {Kind::kGatewayFlow, R"([{"resource":"a","count":9,"intervalSec":7200}])",
       R"([{"app":"shop","id":1,"burst":0,"controlBehavior":0,"count":9.0,"grade":1,)"
       R"("maxQueueingTimeoutMs":500,"resource":"a","resourceMode":0,)"
       R"("interval":2,"intervalUnit":2}])"},
  };
  for (const auto& one : kLists) {
    const RuleFile file = FileOf(one.kind, one.json);
    const std::string written = WriteEntities(file.rules, "shop");
    EXPECT_EQ(written, one.entity);
    EXPECT_EQ(WriteRules(FileOf(one.kind, written).rules), WriteRules(file.rules));
  }
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
