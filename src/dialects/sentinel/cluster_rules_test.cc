// SPDX-License-Identifier: Apache-2.0
//
// Rules of Sentinel's token server as rules of scope cluster, and back.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "dialects/sentinel/converting_test.h"
#include "dialects/sentinel/from_rules.h"
#include "dialects/sentinel/validity.h"
#include "dialects/sentinel/writer.h"
#include "rules/compile.h"
#include "rules/flow_id.h"

namespace flowguard::dialects::sentinel {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string InCluster(std::string_view members, std::string_view config) {
  return OnR(std::string(members) + R"(,"clusterMode":true,"clusterConfig":{"flowId":7,)" +
             std::string(config) + "}");
}

ToRulesResult FlowOf(std::string_view members, std::string_view config = R"("thresholdType":1)",
                     Compat compat = Compat::kNone) {
  return ToRules(FileOf(Kind::kFlow, InCluster(members, config)).rules, "f", compat);
}

ToRulesResult ParamOf(std::string_view members, std::string_view config = R"("thresholdType":1)") {
  return Convert(Kind::kParamFlow, InCluster(R"("paramIdx":0,)" + std::string(members), config));
}

// The only rule, which FlowGuard takes.
Rule Good(const ToRulesResult& made) {
  const auto table = rules::Compile(made.rules, {.cluster_allowed = true});
  EXPECT_TRUE(table.ok()) << table.error().message;
  return OnlyRule(made);
}

// --- flow rules

TEST(ClusterRulesTest, AFlowRuleIsCountedAtATokenServer) {
  const ToRulesResult made = FlowOf(R"("count":50)");
  const Rule rule = Good(made);
  EXPECT_EQ(rule.kind, RuleKind::kLimit);
  EXPECT_EQ(rule.scope, Scope::kCluster);
  EXPECT_EQ(rule.cluster, (ClusterCount{.flow_id = 7}));
  EXPECT_EQ(rule.rate, (Rate{50, seconds(1)}));
  EXPECT_EQ(rule.algorithm, Algorithm::kSlidingLog);
  EXPECT_EQ(rule.borrow, milliseconds(100)) << "a tenth of the window, as sampleCount says";
  EXPECT_EQ(rule.on_store_failure, StoreFailurePolicy::kLocal);
  EXPECT_EQ(Told(made.differences, "clusterMode"), "") << "both sides count there";
  EXPECT_EQ(Told(made.differences, "clusterConfig.thresholdType"), "");
  EXPECT_EQ(Told(made.differences, "clusterConfig.windowIntervalMs"), "");
  EXPECT_NE(Told(made.differences, "clusterConfig.fallbackToLocalWhenFail"), "");
  EXPECT_NE(Told(made.differences, "count"), "");
}

TEST(ClusterRulesTest, ThresholdTypeZeroCountsForEachClient) {
  EXPECT_TRUE(Good(FlowOf(R"("count":50)", R"("thresholdType":0)")).cluster.per_client);
  EXPECT_TRUE(Good(FlowOf(R"("count":50)", R"("sampleCount":10)")).cluster.per_client);
  const ToRulesResult made = FlowOf(R"("count":2.5)", R"("thresholdType":0)");
  EXPECT_EQ(Good(made).rate.limit, 2);
  EXPECT_NE(Told(made.differences, "count").find("multiplies the fraction too"), std::string::npos);
}

TEST(ClusterRulesTest, WithoutAFallbackCallsPass) {
  const ToRulesResult made =
      FlowOf(R"("count":5)", R"("thresholdType":1,"fallbackToLocalWhenFail":false)");
  EXPECT_EQ(Good(made).on_store_failure, StoreFailurePolicy::kOpen);
  EXPECT_EQ(Told(made.differences, "clusterConfig.fallbackToLocalWhenFail"), "");
}

TEST(ClusterRulesTest, TheCountIsOfTheSecondsOfTheWindow) {
  const ToRulesResult made =
      FlowOf(R"("count":50)", R"("thresholdType":1,"windowIntervalMs":2000,"sampleCount":4)");
  EXPECT_EQ(Good(made).rate, (Rate{100, seconds(2)}));
  EXPECT_EQ(OnlyRule(made).borrow, milliseconds(500));
  EXPECT_EQ(Told(made.differences, "clusterConfig.windowIntervalMs"),
            "compares the mean of the window with the count, a call more at its end; admits the "
            "count times the seconds of the window in it");
  EXPECT_EQ(Good(FlowOf(R"("count":1)", R"("windowIntervalMs":10,"sampleCount":1)")).rate,
            (Rate{1, milliseconds(10)}));
}

// A greedy client gets 200 of 201 parts of a count that is too large for a log.
TEST(ClusterRulesTest, LargeCountsAreCountedInParts) {
  EXPECT_EQ(Good(FlowOf(R"("count":1000)")).algorithm, Algorithm::kSlidingLog);
  const Rule large = Good(FlowOf(R"("count":1001)"));
  EXPECT_EQ(large.algorithm, Algorithm::kSlidingBuckets);
  EXPECT_EQ(large.buckets, 200);
  // Times ten thousand clients it is more than a log holds.
  EXPECT_EQ(Good(FlowOf(R"("count":10)", R"("thresholdType":0)")).algorithm,
            Algorithm::kSlidingLog);
  EXPECT_EQ(Good(FlowOf(R"("count":11)", R"("thresholdType":0)")).algorithm,
            Algorithm::kSlidingBuckets);
}

TEST(ClusterRulesTest, WhatIsBeyondACountIsTold) {
  const ToRulesResult made = FlowOf(
      R"("count":1e18)", R"("thresholdType":1,"windowIntervalMs":2147483640,"sampleCount":1)");
  EXPECT_EQ(Good(made).rate.limit, 4'294'967'295);
  EXPECT_EQ(OnlyRule(made).borrow, hours(1));
  EXPECT_NE(Told(made.differences, "count").find("4294967295 at most"), std::string::npos);
}

// The server knows the rule, and refuses: without it clients would be let pass.
TEST(ClusterRulesTest, ACountOfNoneIsKnownToTheServer) {
  const Rule rule = Good(FlowOf(R"("count":0.5)"));
  EXPECT_EQ(rule.scope, Scope::kCluster);
  EXPECT_EQ(rule.rate.limit, 0);
  EXPECT_EQ(rules::FlowIdOf(rule), 7);
  EXPECT_EQ(Good(FlowOf(R"("count":0,"grade":0)")).rate.limit, 0);
  EXPECT_EQ(Good(ParamOf(R"("count":0)")).scope, Scope::kCluster);
}

TEST(ClusterRulesTest, WhatATokenServerDoesNotLookAtIsTold) {
  const ToRulesResult made =
      FlowOf(R"("count":5,"limitApp":"a","strategy":2,"refResource":"web","controlBehavior":2)");
  EXPECT_TRUE(Good(made).on.only.empty());
  EXPECT_NE(Told(made.differences, "clusterMode").find("by the second, at all times"),
            std::string::npos);
}

// --- grade 0

TEST(ClusterRulesTest, ConcurrencyIsHeldByTokens) {
  const ToRulesResult made =
      FlowOf(R"("count":5,"grade":0)", R"("thresholdType":0,"resourceTimeout":1500)");
  const Rule rule = Good(made);
  EXPECT_EQ(rule.kind, RuleKind::kConcurrency);
  EXPECT_EQ(rule.concurrency, 5);
  EXPECT_EQ(rule.scope, Scope::kCluster);
  EXPECT_EQ(rule.cluster,
            (ClusterCount{.flow_id = 7, .per_client = true, .token_ttl = milliseconds(1500)}));
  EXPECT_EQ(rule.borrow, Duration{});
  EXPECT_NE(Told(made.differences, "grade").find("whatever grade says; asks it for a token"),
            std::string::npos);
  EXPECT_NE(Told(made.differences, "clusterConfig.resourceTimeout").find("twice this time"),
            std::string::npos);
  EXPECT_EQ(Told(made.differences, "clusterMode"), "");
}

TEST(ClusterRulesTest, ATokenIsFreeAfterAnHourAtLast) {
  const ToRulesResult made =
      FlowOf(R"("count":5,"grade":0)", R"("resourceTimeout":9000000000000000000)");
  EXPECT_EQ(Good(made).cluster.token_ttl, hours(1));
  EXPECT_NE(Told(made.differences, "clusterConfig.resourceTimeout").find("an hour at most"),
            std::string::npos);
}

// Sentinel's token server does not look at the grade.
TEST(ClusterRulesTest, WhoCountsAsSentinelIgnoresTheGrade) {
  const ToRulesResult made =
      FlowOf(R"("count":5,"grade":0)", R"("thresholdType":1)", Compat::kSentinel);
  EXPECT_EQ(Good(made).kind, RuleKind::kLimit);
  EXPECT_EQ(OnlyRule(made).rate, (Rate{5, seconds(1)}));
  EXPECT_NE(Told(made.differences, "clusterMode").find("whatever grade"), std::string::npos);
}

// --- param-flow rules

TEST(ClusterRulesTest, AHotParameterIsCountedAtATokenServer) {
  const ToRulesResult made =
      ParamOf(R"("count":5)", R"("thresholdType":1,"windowIntervalMs":2000)");
  const Rule rule = Good(made);
  EXPECT_EQ(rule.scope, Scope::kCluster);
  EXPECT_EQ(rule.cluster, (ClusterCount{.flow_id = 7}));
  EXPECT_EQ(rule.by, Names{"arg0"});
  EXPECT_EQ(rule.rate, (Rate{10, seconds(2)}));
  EXPECT_EQ(rule.algorithm, Algorithm::kSlidingLog);
  EXPECT_EQ(rule.borrow, Duration{});
  EXPECT_EQ(rule.on_store_failure, StoreFailurePolicy::kOpen);
  EXPECT_EQ(Told(made.differences, "clusterMode"), "");
  EXPECT_TRUE(Good(ParamOf(R"("count":5)", R"("sampleCount":1)")).cluster.per_client);
}

TEST(ClusterRulesTest, AHotParameterIsCountedByTheSecondWhateverElseItSays) {
  const ToRulesResult made = ParamOf(
      R"("count":5,"durationInSec":60,"burstCount":3,"controlBehavior":2,"maxQueueingTimeMs":500)");
  const Rule rule = Good(made);
  EXPECT_EQ(rule.rate, (Rate{5, seconds(1)}));
  EXPECT_EQ(rule.burst, std::nullopt);
  EXPECT_EQ(rule.wait, Duration{});
  EXPECT_NE(Told(made.differences, "clusterMode").find("whatever durationInSec"),
            std::string::npos);
}

// Sentinel does not ask its server of these.
TEST(ClusterRulesTest, ConcurrencyOfAHotParameterIsLocal) {
  const Rule rule = Good(ParamOf(R"("count":5,"grade":0)"));
  EXPECT_EQ(rule.kind, RuleKind::kConcurrency);
  EXPECT_EQ(rule.scope, Scope::kLocal);
}

TEST(ClusterRulesTest, ItemsKeepTheirClass) {
  const ToRulesResult made = ParamOf(R"("count":5,"paramFlowItemList":[
      {"object":"+07","count":1,"classType":"int"},
      {"object":"vip","count":9,"classType":"java.lang.String"},
      {"object":"7","count":2,"classType":"java.lang.Long"},
      {"object":"2.50","count":3,"classType":"double"},
      {"object":"0.10000000149011612","count":4,"classType":"float"},
      {"object":"TRUE","count":6,"classType":"boolean"},
      {"object":"7","count":0,"classType":""},
      {"object":"x","count":8,"classType":"char"},
      {"object":"7","count":3,"classType":"int"}])",
                                     R"("thresholdType":1,"windowIntervalMs":2000)");
  const auto one = [](std::string value, int64_t limit, ValueType type) {
    return Override{std::move(value), {limit, seconds(2)}, {}, type};
  };
  // Sorted by text; of the two for the int the last one counts.
  EXPECT_EQ(
      Good(made).overrides,
      (std::vector<Override>{one("0.1", 8, ValueType::kFloat), one("2.5", 6, ValueType::kDouble),
                             one("7", 6, ValueType::kInt), one("7", 4, ValueType::kLong),
                             one("7", 0, ValueType::kString), one("true", 12, ValueType::kBool),
                             one("vip", 18, ValueType::kString)}));
  EXPECT_NE(Told(made.differences, "paramFlowItemList[7].object").find("no value of class char"),
            std::string::npos);
  EXPECT_NE(Told(made.differences, "paramFlowItemList").find("tells it texts"), std::string::npos);
  EXPECT_EQ(Told(ParamOf(R"("count":5,"paramFlowItemList":[
      {"object":"vip","count":9,"classType":""}])")
                     .differences,
                 "paramFlowItemList"),
            "");
}

