// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/kind.h"

#include <string>

#include <gtest/gtest.h>

#include "dialects/sentinel/reading_test.h"
#include "text/lenient_json.h"

namespace flowguard::dialects::sentinel {
namespace {

TEST(KindOfNameTest, TakesTheLastWordThatNamesAKind) {
  const struct {
    std::string_view file;
    Kind kind;
  } kCases[] = {
      {"flow-rules.json", Kind::kFlow},
      {"flowrule.json", Kind::kFlow},
      {"FlowRules.json", Kind::kFlow},
      {"orders-flow-rules", Kind::kFlow},
      {"/etc/param/order-system-flow-rules.json", Kind::kFlow},
      {"api-flow-rules.json", Kind::kFlow},
      {"cashflow-degrade-rules.json", Kind::kDegrade},
      {"degraderule.json", Kind::kDegrade},
      {"DegradeRule.json", Kind::kDegrade},
      {"system_rules.json", Kind::kSystem},
      {"authority.json", Kind::kAuthority},
      {"param-flow.json", Kind::kParamFlow},
      {"ParamFlowRules.json", Kind::kParamFlow},
      {"orders-param-rules", Kind::kParamFlow},
      {"paramflowrules.json", Kind::kParamFlow},
      {"gateway-flow-rules.json", Kind::kGatewayFlow},
      {"gw-flow.json", Kind::kGatewayFlow},
      {"GatewayFlowRule_2.json", Kind::kGatewayFlow},
      {"gw-api-group.json", Kind::kApiDefinition},
      {"api-definitions.json", Kind::kApiDefinition},
      {"ApiDefinition.json", Kind::kApiDefinition},
  };
  for (const auto& one : kCases)
    EXPECT_EQ(KindOfName(one.file), one.kind) << one.file;
  for (const std::string_view none : {"rules.json", "cashflow.json", "", "-", "sentinel"})
    EXPECT_FALSE(KindOfName(none)) << none;
}

std::string KindsIn(std::string_view json) {
  const auto document = text::ReadLenientJson(json, "f");
  EXPECT_TRUE(document.ok()) << json;
  std::string names;
  for (const Kind kind : KindsOfMembers(document->root))
    names.append(names.empty() ? "" : " ").append(NameOf(kind));
  return names;
}

TEST(KindsOfMembersTest, GoesByTheMembersThatOneKindAloneHas) {
  EXPECT_EQ(KindsIn("[{resource:'r',count:1,strategy:0}]"), "flow");
  EXPECT_EQ(KindsIn("[{resource:'r',limitApp:'a',count:1}]"), "flow");
  EXPECT_EQ(KindsIn("[{resource:'r',count:1,max_queueing_time_ms:5}]"), "flow");
  EXPECT_EQ(KindsIn("[{resource:'r',count:1,grade:0,passCount:0,timeWindow:10}]"), "degrade");
  EXPECT_EQ(KindsIn("[{qps:1}]"), "system");
  EXPECT_EQ(KindsIn("[{resource:'r',limitApp:'a',strategy:1}]"), "authority");
  EXPECT_EQ(KindsIn("[{resource:'r',count:1,paramIdx:0}]"), "param-flow");
  EXPECT_EQ(KindsIn("[{resource:'r',count:1,burst:5}]"), "gateway-flow");
  EXPECT_EQ(KindsIn("[{resource:'r',count:1,interval:5,intervalUnit:0}]"), "gateway-flow");
  EXPECT_EQ(KindsIn("[{apiName:'n'}]"), "api-definition");
  EXPECT_EQ(KindsIn("[{id:1,app:'a',rule:{resource:'r',limitApp:'a',strategy:1}}]"), "authority");
  EXPECT_EQ(KindsIn("[{resource:'r',count:1},{resource:'r',count:1,regex:true}]"), "flow");
  EXPECT_EQ(KindsIn("[{resource:'r',count:1}]"), "flow gateway-flow");
  EXPECT_EQ(KindsIn("[{resource:'r',timeWindow:1,paramIdx:1}]"), "");
  EXPECT_EQ(KindsIn("[]"), "");
}

std::string Detected(std::string_view file, std::string_view json) {
  const auto read = ReadRules(json, file);
  return read.ok() ? std::string(NameOf(KindOf(read->rules))) : read.error().message;
}

constexpr std::string_view kHowToSay =
    "; say the kind, or name the file after it, such as orders-flow-rules.json; kinds: flow, "
    "degrade, system, authority, param-flow, gateway-flow, api-definition";

TEST(DetectKindTest, ByNameElseByMembers) {
  EXPECT_EQ(Detected("flow-rules.json", "[]"), "flow");
  EXPECT_EQ(Detected("flow-rules.json", "[{resource:'r',count:1}]"), "flow");
  EXPECT_EQ(Detected("gateway-flow.json", "[{resource:'r',count:1}]"), "gateway-flow");
  EXPECT_EQ(Detected("rules.json", "[{resource:'r',count:1,regex:false}]"), "flow");
}

TEST(DetectKindTest, UnclearKindsAreToldWithWhatToDo) {
  const std::string how(kHowToSay);
  EXPECT_EQ(Detected("a.json", "[]"),
            "a.json:1:1: the kind of the rules is unclear: the list is empty" + how);
  EXPECT_EQ(Detected("a.json", "[{resource:'r',count:1}]"),
            "a.json:1:1: the kind of the rules is unclear: the members are those of flow and of "
            "gateway-flow" +
                how);
  EXPECT_EQ(Detected("a.json", "[{name:'r'}]"),
            "a.json:1:1: the kind of the rules is unclear: the members fit no kind" + how);
  EXPECT_EQ(
      Detected("flow.json", "[{resource:'r',count:1,paramIdx:0}]"),
      "flow.json:1:1: the name of the file says flow, the members are those of param-flow" + how);
}

// A degrade rule without its timeWindow looks like a flow rule.
TEST(DetectKindTest, ANamedFileWhoseRulesLackAMemberIsToldSo) {
  EXPECT_EQ(Detected("degrade.json", "[{resource:'r',count:1}]"),
            "degrade.json:1:2: degrade rule #1: timeWindow: found 0; allowed: 1 or more, in "
            "seconds");
}

TEST(DetectKindTest, RulesOfSentinelGolangAreToldApart) {
  EXPECT_EQ(Detected("a.json", "[{resource:'r',threshold:10,metricType:1}]"),
            "a.json:1:1: these look like rules of sentinel-golang, whose JSON is another; rules "
            "of Sentinel for Java are read");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
