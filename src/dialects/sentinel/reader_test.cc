// SPDX-License-Identifier: Apache-2.0
//
// How lists are read: leniency, both forms, what is rejected whole and what one by one.
#include "dialects/sentinel/reader.h"

#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "dialects/sentinel/reading_test.h"

namespace flowguard::dialects::sentinel {
namespace {

TEST(ReadRulesTest, AMissingMemberHasJavasDefault) {
  EXPECT_EQ(OneRule<FlowRule>(Kind::kFlow, "[{resource:'r'}]"), [] {
    FlowRule rule;
    rule.resource = "r";
    return rule;
  }());
  EXPECT_EQ(FlowRule().grade, 1);
  EXPECT_EQ(FlowRule().max_queueing_time_ms, 500);
  EXPECT_EQ(FlowRule().warm_up_period_sec, 10);
  EXPECT_EQ(ParamFlowRule().max_queueing_time_ms, 0);
  EXPECT_TRUE(ClusterFlowConfig().fallback_to_local_when_fail);
  EXPECT_FALSE(ParamFlowClusterConfig().fallback_to_local_when_fail);
}

TEST(ReadRulesTest, UnknownMembersAreIgnoredAtEveryLevel) {
  EXPECT_EQ(WarningsOf(Kind::kFlow,
                       "[{resource:'r',comment:{a:[1,{b:2}]},clusterConfig:{flowId:1,note:'x'},"
                       "'@type':'com.example.Rule'}]"),
            "");
}

TEST(ReadRulesTest, AMisspeltMemberIsGuessedAt) {
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{resource:'r',\n controlBehaviour:2,cuont:5}]"),
            "f:2:2: flow rule #1: unknown member \"controlBehaviour\" is ignored, as Sentinel "
            "does; did you mean \"controlBehavior\"?\n"
            "f:2:21: flow rule #1: unknown member \"cuont\" is ignored, as Sentinel does; did you "
            "mean \"count\"?");
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{resource:'r',clusterConfig:{flowid_:1,flwId:2}}]"),
            "f:1:41: flow rule #1: unknown member \"clusterConfig.flwId\" is ignored, as Sentinel "
            "does; did you mean \"flowId\"?");
}

// The same thing has two names in two kinds of rules.
TEST(ReadRulesTest, TheNameOfAnotherKindIsTold) {
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{resource:'r',maxQueueingTimeoutMs:5}]"),
            "f:1:16: flow rule #1: unknown member \"maxQueueingTimeoutMs\" is ignored, as "
            "Sentinel does; did you mean \"maxQueueingTimeMs\"?");
  EXPECT_EQ(WarningsOf(Kind::kGatewayFlow, "[{resource:'r',max_queueing_time_ms:5}]"),
            "f:1:16: gateway-flow rule #1: unknown member \"max_queueing_time_ms\" is ignored, as "
            "Sentinel does; did you mean \"maxQueueingTimeoutMs\"?");
  EXPECT_EQ(WarningsOf(Kind::kGatewayFlow, "[{resource:'r',burstCount:5}]"),
            "f:1:16: gateway-flow rule #1: unknown member \"burstCount\" is ignored, as Sentinel "
            "does; did you mean \"burst\"?");
}

TEST(ReadRulesTest, NamesAreMatchedSmartly) {
  EXPECT_EQ(Flow("Count:5").count, 5);
  EXPECT_EQ(Flow("c_o_u_n_t:5").count, 5);
  EXPECT_EQ(Flow("max_queueing_time_ms:7").max_queueing_time_ms, 7);
  EXPECT_EQ(Flow("maxQueueingTimeMS:8").max_queueing_time_ms, 8);
  EXPECT_EQ(Flow("'control-behavior':2").control_behavior, 2);
  EXPECT_EQ(Flow("warmupperiodsec:3").warm_up_period_sec, 3);
  EXPECT_EQ(Flow("ClusterConfig:{flow_id:5}").cluster_config->flow_id, 5);
  EXPECT_EQ(OneRule<FlowRule>(Kind::kFlow, "[{Resource:'r'}]").resource, "r");
  EXPECT_TRUE(Flow("isRegex:true").regex);
  EXPECT_TRUE(Flow("is_regex:true").regex);
  EXPECT_FALSE(Flow("IsRegex:true").regex);
  EXPECT_EQ(Flow("isCount:5").count, 0);
}