TEST(ClusterRulesTest, ItemsThatCannotBeNamedAreLeftAway) {
  const ToRulesResult made =
      ParamOf(R"("count":5,"paramFlowItemList":[{"object":"","count":1,"classType":""},
      {"object":")" +
              std::string(124, 'x') + R"(","count":1,"classType":""}])");
  EXPECT_TRUE(Good(made).overrides.empty());
  EXPECT_NE(Told(made.differences, "paramFlowItemList[0].object"), "");
  EXPECT_NE(Told(made.differences, "paramFlowItemList[1].object").find("1 to 123 bytes"),
            std::string::npos);
}

TEST(ClusterRulesTest, AnItemAboveALogIsCountedInParts) {
  const Rule rule = Good(ParamOf(R"("count":5,"paramFlowItemList":[
      {"object":"vip","count":2147483647,"classType":""}])"));
  EXPECT_EQ(rule.algorithm, Algorithm::kSlidingBuckets);
  EXPECT_EQ(rule.overrides[0].rate.limit, 1'000'000'000) << "a billion a second at most";
}

// Sentinel's dashboard numbers both kinds from 1.
TEST(ClusterRulesTest, AFlowAndAParamFlowRuleMayShareAFlowId) {
  const std::vector<RuleFile> files = {
      FileOf(Kind::kFlow, InCluster(R"("count":5)", R"("thresholdType":1)")),
      FileOf(Kind::kParamFlow, InCluster(R"("paramIdx":0,"count":5)", R"("thresholdType":1)"))};
  const auto table = rules::Compile(ToRules(files).rules, {.cluster_allowed = true});
  EXPECT_TRUE(table.ok()) << table.error().message;
}

TEST(ClusterRulesTest, TwoFlowRulesWithOneFlowIdAreAnError) {
  const ToRulesResult made = Convert(Kind::kFlow, R"([
      {"resource":"a","count":5,"clusterMode":true,"clusterConfig":{"flowId":7}},
      {"resource":"b","count":5,"clusterMode":true,"clusterConfig":{"flowId":7}}])");
  const auto table = rules::Compile(made.rules, {.cluster_allowed = true});
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().message,
            "f:3:7: rule \"flow/b\": flow_id: found 7 twice for a limit without by; the other is "
            "f:2:7: rule \"flow/a\". Give one of them another");
}

