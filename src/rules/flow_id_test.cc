// SPDX-License-Identifier: Apache-2.0
#include "rules/flow_id.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::rules {
namespace {

Rule Named(std::string name) {
  Rule rule;
  rule.name = std::move(name);
  return rule;
}

TEST(FlowIdTest, TheRulesOwnGoesFirst) {
  Rule rule = Named("orders");
  rule.cluster.flow_id = 1'001;
  EXPECT_EQ(FlowIdOf(rule), 1'001);
  rule.cluster.flow_id = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(FlowIdOf(rule), std::numeric_limits<int64_t>::max());
}

// Servers and clients of other versions count by these numbers.
TEST(FlowIdTest, ANameHasOneNumberForEver) {
  EXPECT_EQ(FlowIdOf(Named("orders")), 2'921'936'525'627'847'931);
  EXPECT_EQ(FlowIdOf(Named("tenant-quota")), 8'056'943'520'195'120'623);
}

TEST(FlowIdTest, NoNameHasANumberThatClientsRefuse) {
  for (int i = 0; i < 10'000; ++i)
    ASSERT_GT(FlowIdOf(Named("rule-" + std::to_string(i))), 0);
}

TEST(FlowIdTest, WhatIsAskedForFollowsFromTheRule) {
  Rule rule = Named("r");
  EXPECT_EQ(FlowQuestionOf(rule), FlowQuestion::kFlow);
  rule.by = {"tenant"};
  EXPECT_EQ(FlowQuestionOf(rule), FlowQuestion::kParamFlow);
  rule.by.clear();
  rule.kind = RuleKind::kConcurrency;
  EXPECT_EQ(FlowQuestionOf(rule), FlowQuestion::kConcurrent);
}

}  // namespace
}  // namespace flowguard::rules