TEST(ReadRulesTest, NullLeavesDefaultsAndClearsTexts) {
  const FlowRule rule =
      Flow("count:null,grade:null,strategy:null,limitApp:null,clusterConfig:null,id:null");
  FlowRule expected;
  expected.resource = "r";
  EXPECT_EQ(rule, expected);
  EXPECT_EQ(rule.limit_app, "default");
}

TEST(ReadRulesTest, ABlankLimitAppOfAFlowRuleIsDefault) {
  EXPECT_EQ(Flow("limitApp:''").limit_app, "default");
  EXPECT_EQ(Flow("limitApp:' '").limit_app, "default");
  EXPECT_EQ(Flow("limitApp:'a,b'").limit_app, "a,b");
}

TEST(ReadRulesTest, ABadValueRejectsTheWholeListInBothProfiles) {
  const std::string json = "[{resource:'a',count:1},\n {resource:'b',count:'abc'}]";
  for (const Profile profile : {Profile::kDefault, Profile::kCompat}) {
    EXPECT_EQ(ErrorOf(Kind::kFlow, json, profile),
              "f:2:22: flow rule #2: count: found \"abc\"; a number is allowed");
  }
}

TEST(ReadRulesTest, AllFaultsAreToldAtOnce) {
  EXPECT_EQ(ErrorOf(Kind::kFlow, "[{resource:'a',count:'x',grade:'y'},\n{count:-1},\n5]"),
            "f:1:22: flow rule #1: count: found \"x\"; a number is allowed\n"
            "f:1:32: flow rule #1: grade: found \"y\"; a whole number is allowed\n"
            "f:2:1: flow rule #2: resource: found nothing; a text is needed\n"
            "f:2:8: flow rule #2: count: found -1.0; allowed: 0 or more\n"
            "f:3:1: flow rule #3: found \"5\"; a map is allowed");
}

TEST(ReadRulesTest, WhatIsNoListIsRejected) {
  for (const Profile profile : {Profile::kDefault, Profile::kCompat}) {
    EXPECT_EQ(ErrorOf(Kind::kFlow, "{resource:'r'}", profile),
              "f:1:1: found a map; a list of rules is allowed: [{...}]");
    EXPECT_EQ(ErrorOf(Kind::kFlow, "5", profile),
              "f:1:1: found \"5\"; a list of rules is allowed: [{...}]");
    EXPECT_EQ(ErrorOf(Kind::kFlow, "[{resource:'r'}", profile),
              "f:1:16: not JSON: the text ends here; a comma or ] is allowed");
  }
}

TEST(ReadRulesTest, AnEmptyListHasNoRules) {
  EXPECT_EQ(RulesOf(Kind::kFlow, "[]"), "[]");
  EXPECT_EQ(RulesOf(Kind::kApiDefinition, " [ /* none */ ] "), "[]");
}

// Sentinel clears all rules; a file that was cut off should not.
TEST(ReadRulesTest, NothingIsAnErrorUnlessSentinelIsToBeImitated) {
  for (const std::string_view nothing : {"", " \n", "null"}) {
    EXPECT_EQ(ErrorOf(Kind::kFlow, nothing).substr(5),
              ": found nothing; write [] to have no rules");
    EXPECT_EQ(RulesOf(Kind::kFlow, nothing, Profile::kCompat), "[]");
    EXPECT_EQ(WarningsOf(Kind::kFlow, nothing, Profile::kCompat).substr(5),
              ": found nothing; it counts as no rules, as for Sentinel");
  }
}

