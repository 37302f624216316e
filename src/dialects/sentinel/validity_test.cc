// SPDX-License-Identifier: Apache-2.0
//
// Which rules Sentinel takes: the checks of its FlowRuleUtil, DegradeRuleManager,
// ParamFlowRuleUtil, AuthorityRuleManager and GatewayRuleManager, case by case.
#include "dialects/sentinel/validity.h"

#include <string>

#include <gtest/gtest.h>

#include "dialects/sentinel/reading_test.h"

namespace flowguard::dialects::sentinel {
namespace {

// "" for a valid rule, else its reasons: "count: found ...".
std::string ReasonsOf(Kind kind, const std::string& members) {
  const std::string error = ErrorOf(kind, "[{" + members + "}]");
  if (error == "ok") return "";
  std::string reasons;
  for (size_t begin = 0; begin < error.size();) {
    const size_t end = std::min(error.find('\n', begin), error.size());
    const std::string line = error.substr(begin, end - begin);
    const size_t heading = line.find(" rule #1: ");
    reasons += (reasons.empty() ? "" : "\n") + line.substr(heading + 10);
    begin = end + 1;
  }
  return reasons;
}

std::string FlowReasons(const std::string& members) {
  return ReasonsOf(Kind::kFlow, "resource:'r'," + members);
}

constexpr std::string_view kFlowId = ",clusterMode:true,clusterConfig:{flowId:1";

TEST(FlowValidityTest, WhatEveryRuleNeeds) {
  EXPECT_EQ(FlowReasons("count:0"), "");
  EXPECT_EQ(FlowReasons("count:-0.5"), "count: found -0.5; allowed: 0 or more");
  EXPECT_EQ(FlowReasons("grade:2"), "grade: found 2; allowed: 0 to 1");
  EXPECT_EQ(FlowReasons("grade:-1"), "grade: found -1; allowed: 0 to 1");
  EXPECT_EQ(FlowReasons("strategy:-1"), "strategy: found -1; allowed: 0 or more");
  EXPECT_EQ(FlowReasons("controlBehavior:-1"), "controlBehavior: found -1; allowed: 0 or more");
  EXPECT_EQ(ReasonsOf(Kind::kFlow, "count:1"), "resource: found nothing; a text is needed");
  EXPECT_EQ(ReasonsOf(Kind::kFlow, "resource:null"), "resource: found nothing; a text is needed");
  EXPECT_EQ(ReasonsOf(Kind::kFlow, "resource:' \\t'"), "resource: found \"  \"; a text is needed");
}

TEST(FlowValidityTest, BehavioursNeedTheirTimes) {
  EXPECT_EQ(FlowReasons("controlBehavior:1"), "");
  EXPECT_EQ(FlowReasons("controlBehavior:2"), "");
  EXPECT_EQ(FlowReasons("controlBehavior:3"), "");
  EXPECT_EQ(FlowReasons("controlBehavior:2,maxQueueingTimeMs:0"),
            "maxQueueingTimeMs: found 0; allowed: 1 or more where controlBehavior is 2 or 3");
  EXPECT_EQ(FlowReasons("controlBehavior:1,warmUpPeriodSec:0,maxQueueingTimeMs:0"),
            "warmUpPeriodSec: found 0; allowed: 1 or more where controlBehavior is 1 or 3");
  EXPECT_EQ(FlowReasons("controlBehavior:3,warmUpPeriodSec:-1,maxQueueingTimeMs:0"),
            "warmUpPeriodSec: found -1; allowed: 1 or more where controlBehavior is 1 or 3\n"
            "maxQueueingTimeMs: found 0; allowed: 1 or more where controlBehavior is 2 or 3");
  EXPECT_EQ(FlowReasons("controlBehavior:0,warmUpPeriodSec:0,maxQueueingTimeMs:0"), "");
}

TEST(FlowValidityTest, RelateAndChainNeedWhatTheyReferTo) {
  EXPECT_EQ(FlowReasons("strategy:0"), "");
  EXPECT_EQ(FlowReasons("strategy:1,refResource:'x'"), "");
  for (const std::string strategy : {"1", "2"}) {
    EXPECT_EQ(FlowReasons("strategy:" + strategy),
              "refResource: found nothing; a text is needed where strategy is 1 or 2");
  }
}

// Sentinel 1.8 takes all of these.
TEST(FlowValidityTest, SurprisesAreValidAndTold) {
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{resource:'r',controlBehavior:9}]"),
            "f:1:32: flow rule #1: controlBehavior: found 9; it is not known and counts as 0, "
            "refuse");
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{resource:'r',strategy:9}]"),
            "f:1:25: flow rule #1: strategy: found 9; it is not known, and such a rule never "
            "limits anything; known: 0 direct, 1 relate, 2 chain");
  EXPECT_EQ(
      WarningsOf(Kind::kFlow, "[{resource:'r',grade:0,controlBehavior:2,maxQueueingTimeMs:0}]"),
      "f:1:40: flow rule #1: controlBehavior: found 2; it goes with grade 1, a rule of "
      "concurrency (grade 0) always refuses");
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{resource:'r',grade:0,strategy:1}]"), "");
}