// --- back

FromRulesResult Back(const Rule& rule) {
  RuleSet set;
  set.rules = {rule};
  return FromRules(set);
}

// The only rule; Sentinel takes it.
template <typename One>
One Only(const FromRulesResult& made) {
  EXPECT_EQ(made.lists.size(), 1u);
  if (made.lists.size() != 1) return {};
  const auto* list = std::get_if<std::vector<Listed<One>>>(&made.lists[0]);
  EXPECT_NE(list, nullptr);
  if (list == nullptr) return {};
  EXPECT_EQ(list->size(), 1u);
  EXPECT_TRUE(ReasonsAgainst((*list)[0].rule).empty());
  return (*list)[0].rule;
}

void ExpectLeftOut(const Rule& rule, std::string_view field) {
  const FromRulesResult made = Back(rule);
  EXPECT_TRUE(made.lists.empty());
  EXPECT_EQ(Told(made.differences, field).substr(0, 10), "left out: ") << field;
}

Rule Cluster(int64_t limit, Duration window = seconds(1)) {
  Rule rule;
  rule.name = "orders";
  rule.on.resource = "r";
  rule.rate = {limit, window};
  rule.algorithm = Algorithm::kSlidingLog;
  rule.scope = Scope::kCluster;
  return rule;
}

TEST(FromClusterTest, WhatCameFromSentinelGoesBackAsItWas) {
  struct From {
    Kind kind;
    std::string members;
    std::string config;
  };
  for (const From& from : std::vector<From>{
           {Kind::kFlow, R"("count":50)", R"("thresholdType":1)"},
           {Kind::kFlow, R"("count":50)",
            R"("thresholdType":0,"windowIntervalMs":3000,"sampleCount":3)"},
           {Kind::kFlow, R"("count":5000)",
            R"("thresholdType":1,"fallbackToLocalWhenFail":false,"sampleCount":1)"},
           {Kind::kFlow, R"("count":5,"grade":0)", R"("thresholdType":0,"resourceTimeout":1500)"},
           {Kind::kFlow, R"("count":0)", R"("thresholdType":1)"},
           {Kind::kParamFlow, R"("paramIdx":1,"count":50)",
            R"("thresholdType":1,"windowIntervalMs":2000,"fallbackToLocalWhenFail":true)"},
           {Kind::kParamFlow, R"("paramIdx":0,"count":5,"paramFlowItemList":[
             {"object":"7","count":1,"classType":"int"},{"object":"7","count":2,"classType":"long"},
             {"object":"7","count":3,"classType":"byte"},
             {"object":"7","count":4,"classType":"double"},
             {"object":"7","count":5,"classType":"float"},
             {"object":"7","count":6,"classType":"short"},
             {"object":"true","count":7,"classType":"boolean"},
             {"object":"vip","count":8,"classType":"java.lang.String"}])",
            R"("thresholdType":0)"}}) {
    const RuleFile file = FileOf(from.kind, InCluster(from.members, from.config));
    const FromRulesResult made = FromRules(ToRules(file.rules, "f").rules);
    ASSERT_EQ(made.lists.size(), 1u) << from.members;
    EXPECT_EQ(WriteRules(made.lists[0]), WriteRules(file.rules));
  }
}

