// SPDX-License-Identifier: Apache-2.0
#include "app/rule_split.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Rule Named(std::string name, Scope scope) {
  Rule rule;
  rule.name = std::move(name);
  rule.scope = scope;
  rule.origin = "rules.yaml:2:3";
  return rule;
}

std::vector<std::string> Names(const RuleSet& rules) {
  std::vector<std::string> names;
  for (const Rule& rule : rules.rules)
    names.push_back(rule.name);
  return names;
}

TEST(RuleSplitTest, EachHasItsRulesInTheirOrderAndWhatTheSetSaysOfItself) {
  RuleSet rules;
  rules.rules = {Named("a", Scope::kLocal), Named("b", Scope::kCluster), Named("c", Scope::kShared),
                 Named("d", Scope::kCluster)};
  DimensionSpec tenant;
  tenant.name = "tenant";
  tenant.source = "header:x-tenant";
  rules.dimensions.push_back(tenant);
  rules.compat = Compat::kSentinel;

  const SplitRules split = SplitTokenRules(rules);

  EXPECT_THAT(Names(split.tokens), ElementsAre("b", "d"));
  EXPECT_THAT(Names(split.others), ElementsAre("a", "c"));
  for (const RuleSet& one : {split.tokens, split.others}) {
    EXPECT_EQ(one.dimensions, rules.dimensions);
    EXPECT_EQ(one.compat, Compat::kSentinel);
  }
}

TEST(RuleSplitTest, RulesThatNobodyAsksAreToldWhereNoOtherDoorIsOpen) {
  RuleSet rules;
  rules.rules = {Named("a", Scope::kLocal), Named("b", Scope::kCluster)};
  const SplitRules split = SplitTokenRules(rules);
  EXPECT_THAT(TokenWarnings(split, false), IsEmpty());
  EXPECT_THAT(TokenWarnings(split, true),
              ElementsAre(HasSubstr("rules.yaml:2:3: rule \"a\": scope: nobody asks it")));
}

TEST(RuleSplitTest, ATokenServerWithoutARuleIsTold) {
  RuleSet rules;
  rules.rules = {Named("a", Scope::kLocal)};
  EXPECT_THAT(TokenWarnings(SplitTokenRules(rules), false),
              ElementsAre(HasSubstr("the token server has no rule")));
}

}  // namespace
}  // namespace flowguard::app