// Its count, rounded, is a divisor: Sentinel fails to load the list, and then takes the same
// list for loaded.
TEST(FlowValidityTest, AQueueOfLessThanHalfARequestASecondIsRefusedByItself) {
  const std::string json = "[{resource:'a',controlBehavior:2,count:0.4},{resource:'b',count:1}]";
  EXPECT_EQ(ErrorOf(Kind::kFlow, json),
            "f:1:40: flow rule #1: count: found 0.4; allowed: 0, and 0.5 or more where "
            "controlBehavior is 2");
  const auto read = ReadAs(Kind::kFlow, json, Profile::kCompat);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(std::get<std::vector<Listed<FlowRule>>>(read->rules).size(), 1u);
  EXPECT_EQ(FlowReasons("controlBehavior:2,count:0.5"), "");
  EXPECT_EQ(FlowReasons("controlBehavior:2,count:0"), "");
  EXPECT_EQ(FlowReasons("controlBehavior:1,count:0.4"), "");
}

TEST(FlowValidityTest, RegexRulesOnlyRefuseInThisProcess) {
  EXPECT_EQ(FlowReasons("regex:true"), "");
  EXPECT_EQ(FlowReasons("regex:true,controlBehavior:1"),
            "controlBehavior: found 1; 0 is needed where regex is true");
  EXPECT_EQ(FlowReasons("regex:true" + std::string(kFlowId) + "}"),
            "clusterMode: found true; false is needed where regex is true");
  EXPECT_EQ(ReasonsOf(Kind::kFlow, "resource:'/a/[bc',regex:true"),
            "resource: found \"/a/[bc\", at its byte 4 a [ without its ]; a regular expression of "
            "Java is needed where regex is true");
  EXPECT_EQ(ReasonsOf(Kind::kFlow, "resource:'/a/[bc'"), "");
}

TEST(FlowValidityTest, ClusterRulesOfQps) {
  const std::string cluster(kFlowId);
  EXPECT_EQ(FlowReasons("count:1" + cluster + "}"), "");
  EXPECT_EQ(FlowReasons("clusterMode:true"),
            "clusterConfig: found nothing; it is needed where clusterMode is true");
  EXPECT_EQ(FlowReasons("clusterMode:true,clusterConfig:{}"),
            "clusterConfig.flowId: found nothing; a whole number above 0 is needed");
  EXPECT_EQ(FlowReasons("clusterMode:true,clusterConfig:{flowId:0}"),
            "clusterConfig.flowId: found 0; allowed: 1 or more");
  EXPECT_EQ(FlowReasons("count:1" + cluster + ",sampleCount:0}"),
            "clusterConfig.sampleCount: found 0; allowed: 1 or more");
  EXPECT_EQ(FlowReasons("count:1" + cluster + ",windowIntervalMs:0}"),
            "clusterConfig.windowIntervalMs: found 0; allowed: 1 or more");
  EXPECT_EQ(FlowReasons("count:1" + cluster + ",sampleCount:3}"),
            "clusterConfig.windowIntervalMs: found 1000; a multiple of sampleCount, 3, is needed");
  EXPECT_EQ(FlowReasons("count:1" + cluster + ",strategy:1}"),
            "clusterConfig.strategy: found 1; allowed: 0 to 0");
  EXPECT_EQ(FlowReasons("count:1" + cluster + ",clientOfflineTime:0,resourceTimeout:0}"), "");
  EXPECT_EQ(FlowReasons("clusterMode:false,clusterConfig:{flowId:0,sampleCount:0}"), "");
}

