// SPDX-License-Identifier: Apache-2.0
#include "rules/compat.h"

#include <gtest/gtest.h>

#include "rules/compile_fixture_test.h"

namespace flowguard::rules {
namespace {

using std::chrono::seconds;

RuleSet Alike(std::vector<Rule> rules) {
  RuleSet set = Set(std::move(rules));
  set.compat = Compat::kSentinel;
  return set;
}

Rule Counted(Algorithm algorithm) {
  Rule rule = Limit("r");
  rule.algorithm = algorithm;
  return rule;
}

Rule ErrorCount(int64_t errors) {
  Rule rule;
  rule.name = "b";
  rule.kind = RuleKind::kBreaker;
  rule.breaker.error_count = errors;
  return rule;
}

TEST(CompatTest, LocalRulesAreCountedByWhatTheirAlgorithmStandsFor) {
  for (const auto& [written, counted] : {
           std::pair{Algorithm::kSlidingLog, Algorithm::kLeapArray},
           std::pair{Algorithm::kSlidingBuckets, Algorithm::kLeapArray},
           std::pair{Algorithm::kTokenBucket, Algorithm::kStepBucket},
           std::pair{Algorithm::kLeakyBucket, Algorithm::kLeakyBucket},
           std::pair{Algorithm::kFixedWindow, Algorithm::kFixedWindow},
       }) {
    const RuleTable table = Good(Alike({Counted(written)}));
    ASSERT_EQ(table.rules.size(), 1u);
    EXPECT_EQ(table.rules[0].rule.algorithm, counted);
    EXPECT_EQ(table.rules[0].quota.spec->algorithm(), counted);
    EXPECT_EQ(Good(Set({Counted(written)})).rules[0].rule.algorithm, written);
  }
}

TEST(CompatTest, SharedRulesAreCountedAsTheySay) {
  Rule rule = Counted(Algorithm::kSlidingLog);
  rule.scope = Scope::kShared;
  EXPECT_EQ(Good(Alike({rule}), true).rules[0].rule.algorithm, Algorithm::kSlidingLog);
}

TEST(CompatTest, OverridesAreCountedAlike) {
  Rule rule = Limit("r", 5);
  rule.by = {"user"};
  rule.overrides = {{"vip", {50, seconds(1)}, 53}};
  const RuleTable table = Good(Alike({rule}));
  EXPECT_EQ(table.rules[0].overrides[0].spec->algorithm(), Algorithm::kStepBucket);
  EXPECT_EQ(table.rules[0].overrides[0].spec->limit(), 53);
}

TEST(CompatTest, CellsOfTheTwoCountingsAreApart) {
  const Rule rule = Counted(Algorithm::kSlidingLog);
  EXPECT_NE(Good(Alike({rule})).rules[0].quota.identity, Good(Set({rule})).rules[0].quota.identity);
}

TEST(CompatTest, CallsInProgressStayWhereTheyAre) {
  Rule rule;
  rule.name = "c";
  rule.kind = RuleKind::kConcurrency;
  rule.concurrency = 4;
  EXPECT_EQ(Good(Alike({rule})).rules[0].quota.identity, Good(Set({rule})).rules[0].quota.identity);
}

TEST(CompatTest, BreakersCountInIntervalsOnTheClock) {
  EXPECT_EQ(Good(Alike({ErrorCount(3)})).rules[0].breaker.buckets, 1);
  EXPECT_FALSE(Good(Alike({ErrorCount(3)})).rules[0].breaker.all_errors_open);
  EXPECT_EQ(Good(Set({ErrorCount(3)})).rules[0].breaker.buckets, 10);
}

TEST(CompatTest, WhatItCannotCarryOutIsAnError) {
  Rule probes = ErrorCount(3);
  probes.breaker.probes = 4;
  Rule waits = Limit("w");
  waits.wait = seconds(1);
  EXPECT_EQ(Errors(Alike({probes, waits})),
            (std::vector<std::string>{
                "rule \"b\": breaker.probes: found 4; with compat sentinel a breaker has 1",
                "rule \"w\": wait: found with algorithm token_bucket, which with compat sentinel "
                "lets nobody wait; algorithm leaky_bucket does"}));
  EXPECT_TRUE(Errors(Set({probes, waits})).empty());
}

TEST(CompatTest, ItsAlgorithmsAreLocal) {
  for (const Algorithm algorithm : {Algorithm::kLeapArray, Algorithm::kStepBucket}) {
    Rule rule = Counted(algorithm);
    EXPECT_TRUE(Errors(Set({rule})).empty());
    rule.scope = Scope::kShared;
    const std::vector<std::string> errors = Errors(Set({rule}), true);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_NE(errors[0].find("whose cells are local"), std::string::npos) << errors[0];
  }
}

}  // namespace
}  // namespace flowguard::rules
