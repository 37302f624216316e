// SPDX-License-Identifier: Apache-2.0
//
// Conditions and regular expressions of targets, compiled.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/compile_fixture_test.h"
#include "testing/std_regex.h"

namespace flowguard::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(ConditionsTest, AreCompiledAndTold) {
  Rule rule = Limit("a");
  rule.on.resource = "order:*";
  rule.on.only = {{"tenant", {"acme", "globex-*"}}, {"method", {"GET"}}};
  rule.on.except = {{"ip", {"10.0.0.0/8"}}};

  const RuleTable table = Good(Set({rule, Limit("plain")}));

  const CompiledRule& compiled = table.rules[0];
  EXPECT_TRUE(table.conditional);
  EXPECT_TRUE(compiled.conditional());
  EXPECT_FALSE(table.rules[1].conditional());
  ASSERT_EQ(compiled.only.size(), 2u);
  ASSERT_EQ(compiled.except.size(), 1u);
  EXPECT_TRUE(compiled.only[0].values.Contains("globex-eu"));
  EXPECT_FALSE(compiled.only[0].values.Contains("acme-2"));
  EXPECT_TRUE(compiled.except[0].values.Contains("10.1.2.3"));
  EXPECT_EQ(compiled.matched_by, "resource order:*; only tenant, method; except ip");
}

TEST(ConditionsTest, ASetWithoutThemSaysSo) {
  Rule off = Limit("off");
  off.enabled = false;
  off.on.only = {{"tenant", {"acme"}}};

  EXPECT_FALSE(Good(Set({Limit("plain"), off})).conditional);
}

TEST(ConditionsTest, ARuleKeepsItsCellsWhenTheyChange) {
  Rule rule = Limit("a");
  const uint64_t identity = Good(Set({rule})).rules[0].quota.identity;

  rule.on.only = {{"tenant", {"acme"}}};

  EXPECT_EQ(Good(Set({rule})).rules[0].quota.identity, identity);
}

TEST(ConditionsTest, MayCaptureFromTheRulesRoute) {
  Rule rule = Limit("a");
  rule.on.route = "/tenants/{id}/**";
  rule.on.except = {{"path:id", {"1"}}};

  EXPECT_EQ(Good(Set({rule})).rules[0].except[0].part.segment, 1);
}

TEST(ConditionsTest, FaultsNameTheListAndTheValue) {
  const auto error = [](std::vector<ValuesOf> only, std::vector<ValuesOf> except) {
    Rule rule = Limit("a");
    rule.origin = "rules.yaml:2:5";
    rule.on.only = std::move(only);
    rule.on.except = std::move(except);
    return Errors(Set({rule}));
  };

  EXPECT_THAT(error({{"tenent", {"x"}}}, {}),
              ElementsAre(StartsWith("rules.yaml:2:5: rule \"a\": on.only: ")));
  EXPECT_THAT(error({{"tenent", {"x"}}}, {}), ElementsAre(HasSubstr("did you mean \"tenant\"?")));
  EXPECT_THAT(
      error({}, {{"ip", {"10.0.0.1/8"}}}),
      ElementsAre("rules.yaml:2:5: rule \"a\": on.except.ip: value \"10.0.0.1/8\": bits are "
                  "set behind the prefix length; clear them"));
  EXPECT_THAT(
      error({{"tenant", {}}}, {}),
      ElementsAre(
          "rules.yaml:2:5: rule \"a\": on.only.tenant: found 0 values; allowed 1 to 100000"));
  EXPECT_THAT(error({}, {{"path:id", {"1"}}}),
              ElementsAre("rules.yaml:2:5: rule \"a\": on.except: found path:id, but the rule's "
                          "route has no {id}"));
}

TEST(ConditionsTest, AreSoManyAtMost) {
  Rule rule = Limit("a");
  rule.on.only.assign(10, {"tenant", {"acme"}});
  rule.on.except.assign(6, {"user", {"ann"}});
  EXPECT_THAT(Errors(Set({rule})), IsEmpty());

  rule.on.except.push_back({"user", {"bob"}});

  EXPECT_THAT(Errors(Set({rule})),
              ElementsAre("rule \"a\": on: found 17 lists of values under only and except; at most "
                          "16 are allowed"));
}

TEST(ResourceRegexTest, NeedsAnEngine) {
  Rule rule = Limit("a");
  rule.on.resource_regex = "order:.*";
  EXPECT_THAT(Errors(Set({rule})),
              ElementsAre("rule \"a\": on.resource_regex: found, but the set has no engine for it; "
                          "set RuleSet::regex, to Re2() of FlowGuard::text for one"));
  const testing::StdRegexEngine engine;
  RuleSet set = Set({rule});
  set.regex = &engine;

  EXPECT_EQ(Good(set).rules[0].matched_by, "resource matching order:.*");
}

TEST(ResourceRegexTest, ABadOneIsAFaultInARuleThatIsOffToo) {
  const testing::StdRegexEngine engine;
  Rule rule = Limit("a");
  rule.on.resource_regex = "order:(";
  RuleSet set = Set({rule});
  set.regex = &engine;
  EXPECT_THAT(Errors(set), ElementsAre(StartsWith("rule \"a\": on.resource_regex: ")));

  set.rules[0].enabled = false;

  EXPECT_THAT(Errors(set), ElementsAre(StartsWith("rule \"a\": on.resource_regex: ")));
}

}  // namespace
}  // namespace flowguard::rules
