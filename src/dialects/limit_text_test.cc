// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

namespace flowguard {
namespace {

using namespace std::chrono_literals;

std::string ErrorOf(std::string_view text) {
  const auto rule = ParseLimit(text);
  return rule.ok() ? "ok" : rule.error().message;
}

TEST(ParseLimitTest, TakesARateAlone) {
  const auto rule = ParseLimit("100/s");

  ASSERT_TRUE(rule.ok()) << rule.error().message;
  EXPECT_EQ(rule->kind, RuleKind::kLimit);
  EXPECT_EQ(rule->rate, (Rate{100, 1s}));
  EXPECT_EQ(rule->name, "limit-100-s");
  EXPECT_TRUE(rule->by.empty());
  EXPECT_FALSE(rule->burst.has_value());
}

TEST(ParseLimitTest, TakesEveryClause) {
  const auto rule = ParseLimit(
      "1_000/min burst 50 per ip,header:x-key algorithm token_bucket on \"POST /orders/{id}\"");

  ASSERT_TRUE(rule.ok()) << rule.error().message;
  EXPECT_EQ(rule->rate, (Rate{1000, 1min}));
  EXPECT_EQ(rule->burst, 50);
  EXPECT_EQ(rule->by, (std::vector<std::string>{"ip", "header:x-key"}));
  EXPECT_EQ(rule->algorithm, Algorithm::kTokenBucket);
  EXPECT_EQ(rule->on.route, "POST /orders/{id}");
}

TEST(ParseLimitTest, TellsAWindowFromADimension) {
  const auto rule = ParseLimit("10 per 30s per user");

  ASSERT_TRUE(rule.ok()) << rule.error().message;
  EXPECT_EQ(rule->rate, (Rate{10, 30s}));
  EXPECT_EQ(rule->by, (std::vector<std::string>{"user"}));
}

TEST(ParseLimitTest, TakesClausesInAnyOrderAndSpacesAroundCommas) {
  const auto rule = ParseLimit("5/s on '/a/**' algorithm sliding_log per ip , tenant");

  ASSERT_TRUE(rule.ok()) << rule.error().message;
  EXPECT_EQ(rule->on.route, "/a/**");
  EXPECT_EQ(rule->algorithm, Algorithm::kSlidingLog);
  EXPECT_EQ(rule->by, (std::vector<std::string>{"ip", "tenant"}));
}

TEST(ParseLimitTest, TakesARouteWithoutQuotes) {
  EXPECT_EQ(ParseLimit("5/s on /a per ip")->on.route, "/a");
  EXPECT_EQ(ParseLimit("5/s on GET|HEAD /a per ip")->on.route, "GET|HEAD /a");
}

TEST(ParseLimitTest, PointsAtTheColumnOfTheFault) {
  EXPECT_EQ(ErrorOf("100/x per ip"),
            "limit \"100/x per ip\", column 5: unknown unit \"x\"; use us, ms, s, min, h, d");
  EXPECT_EQ(ErrorOf("100/s pre ip"),
            "limit \"100/s pre ip\", column 7: unexpected \"pre\"; did you mean \"per\"? allowed: "
            "burst B, per DIMENSION[,DIMENSION], algorithm NAME, on \"METHOD /route\"");
  EXPECT_EQ(ErrorOf("100/s burst x"),
            "limit \"100/s burst x\", column 13: burst \"x\" is not a whole number");
  EXPECT_EQ(ErrorOf("100/s per "),
            "limit \"100/s per \", column 11: a dimension is missing; such as ip, user, "
            "header:x-key");
  EXPECT_EQ(ErrorOf("100/s per ip,"),
            "limit \"100/s per ip,\", column 14: a dimension is missing; such as ip, user, "
            "header:x-key");
  EXPECT_EQ(
      ErrorOf("100/s per ip per user"),
      "limit \"100/s per ip per user\", column 14: \"per\" stands here twice; once is enough");
  EXPECT_EQ(ErrorOf("100/s on \"/a"),
            "limit \"100/s on \"/a\", column 10: the quote is not closed");
  EXPECT_EQ(ErrorOf("100/s burst 5 algorithm fixed_window"),
            "limit \"100/s burst 5 algorithm fixed_window\", column 7: burst goes with "
            "token_bucket, smooth_bursty or step_bucket, not with fixed_window");
  EXPECT_EQ(ErrorOf("5/s algorithm warm_up"),
            "limit \"5/s algorithm warm_up\", column 5: warm_up needs warm_up, which is for rule "
            "files");
  EXPECT_EQ(ErrorOf("0.5/s"),
            "limit \"0.5/s\", column 1: \"0.5\" is not a whole number; write 1 per 2s");
  EXPECT_EQ(ErrorOf(""), "limit \"\", column 1: a rate is missing; write 100/s or 10 per 30s");
}

TEST(ParseLimitTest, MisspeltAlgorithmIsCorrected) {
  EXPECT_EQ(
      ErrorOf("1/s algorithm sliding_lag"),
      "limit \"1/s algorithm sliding_lag\", column 15: unknown algorithm \"sliding_lag\"; did "
      "you mean \"sliding_log\"? allowed: token_bucket, leaky_bucket, sliding_log, "
      "sliding_buckets, sliding_window, fixed_window, weighted_average, smooth_bursty, warm_up, "
      "warm_up_window, leap_array, step_bucket");
}

// A pattern that could never match must not be accepted and dead.
TEST(ParseLimitTest, RouteThatCanNeverMatchIsAnError) {
  EXPECT_EQ(ErrorOf("1/s on orders").substr(0, 33), "limit \"1/s on orders\", column 8: ");
  EXPECT_EQ(ErrorOf("1/s on /a*b").substr(0, 31), "limit \"1/s on /a*b\", column 8: ");
}

}  // namespace
}  // namespace flowguard
