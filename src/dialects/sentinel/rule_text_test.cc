// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/rule_text.h"

#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::dialects::sentinel {
namespace {

TEST(RuleTextTest, AListAtTheTopIsSentinels) {
  EXPECT_TRUE(IsRuleList("[]"));
  EXPECT_TRUE(IsRuleList(" \n\t[{}]"));
  EXPECT_TRUE(IsRuleList("\xEF\xBB\xBF[]"));
  EXPECT_TRUE(IsRuleList("// rules\n/* of [ours] */ [\n]"));
  EXPECT_FALSE(IsRuleList(""));
  EXPECT_FALSE(IsRuleList("// ["));
  EXPECT_FALSE(IsRuleList("/* ["));
  EXPECT_FALSE(IsRuleList("/ ["));
  EXPECT_FALSE(IsRuleList("rules: []"));
  EXPECT_FALSE(IsRuleList("{\"rules\": []}"));
  EXPECT_FALSE(IsRuleList("# [\nrules: []"));
}

TEST(RuleTextTest, SentinelsFileIsARuleFile) {
  const auto parsed =
      ParseRules("[{\"resource\":\"/orders\",\"count\":3,\"cuont\":1}]", "flow-rules.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->rules.rules.size(), 1u);
  EXPECT_EQ(parsed->rules.rules[0].on.route, "/orders");
  EXPECT_EQ(parsed->rules.rules[0].origin, "flow-rules.json:1:2");
  ASSERT_EQ(parsed->warnings.size(), 3u);
  EXPECT_NE(parsed->warnings[0].find("cuont"), std::string::npos);
  EXPECT_NE(parsed->warnings[1].find("flow rule #1: resource: Sentinel "), std::string::npos);
}

TEST(RuleTextTest, FaultsAreSentinels) {
  const auto parsed = ParseRules("[{\"resource\":\"r\",\"count\":-1}]", "flow-rules.json");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message,
            "flow-rules.json:1:26: flow rule #1: count: found -1.0; allowed: 0 or more");
}

TEST(RuleTextTest, OfManyDifferencesTheRestIsCounted) {
  std::string json = "[";
  constexpr size_t kRules = base::kTextFaultsMax + 20;
  for (size_t i = 0; i < kRules; ++i) {
    json += std::string(i > 0 ? "," : "") + R"({"resource":"r)" + std::to_string(i) +
            R"(","count":0.5})";
  }
  const auto parsed = ParseRules(json + "]", "flow-rules.json");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->warnings.size(), base::kTextFaultsMax + 1);
  EXPECT_NE(parsed->warnings.back().find("and 20 more differences"), std::string::npos);
}

TEST(RuleTextTest, RulesThatAreLeftOutComeFirstAndAreAllTold) {
  std::string json = "[";
  constexpr size_t kRules = base::kTextFaultsMax + 20;
  for (size_t i = 0; i < kRules; ++i)
    json += R"({"resource":"a","count":0.5,"maxQueueingTimeMs":)" + std::to_string(i + 1) + "},";
  for (size_t i = 0; i < kRules; ++i) {
    json += std::string(i > 0 ? "," : "") + R"({"resource":"r","count":5,"grade":0,"strategy":1,)" +
            R"("warmUpPeriodSec":)" + std::to_string(i + 1) + "}";
  }
  const auto parsed = ParseRules(json + "]", "flow-rules.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->warnings.size(), kRules + 1);
  for (size_t i = 0; i < kRules; ++i)
    EXPECT_NE(parsed->warnings[i].find("the rule is left out"), std::string::npos);
  EXPECT_NE(parsed->warnings.back().find("and 120 more differences"), std::string::npos)
      << parsed->warnings.back();
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