TEST(ReadRulesTest, SyntaxBeyondJsonIsRead) {
  EXPECT_EQ(RulesOf(Kind::kAuthority, "// who\n[{resource:'r', /* all */ \"limitApp\":'a,b',},]"),
            "[{\"limitApp\":\"a,b\",\"regex\":false,\"resource\":\"r\",\"strategy\":0}]");
}

constexpr std::string_view kInvalid =
    "[{resource:'a'},\n {resource:'',count:1},\n null,\n {resource:'b',count:-1}]";

TEST(ReadRulesTest, AnInvalidRuleIsAnErrorByIndexAndPlace) {
  EXPECT_EQ(ErrorOf(Kind::kFlow, kInvalid),
            "f:2:12: flow rule #2: resource: found nothing; a text is needed\n"
            "f:3:2: flow rule #3: found nothing; a map is allowed\n"
            "f:4:22: flow rule #4: count: found -1.0; allowed: 0 or more");
}

TEST(ReadRulesTest, OrIsDroppedAloneWithAWarning) {
  const auto read = ReadAs(Kind::kFlow, kInvalid, Profile::kCompat);

  ASSERT_TRUE(read.ok()) << read.error().message;
  const auto& rules = std::get<std::vector<Listed<FlowRule>>>(read->rules);
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].rule.resource, "a");
  ASSERT_EQ(read->warnings.size(), 3u);
  EXPECT_EQ(read->warnings[2],
            "f:4:22: flow rule #4: count: found -1.0; allowed: 0 or more; the rule is dropped, as "
            "Sentinel does");
}

// What fastjson makes null of.
TEST(ReadRulesTest, AnEmptyTextOrListInTheListIsNoRule) {
  EXPECT_EQ(ErrorOf(Kind::kFlow, "['']"), "f:1:2: flow rule #1: found nothing; a map is allowed");
  EXPECT_EQ(RulesOf(Kind::kFlow, "['',[]]", Profile::kCompat), "[]");
  EXPECT_EQ(ErrorOf(Kind::kFlow, "['x']", Profile::kCompat),
            "f:1:2: flow rule #1: found \"x\"; a map is allowed");
}

TEST(ReadRulesTest, RulesKnowTheirPlaceAndIndex) {
  const auto read =
      ReadAs(Kind::kFlow, "[{resource:'a'},\n null,\n  {resource:'b'}]", Profile::kCompat);

  ASSERT_TRUE(read.ok()) << read.error().message;
  const auto& rules = std::get<std::vector<Listed<FlowRule>>>(read->rules);
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[1].index, 2u);
  EXPECT_EQ(rules[1].at, (text::Position{3, 3}));
}

// fastjson takes the first or the last, by the order of the other members.
TEST(ReadRulesTest, AMemberThatStandsTwiceIsAnErrorOrTold) {
  const std::string same = "[{resource:'r',count:5,count:7}]";
  EXPECT_EQ(ErrorOf(Kind::kFlow, same),
            "f:1:16: duplicate key \"count\"; the last one counts, at 1:24");
  EXPECT_EQ(WarningsOf(Kind::kFlow, same, Profile::kCompat),
            "f:1:16: duplicate key \"count\"; the last one counts, at 1:24");
  const std::string smart = "[{resource:'r',count:5,Count:7}]";
  EXPECT_EQ(ErrorOf(Kind::kFlow, smart),
            "f:1:24: flow rule #1: count: stands twice, here as \"Count\"");
  EXPECT_EQ(WarningsOf(Kind::kFlow, smart, Profile::kCompat),
            "f:1:24: flow rule #1: count: stands twice, here as \"Count\"; the last one counts");
  const auto read = ReadAs(Kind::kFlow, smart, Profile::kCompat);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(std::get<std::vector<Listed<FlowRule>>>(read->rules)[0].rule.count, 7);
}

