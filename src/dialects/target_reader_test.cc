// SPDX-License-Identifier: Apache-2.0
//
// Conditions, regular expressions and relations in a rule file, and what their mistakes are
// told.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "rules/compile.h"

namespace flowguard {
namespace {

using ::testing::StartsWith;

Rule RuleOf(const std::string& fields) {
  const auto parsed = ParseRules("rules:\n  - {name: r, " + fields + "}\n", "rules.yaml");
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed->rules.rules.at(0) : Rule{};
}

// The fields begin at column 15 of line 2.
std::string ErrorOf(const std::string& fields) {
  const auto parsed = ParseRules("rules:\n  - {name: r, " + fields + "}\n", "rules.yaml");
  return parsed.ok() ? "ok" : parsed.error().message;
}

TEST(TargetReaderTest, ReadsConditions) {
  const Rule rule = RuleOf(
      "limit: 1/s, on: {resource: x, only: {origin: [app1, \"app2*\"], tenant: acme}, "
      "except: {ip: [\"10.0.0.0/8\"]}}");

  const std::vector<ValuesOf> only = {{"origin", {"app1", "app2*"}}, {"tenant", {"acme"}}};
  const std::vector<ValuesOf> except = {{"ip", {"10.0.0.0/8"}}};
  EXPECT_EQ(rule.on.resource, "x");
  EXPECT_EQ(rule.on.only, only);
  EXPECT_EQ(rule.on.except, except);
}

TEST(TargetReaderTest, ReadsRegularExpressionsAndBringsTheirEngine) {
  const auto parsed = ParseRules(
      "rules: [{name: r, limit: 1/s, on: {resource_regex: 'order:\\d+'}}]", "rules.yaml");

  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->rules.rules[0].on.resource_regex, "order:\\d+");
  const auto table = rules::Compile(parsed->rules, {});
  ASSERT_TRUE(table.ok()) << table.error().message;
  rules::MatchSet matches;
  table->matcher.Match("order:12", "", "", matches);
  EXPECT_EQ(matches.size(), 1u);
  table->matcher.Match("order:12a", "", "", matches);
  EXPECT_EQ(matches.size(), 0u);
}

TEST(TargetReaderTest, ReadsRelations) {
  EXPECT_EQ(RuleOf("limit: 1/s, relate_to: \"db:write\"").relate_to, "db:write");
  EXPECT_EQ(RuleOf("concurrency: 3, relate_to: w").relate_to, "w");
}

TEST(TargetReaderTest, FaultsOfConditionsStandAtTheirValue) {
  EXPECT_EQ(ErrorOf("limit: 1/s, on: {only: [a]}"),
            "rules.yaml:2:38: only: found a list; a map is allowed");
  EXPECT_EQ(ErrorOf("limit: 1/s, on: {only: {}}"),
            "rules.yaml:2:38: only: found no dimension; write {origin: [app1, app2]}, or leave it "
            "out");
  EXPECT_EQ(ErrorOf("limit: 1/s, on: {except: {tenant: []}}"),
            "rules.yaml:2:49: tenant: found no value; allowed 1 to 100000");
  EXPECT_EQ(
      ErrorOf("limit: 1/s, on: {except: {tenant: [a, \"b*c\"]}}"),
      "rules.yaml:2:53: tenant: value \"b*c\": '*' at column 2; it may only stand at the end");
  EXPECT_EQ(
      ErrorOf("limit: 1/s, on: {only: {ip: [192.0.2.7, 10.0.0.1/8]}}"),
      "rules.yaml:2:55: ip: value \"10.0.0.1/8\": bits are set behind the prefix length; clear "
      "them");
  EXPECT_EQ(ErrorOf("limit: 1/s, on: {only: {ip: localhost}}"),
            "rules.yaml:2:43: ip: value \"localhost\": not an address or block; write 192.0.2.7, "
            "192.0.2.0/24 or 2001:db8::/32");
}

TEST(TargetReaderTest, FaultsOfRegularExpressionsStandAtThem) {
  EXPECT_EQ(ErrorOf("limit: 1/s, on: {resource_regex: \"order:(\"}"),
            "rules.yaml:2:48: resource_regex: missing ): order:(; write it in the syntax of RE2");
  EXPECT_EQ(ErrorOf("limit: 1/s, on: {resource_regex: \"\"}"),
            "rules.yaml:2:48: resource_regex: empty");
  EXPECT_EQ(ErrorOf("limit: 1/s, on: {regex: a}"),
            "rules.yaml:2:32: unknown field \"regex\"; allowed: route, resource, resource_regex, "
            "only, except");
}

TEST(TargetReaderTest, FaultsOfRelationsStandAtTheField) {
  EXPECT_EQ(ErrorOf("limit: 1/s, relate_to: \"db:*\""),
            "rules.yaml:2:38: relate_to: it names one resource, no prefix");
  EXPECT_THAT(ErrorOf("limit: 1/s, relate_to: \"\""), StartsWith("rules.yaml:2:38: relate_to: "));
  EXPECT_EQ(ErrorOf("limit: 1/s, relate_to: w, by: [user]"),
            "rules.yaml:2:45: by: does not go with relate_to");
  EXPECT_EQ(ErrorOf("limit: 1/s, relate_to: w, wait: 1s"),
            "rules.yaml:2:47: wait: does not go with relate_to");
  EXPECT_EQ(ErrorOf("access: {deny: {user: [a]}}, relate_to: w"),
            "rules.yaml:2:44: relate_to: goes with limit or concurrency, not with access");
}

TEST(TargetReaderTest, UnknownDimensionsOfConditionsAreToldWithTheRulesPlace) {
  const auto parsed =
      ParseRules("rules:\n  - {name: r, limit: 1/s, on: {only: {tenent: [a]}}}\n", "rules.yaml");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;

  const auto table = rules::Compile(parsed->rules, {});

  ASSERT_FALSE(table.ok());
  EXPECT_THAT(table.error().message, StartsWith("rules.yaml:2:5: rule \"r\": on.only: "));
}

}  // namespace
}  // namespace flowguard
