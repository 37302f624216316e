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

TEST(RuleSplitTest, RulesOfATokenServerAreLoadedByTheirNamespace) {
  RuleSet rules;
  rules.rules = {Named("a", Scope::kCluster), Named("b", Scope::kCluster),
                 Named("c", Scope::kCluster), Named("d", Scope::kCluster)};
  rules.rules[0].cluster.name_space = "shop";
  rules.rules[2].cluster.name_space = "shop";
  rules.rules[3].cluster.name_space = "default";
  rules.compat = Compat::kSentinel;
  const std::vector<serve::TokenNamespace> spaces = TokenNamespaces(rules, 7);
  ASSERT_EQ(spaces.size(), 2u);
  EXPECT_EQ(spaces[0].name, "default");
  EXPECT_THAT(Names(spaces[0].rules), ElementsAre("b", "d"));
  EXPECT_EQ(spaces[1].name, "shop");
  EXPECT_THAT(Names(spaces[1].rules), ElementsAre("a", "c"));
  for (const serve::TokenNamespace& space : spaces) {
    EXPECT_EQ(space.questions_per_second, 7);
    EXPECT_EQ(space.rules.compat, Compat::kSentinel);
  }
}

}  // namespace
}  // namespace flowguard::app
