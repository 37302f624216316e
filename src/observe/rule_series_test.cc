// SPDX-License-Identifier: Apache-2.0
#include "observe/rule_series.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::observe {
namespace {

using engine::RuleCounters;
using std::chrono::minutes;
using ::testing::ElementsAre;

constexpr Instant kStart{std::chrono::hours(100)};

RuleCounters Rule(std::string name, uint64_t passed, bool loaded = true) {
  RuleCounters rule;
  rule.rule = std::move(name);
  rule.passed = passed;
  rule.loaded = loaded;
  return rule;
}

std::vector<std::string> Shown(const std::vector<RuleCounters>& rules) {
  std::vector<std::string> lines;
  for (const RuleCounters& rule : rules) {
    lines.push_back(rule.rule + "=" + std::to_string(rule.passed));
  }
  return lines;
}

TEST(RuleSeriesTest, EveryRuleHasSeriesWhileThereIsRoom) {
  RuleSeries series(3);

  EXPECT_THAT(Shown(series.Select(std::vector{Rule("a", 1), Rule("b", 2)}, kStart)),
              ElementsAre("a=1", "b=2"));
  EXPECT_EQ(series.dropped(), 0u);
}

TEST(RuleSeriesTest, TheBusiestRulesGetTheRoomAndTheRestIsSummedUp) {
  RuleSeries series(2);
  const std::vector rules = {Rule("a", 1), Rule("b", 50), Rule("c", 2), Rule("d", 60)};

  EXPECT_THAT(Shown(series.Select(rules, kStart)), ElementsAre("b=50", "d=60", "__other__=3"));
  EXPECT_EQ(series.dropped(), 2u);
}

TEST(RuleSeriesTest, TheSumNeverFallsWhenASummedUpRuleBecomesTheBusiest) {
  RuleSeries series(1);
  series.Select(std::vector{Rule("a", 10), Rule("b", 1)}, kStart);

  EXPECT_THAT(Shown(series.Select(std::vector{Rule("a", 10), Rule("b", 900)}, kStart)),
              ElementsAre("a=10", "__other__=900"));
}

// Updating a rule resets its counters, or its series vanishes at once.
TEST(RuleSeriesTest, ARemovedRuleKeepsItsSeriesForTheGraceAndThenFreesIt) {
  RuleSeries series(1);
  series.Select(std::vector{Rule("a", 10)}, kStart);
  const std::vector gone = {Rule("a", 10, false)};

  EXPECT_THAT(Shown(series.Select(gone, kStart + minutes(1))), ElementsAre("a=10"));
  EXPECT_THAT(Shown(series.Select(gone, kStart + minutes(10))), ElementsAre("a=10"));
  EXPECT_THAT(Shown(series.Select(gone, kStart + minutes(11))), ElementsAre());
  EXPECT_THAT(Shown(series.Select(gone, kStart + minutes(12))), ElementsAre());
  EXPECT_THAT(
      Shown(series.Select(std::vector{Rule("a", 10, false), Rule("b", 1)}, kStart + minutes(13))),
      ElementsAre("b=1"));
}

TEST(RuleSeriesTest, ARuleThatComesBackGoesOnCounting) {
  RuleSeries series(1);
  series.Select(std::vector{Rule("a", 10)}, kStart);
  series.Select(std::vector{Rule("a", 10, false)}, kStart);
  series.Select(std::vector{Rule("a", 10, false)}, kStart + minutes(20));

  EXPECT_THAT(Shown(series.Select(std::vector{Rule("a", 11)}, kStart + minutes(30))),
              ElementsAre("a=11"));
}

TEST(RuleSeriesTest, TheGraceStartsAnewAfterAReturn) {
  RuleSeries series(1);
  series.Select(std::vector{Rule("a", 10, false)}, kStart);
  series.Select(std::vector{Rule("a", 10)}, kStart + minutes(9));
  series.Select(std::vector{Rule("a", 10, false)}, kStart + minutes(11));

  EXPECT_THAT(Shown(series.Select(std::vector{Rule("a", 10, false)}, kStart + minutes(20))),
              ElementsAre("a=10"));
}

}  // namespace
}  // namespace flowguard::observe