TEST(FlowValidityTest, ClusterRulesOfConcurrency) {
  const std::string cluster = "grade:0" + std::string(kFlowId);
  EXPECT_EQ(FlowReasons(cluster + "}"), "");
  EXPECT_EQ(FlowReasons(cluster + ",strategy:1}"), "");
  EXPECT_EQ(FlowReasons(cluster + ",clientOfflineTime:0,resourceTimeout:0}"),
            "clusterConfig.clientOfflineTime: found 0; allowed: 1 or more\n"
            "clusterConfig.resourceTimeout: found 0; allowed: 1 or more");
  EXPECT_EQ(FlowReasons(cluster + ",acquireRefuseStrategy:-1,resourceTimeoutStrategy:-1}"),
            "clusterConfig.acquireRefuseStrategy: found -1; allowed: 0 or more\n"
            "clusterConfig.resourceTimeoutStrategy: found -1; allowed: 0 or more");
  EXPECT_EQ(FlowReasons(cluster + ",sampleCount:3}"),
            "clusterConfig.windowIntervalMs: found 1000; a multiple of sampleCount, 3, is needed");
}

std::string DegradeReasons(const std::string& members) {
  return ReasonsOf(Kind::kDegrade, "resource:'r'," + members);
}

TEST(DegradeValidityTest, Cases) {
  EXPECT_EQ(DegradeReasons("timeWindow:1"), "");
  EXPECT_EQ(DegradeReasons("count:1"), "timeWindow: found 0; allowed: 1 or more, in seconds");
  EXPECT_EQ(DegradeReasons("timeWindow:-1"),
            "timeWindow: found -1; allowed: 1 or more, in seconds");
  EXPECT_EQ(DegradeReasons("timeWindow:1,grade:1,count:1.1"),
            "count: found 1.1; allowed: 0 to 1 where grade is 1, a ratio");
  EXPECT_EQ(DegradeReasons("timeWindow:1,grade:1,count:1.0"), "");
  EXPECT_EQ(DegradeReasons("timeWindow:1,grade:1,count:0.0"), "");
  EXPECT_EQ(DegradeReasons("timeWindow:1,grade:2,count:1.1"), "");
  EXPECT_EQ(DegradeReasons("timeWindow:1,count:-3"), "count: found -3.0; allowed: 0 or more");
  EXPECT_EQ(DegradeReasons("timeWindow:1,slowRatioThreshold:15"),
            "slowRatioThreshold: found 15.0; allowed: 0 to 1");
  EXPECT_EQ(DegradeReasons("timeWindow:1,slowRatioThreshold:-0.1"),
            "slowRatioThreshold: found -0.1; allowed: 0 to 1");
  EXPECT_EQ(DegradeReasons("timeWindow:1,grade:1,count:1,slowRatioThreshold:15"), "");
  EXPECT_EQ(DegradeReasons("timeWindow:1,minRequestAmount:0"),
            "minRequestAmount: found 0; allowed: 1 or more");
  EXPECT_EQ(DegradeReasons("timeWindow:1,statIntervalMs:0"),
            "statIntervalMs: found 0; allowed: 1 or more");
  EXPECT_EQ(DegradeReasons("timeWindow:1,grade:3"), "grade: found 3; allowed: 0 to 2");
  EXPECT_EQ(DegradeReasons("timeWindow:1,grade:-1"), "grade: found -1; allowed: 0 to 2");
  EXPECT_EQ(ReasonsOf(Kind::kDegrade, "timeWindow:1,resource:'*',regex:true"),
            "resource: found \"*\", at its byte 1 nothing stands before the *; a regular "
            "expression of Java is needed where regex is true");
  EXPECT_EQ(DegradeReasons("timeWindow:10,passCount:0,rtSlowRequestAmount:5"), "");
}

TEST(SystemValidityTest, AShareOfTheCpuAboveOneIsLeftOutAndTheRuleStays) {
  const std::string json = "[{highestSystemLoad:-0.9,highestCpuUsage:2.7,qps:10}]";
  EXPECT_EQ(ErrorOf(Kind::kSystem, json),
            "f:1:42: system rule #1: highestCpuUsage: found 2.7; allowed: 0 to 1, a share of the "
            "processors, and negative for off");
  EXPECT_EQ(WarningsOf(Kind::kSystem, json, Profile::kCompat),
            "f:1:42: system rule #1: highestCpuUsage: found 2.7; allowed: 0 to 1, a share of the "
            "processors, and negative for off; it is left out, as Sentinel does");
  EXPECT_EQ(RulesOf(Kind::kSystem, json, Profile::kCompat),
            "[{\"avgRt\":-1,\"highestCpuUsage\":-1.0,\"highestSystemLoad\":-0.9,\"maxThread\":-1,"
            "\"qps\":10.0,\"regex\":false}]");
  EXPECT_EQ(ErrorOf(Kind::kSystem, "[{}]"), "ok");
}