TEST(FromClusterTest, ANameIsANumberThere) {
  const FromRulesResult made = Back(Cluster(5));
  const FlowRule flow = Only<FlowRule>(made);
  EXPECT_TRUE(flow.cluster_mode);
  EXPECT_EQ(flow.cluster_config->flow_id, rules::FlowIdOf(Cluster(5)));
  EXPECT_EQ(flow.cluster_config->threshold_type, 1);
  EXPECT_NE(Told(made.differences, "flow_id"), "");
  EXPECT_NE(Told(made.differences, "borrow"), "");
  EXPECT_EQ(Told(made.differences, "scope"), "");
  Rule numbered = Cluster(5);
  numbered.cluster.flow_id = 9;
  EXPECT_EQ(Told(Back(numbered).differences, "flow_id"), "");
}

TEST(FromClusterTest, WindowsAndLoansOfPartsOfIt) {
  Rule rule = Cluster(5, milliseconds(1'501));
  rule.borrow = milliseconds(100);
  const FromRulesResult made = Back(rule);
  const FlowRule flow = Only<FlowRule>(made);
  EXPECT_EQ(flow.cluster_config->window_interval_ms, 1'501);
  EXPECT_EQ(flow.cluster_config->sample_count, 1) << "ten do not divide it";
  EXPECT_DOUBLE_EQ(flow.count, 5 / 1.501);
  EXPECT_NE(Told(made.differences, "limit").find("compares the mean"), std::string::npos);
  EXPECT_NE(Told(made.differences, "borrow").find("for another time"), std::string::npos);
  ExpectLeftOut(Cluster(5, std::chrono::microseconds(1'500)), "limit");
  ExpectLeftOut(Cluster(5, hours(24 * 30)), "limit");
}

TEST(FromClusterTest, WhatATokenServerDoesNotHaveIsTold) {
  Rule rule = Cluster(5);
  rule.algorithm = Algorithm::kTokenBucket;
  rule.burst = 9;
  rule.on_store_failure = StoreFailurePolicy::kClosed;
  const FromRulesResult made = Back(rule);
  EXPECT_FALSE(Only<FlowRule>(made).cluster_config->fallback_to_local_when_fail);
  EXPECT_NE(Told(made.differences, "algorithm"), "");
  EXPECT_NE(Told(made.differences, "limit").find("no burst"), std::string::npos);
  EXPECT_NE(Told(made.differences, "on_store_failure").find("refuses them"), std::string::npos);
}

TEST(FromClusterTest, ValuesOfAnyTypeAreTexts) {
  Rule rule = Cluster(5);
  rule.by = {"arg0"};
  rule.overrides = {{"7", {9, seconds(1)}, {}}, {"8", {9, seconds(2)}, {}, ValueType::kInt}};
  const FromRulesResult made = Back(rule);
  const ParamFlowRule param = Only<ParamFlowRule>(made);
  EXPECT_EQ(param.param_flow_item_list,
            (std::vector<ParamFlowItem>{{"java.lang.String", 9, "7"}, {"int", 4, "8"}}));
  const std::string told = Told(made.differences, "overrides");
  EXPECT_NE(told.find("compares values of every type by their text"), std::string::npos);
  EXPECT_NE(told.find("has one window for all values; has another for \"8\""), std::string::npos);
  EXPECT_NE(told.find("has whole counts of a second"), std::string::npos);
}

TEST(FromClusterTest, WhatATokenServerCannotSayIsLeftOut) {
  Rule rule = Cluster(5);
  rule.by = {"origin"};
  ExpectLeftOut(rule, "by");

  rule = Cluster(5);
  rule.on.only = {{"origin", {"app1"}}};
  ExpectLeftOut(rule, "on.only");

  rule = Cluster(5);
  rule.on.resource = "order:*";
  ExpectLeftOut(rule, "by");
  rule.by = {"resource"};
  ExpectLeftOut(rule, "by");
  rule.by = {"arg0", "resource"};
  ExpectLeftOut(rule, "by");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