TEST(ReadRulesTest, ReferencesAreRefused) {
  EXPECT_EQ(ErrorOf(Kind::kFlow, "[{resource:'r'},{$ref:'$[0]'}]", Profile::kCompat),
            "f:1:18: flow rule #2: $ref: references to other rules are not followed; write the "
            "rule out");
}

TEST(ReadRulesTest, EqualRulesCountOnce) {
  EXPECT_EQ(RulesOf(Kind::kFlow,
                    "[{id:1,resource:'r',count:5},{resource:'r',count:5.0,limitApp:''},"
                    "{resource:'r',count:6}]"),
            "[{\"clusterMode\":false,\"controlBehavior\":0,\"count\":5.0,\"grade\":1,\"id\":1,"
            "\"limitApp\":\"default\",\"maxQueueingTimeMs\":500,\"regex\":false,\"resource\":\"r\","
            "\"strategy\":0,\"warmUpPeriodSec\":10},"
            "{\"clusterMode\":false,\"controlBehavior\":0,\"count\":6.0,\"grade\":1,"
            "\"limitApp\":\"default\",\"maxQueueingTimeMs\":500,\"regex\":false,\"resource\":\"r\","
            "\"strategy\":0,\"warmUpPeriodSec\":10}]");
  EXPECT_EQ(WarningsOf(Kind::kDegrade,
                       "[{resource:'r',timeWindow:1},\n{resource:'r',timeWindow:1,"
                       "limitApp:'default'}]"),
            "f:2:1: degrade rule #2: repeats an earlier rule, which counts once");
}

TEST(ReadRulesTest, WarningsBeyondTheBoundAreCounted) {
  std::string json = "[";
  for (size_t i = 0; i < base::kTextFaultsMax + 5; ++i)
    json += "null,";
  const auto read = ReadAs(Kind::kFlow, json + "]", Profile::kCompat);

  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->warnings.size(), base::kTextFaultsMax + 1);
  EXPECT_EQ(read->warnings.back(), "f: and 5 more warnings");
}

TEST(ReadRulesTest, RulesAreBounded) {
  std::string json = "[";
  for (size_t i = 0; i <= base::kRulesMax; ++i)
    json += "null,";
  EXPECT_EQ(ErrorOf(Kind::kFlow, json + "]", Profile::kCompat),
            "f:1:1: found 100001 rules; at most 100000 are allowed");
}

// --- the dashboard's form

TEST(EntityTest, FlatEntitiesOfFlowDegradeAndSystemRules) {
  const std::string entity =
      "id:7,app:'shop',ip:'10.0.0.1',port:8719,gmtCreate:1700000000000,gmtModified:null,";
  EXPECT_EQ(OneRule<FlowRule>(Kind::kFlow, "[{" + entity + "resource:'r',count:5}]").count, 5);
  EXPECT_EQ(OneRule<DegradeRule>(Kind::kDegrade, "[{" + entity + "resource:'r',timeWindow:5}]")
                .time_window,
            5);
  EXPECT_EQ(OneRule<SystemRule>(Kind::kSystem, "[{" + entity + "qps:5}]").qps, 5);
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{" + entity + "resource:'r'}]"), "");
}

TEST(EntityTest, NestedEntitiesOfAuthorityAndParamFlowRules) {
  const std::string entity = "[{id:1,app:'shop',ip:'10.0.0.1',port:8719,rule:";
  EXPECT_EQ(
      RulesOf(Kind::kAuthority, entity + "{resource:'r',limitApp:'a',strategy:1},gmtCreate:null}]"),
      "[{\"limitApp\":\"a\",\"regex\":false,\"resource\":\"r\",\"strategy\":1}]");
  const auto rule = OneRule<ParamFlowRule>(
      Kind::kParamFlow, entity + "{resource:'r',paramIdx:2,count:5,paramFlowItemList:[]}}]");
  EXPECT_EQ(rule.param_idx, 2);
  EXPECT_EQ(rule.count, 5);
}