TEST(AuthorityValidityTest, Cases) {
  EXPECT_EQ(ReasonsOf(Kind::kAuthority, "resource:'r',limitApp:'a,b'"), "");
  EXPECT_EQ(ReasonsOf(Kind::kAuthority, "resource:'r'"),
            "limitApp: found nothing; a text is needed, origins with commas between them");
  EXPECT_EQ(ReasonsOf(Kind::kAuthority, "limitApp:'a'"),
            "resource: found nothing; a text is needed");
  EXPECT_EQ(ReasonsOf(Kind::kAuthority, "resource:'r',limitApp:'a',strategy:-1"),
            "strategy: found -1; allowed: 0 or more");
  EXPECT_EQ(WarningsOf(Kind::kAuthority, "[{resource:'r',limitApp:'a',strategy:2}]"),
            "f:1:38: authority rule #1: strategy: found 2; it is not known, and such a rule lets "
            "everybody through; known: 0 allow, 1 deny");
  EXPECT_EQ(WarningsOf(Kind::kAuthority, "[{resource:'r',limitApp:'a, b'}]"),
            "f:1:25: authority rule #1: limitApp: found \"a, b\"; spaces belong to the origins, "
            "they are not left out");
}

TEST(AuthorityValidityTest, OneRuleAResource) {
  const std::string json =
      "[{resource:'r',limitApp:'a'},{resource:'s',limitApp:'a'},{resource:'r',limitApp:'b'}]";
  EXPECT_EQ(ErrorOf(Kind::kAuthority, json),
            "f:1:68: authority rule #3: resource: \"r\" has an authority rule already; one is "
            "allowed");
  EXPECT_EQ(WarningsOf(Kind::kAuthority, json, Profile::kCompat),
            "f:1:68: authority rule #3: resource: \"r\" has an authority rule already; one is "
            "allowed; the rule is dropped, as Sentinel does");
}

std::string ParamReasons(const std::string& members) {
  return ReasonsOf(Kind::kParamFlow, "resource:'r',paramIdx:0," + members);
}

TEST(ParamFlowValidityTest, Cases) {
  EXPECT_EQ(ParamReasons("count:1"), "");
  EXPECT_EQ(ReasonsOf(Kind::kParamFlow, "resource:'r',count:1"),
            "paramIdx: found nothing; the index of an argument is needed");
  EXPECT_EQ(ReasonsOf(Kind::kParamFlow, "paramIdx:0"), "resource: found nothing; a text is needed");
  EXPECT_EQ(ParamReasons("count:-1"), "count: found -1.0; allowed: 0 or more");
  EXPECT_EQ(ParamReasons("grade:-1"), "grade: found -1; allowed: 0 or more");
  EXPECT_EQ(ParamReasons("burstCount:-1"), "burstCount: found -1; allowed: 0 or more");
  EXPECT_EQ(ParamReasons("controlBehavior:-1"), "controlBehavior: found -1; allowed: 0 or more");
  EXPECT_EQ(ParamReasons("durationInSec:0"), "durationInSec: found 0; allowed: 1 or more");
  EXPECT_EQ(ParamReasons("maxQueueingTimeMs:-1"),
            "maxQueueingTimeMs: found -1; allowed: 0 or more");
  EXPECT_EQ(ParamReasons("controlBehavior:2"), "");
  EXPECT_EQ(ParamReasons("regex:true,controlBehavior:2"),
            "controlBehavior: found 2; 0 is needed where regex is true");
  EXPECT_EQ(ParamReasons("clusterMode:true"),
            "clusterConfig: found nothing; it is needed where clusterMode is true");
  EXPECT_EQ(ParamReasons("clusterMode:true,clusterConfig:{}"),
            "clusterConfig.flowId: found nothing; a whole number above 0 is needed");
  EXPECT_EQ(ParamReasons("clusterMode:true,clusterConfig:{flowId:5,windowIntervalMs:1001}"),
            "clusterConfig.windowIntervalMs: found 1001; a multiple of sampleCount, 10, is needed");
  EXPECT_EQ(ParamReasons("clusterMode:true,clusterConfig:{flowId:'5'}"), "");
}

// An index below 0 counts from the end; how far, the arguments of the call tell.
TEST(ParamFlowValidityTest, NegativeIndicesAreRead) {
  for (const int32_t index : {-1, -100, 0, 7}) {
    const std::string json = "[{resource:'r',paramIdx:" + std::to_string(index) + "}]";
    EXPECT_EQ(OneRule<ParamFlowRule>(Kind::kParamFlow, json).param_idx, index);
  }
}

TEST(ParamFlowValidityTest, Surprises) {
  EXPECT_EQ(WarningsOf(Kind::kParamFlow, "[{resource:'r',paramIdx:0,limitApp:'a'}]"),
            "f:1:36: param-flow rule #1: limitApp: found \"a\"; a param-flow rule counts for "
            "every origin whatever it says");
  EXPECT_EQ(WarningsOf(Kind::kParamFlow, "[{resource:'r',paramIdx:0,grade:2}]"),
            "f:1:33: param-flow rule #1: grade: found 2; it is not known, and such a rule never "
            "limits anything; known: 0 concurrency, 1 QPS");
  EXPECT_EQ(WarningsOf(Kind::kParamFlow, "[{resource:'r',paramIdx:0,limitApp:'default'}]"), "");
}

std::string GatewayReasons(const std::string& members) {
  return ReasonsOf(Kind::kGatewayFlow, "resource:'r'," + members);
}

TEST(GatewayFlowValidityTest, Cases) {
  EXPECT_EQ(GatewayReasons("count:1"), "");
  EXPECT_EQ(ReasonsOf(Kind::kGatewayFlow, "count:1"), "resource: found nothing; a text is needed");
  for (const std::string member : {"resourceMode", "grade", "burst", "controlBehavior"})
    EXPECT_EQ(GatewayReasons(member + ":-1"), member + ": found -1; allowed: 0 or more");
  EXPECT_EQ(GatewayReasons("count:-1"), "count: found -1.0; allowed: 0 or more");
  EXPECT_EQ(GatewayReasons("intervalSec:0"), "intervalSec: found 0; allowed: 1 or more");
  EXPECT_EQ(GatewayReasons("maxQueueingTimeoutMs:-1"), "");
  EXPECT_EQ(GatewayReasons("controlBehavior:2,maxQueueingTimeoutMs:0"), "");
  EXPECT_EQ(GatewayReasons("controlBehavior:2,maxQueueingTimeoutMs:-1"),
            "maxQueueingTimeoutMs: found -1; allowed: 0 or more");
}

TEST(GatewayFlowValidityTest, ParamItems) {
  EXPECT_EQ(GatewayReasons("paramItem:{parseStrategy:0}"), "");
  EXPECT_EQ(GatewayReasons("paramItem:{parseStrategy:1}"), "");
  for (const std::string strategy : {"2", "3", "4"}) {
    EXPECT_EQ(GatewayReasons("paramItem:{parseStrategy:" + strategy + "}"),
              "paramItem.fieldName: found nothing; a text is needed where parseStrategy is 2, 3 "
              "or 4: the name of a header, parameter or cookie");
    EXPECT_EQ(GatewayReasons("paramItem:{fieldName:'f',parseStrategy:" + strategy + "}"), "");
  }
  EXPECT_EQ(GatewayReasons("paramItem:{parseStrategy:-1}"),
            "paramItem.parseStrategy: found -1; allowed: 0 or more");
  EXPECT_EQ(GatewayReasons("paramItem:{pattern:'p',matchStrategy:-1}"),
            "paramItem.matchStrategy: found -1; allowed: 0 or more");
  EXPECT_EQ(GatewayReasons("paramItem:{matchStrategy:-1}"), "");
  EXPECT_EQ(
      WarningsOf(Kind::kGatewayFlow, "[{resource:'r',paramItem:{pattern:'p',matchStrategy:1}}]"),
      "f:1:53: gateway-flow rule #1: paramItem.matchStrategy: found 1; a prefix is not "
      "implemented by Sentinel for values of parameters");
}

TEST(ApiDefinitionValidityTest, Cases) {
  EXPECT_EQ(ReasonsOf(Kind::kApiDefinition, "apiName:'n',predicateItems:[]"), "");
  EXPECT_EQ(ReasonsOf(Kind::kApiDefinition, "apiName:'n'"),
            "predicateItems: found nothing; a list is needed");
  EXPECT_EQ(ReasonsOf(Kind::kApiDefinition, "predicateItems:[{pattern:'/a'}]"),
            "apiName: found nothing; a text is needed");
  EXPECT_EQ(WarningsOf(Kind::kApiDefinition, "[{apiName:'n',predicateItems:[{matchStrategy:1}]}]"),
            "f:1:31: api-definition rule #1: predicateItems[0].pattern: found nothing; without a "
            "pattern it matches no request");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