TEST(EntityTest, FaultsOfANestedRuleHaveItsPlace) {
  EXPECT_EQ(ErrorOf(Kind::kParamFlow, "[{id:1,\n rule:{resource:'r'}}]"),
            "f:2:7: param-flow rule #1: paramIdx: found nothing; the index of an argument is "
            "needed");
}

TEST(EntityTest, GatewayIntervalsHaveUnits) {
  const struct {
    std::string_view members;
    int64_t seconds;
  } kCases[] = {
      {"interval:5,intervalUnit:0", 5},
      {"interval:5,intervalUnit:1", 300},
      {"interval:2,intervalUnit:2", 7200},
      {"interval:'1',interval_unit:'3'", 86400},
      {"interval:5", 5},
      {"interval:null,intervalUnit:1", 1},
      {"intervalUnit:1", 1},
      {"intervalSec:7", 7},
  };
  for (const auto& one : kCases) {
    const std::string json = "[{resource:'r'," + std::string(one.members) + "}]";
    EXPECT_EQ(OneRule<GatewayFlowRule>(Kind::kGatewayFlow, json).interval_sec, one.seconds) << json;
  }
  EXPECT_EQ(WarningsOf(Kind::kGatewayFlow, "[{resource:'r',intervalSec:7,interval:5}]"),
            "f:1:39: gateway-flow rule #1: interval: ignored beside intervalSec");
  EXPECT_EQ(ErrorOf(Kind::kGatewayFlow, "[{resource:'r',interval:5,intervalUnit:4}]"),
            "f:1:40: gateway-flow rule #1: intervalUnit: found 4; allowed: 0 seconds, 1 minutes, "
            "2 hours, 3 days");
  EXPECT_EQ(
      ErrorOf(Kind::kGatewayFlow, "[{resource:'r',interval:9223372036854775807,intervalUnit:1}]"),
      "f:1:25: gateway-flow rule #1: interval: found 9223372036854775807; it is too long in "
      "seconds");
  EXPECT_EQ(ErrorOf(Kind::kGatewayFlow, "[{resource:'r',interval:0,intervalUnit:1}]"),
            "f:1:2: gateway-flow rule #1: intervalSec: found 0; allowed: 1 or more");
}

// --- nested values

TEST(ReadRulesTest, NestedValuesAsFastjsonReadsThem) {
  EXPECT_FALSE(Flow("clusterConfig:''").cluster_config);
  EXPECT_FALSE(Flow("clusterConfig:[]").cluster_config);
  EXPECT_TRUE(Flow("clusterConfig:{}").cluster_config);
  EXPECT_EQ(FlowError("clusterConfig:5"),
            "f:1:32: flow rule #1: clusterConfig: found \"5\"; a map is allowed");
  EXPECT_EQ(FlowError("clusterConfig:[1]"),
            "f:1:32: flow rule #1: clusterConfig: found a list; a map is allowed");
  const auto items = [](const std::string& list) {
    return OneRule<ParamFlowRule>(Kind::kParamFlow,
                                  "[{resource:'r',paramIdx:0,paramFlowItemList:" + list + "}]")
        .param_flow_item_list;
  };
  EXPECT_TRUE(items("null").empty());
  EXPECT_TRUE(items("''").empty());
  EXPECT_EQ(items("{object:7,count:1}"), (std::vector<ParamFlowItem>{{"", 1, "7"}}));
  EXPECT_EQ(ErrorOf(Kind::kParamFlow, "[{resource:'r',paramIdx:0,paramFlowItemList:'x'}]"),
            "f:1:45: param-flow rule #1: paramFlowItemList: found \"x\"; a list of maps is "
            "allowed");
  EXPECT_EQ(ErrorOf(Kind::kParamFlow, "[{resource:'r',paramIdx:0,paramFlowItemList:[5]}]"),
            "f:1:46: param-flow rule #1: paramFlowItemList[0]: found \"5\"; a map is allowed");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
