// SPDX-License-Identifier: Apache-2.0
#include "serve/rate_headers.h"

#include <gtest/gtest.h>

namespace flowguard::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RuleInfo PerClient() {
  RuleInfo rule;
  rule.name = "per-client";
  rule.rate = {100, seconds(1)};
  return rule;
}

std::string Lines(const Decision& decision, const RateHeaderOptions& options) {
  std::string out;
  AppendRateHeaders(decision, options, out);
  return out;
}

constexpr RateHeaderOptions kDraftOnly{.draft = true, .legacy = false};
constexpr RateHeaderOptions kLegacyOnly{.draft = false, .legacy = true};

TEST(RateHeadersTest, DraftFieldsOfARefusalNameQuotaWindowAndWait) {
  const RuleInfo rule = PerClient();
  const Decision decision{.verdict = Verdict::kRefuse,
                          .reason = Reason::kLimit,
                          .limit = 200,
                          .remaining = 0,
                          .reset_after = seconds(2),
                          .retry_after = milliseconds(10),
                          .window = seconds(2),
                          .rule = &rule};

  EXPECT_EQ(Lines(decision, kDraftOnly),
            "RateLimit-Policy: \"per-client\";q=200;w=2\r\n"
            "RateLimit: \"per-client\";r=0;t=1\r\n");
}

TEST(RateHeadersTest, DraftFieldsOfAnAllowedRequestTellTheReset) {
  const RuleInfo rule = PerClient();
  const Decision decision{.limit = 200,
                          .remaining = 150,
                          .reset_after = milliseconds(500),
                          .window = seconds(2),
                          .rule = &rule};

  EXPECT_EQ(Lines(decision, kDraftOnly),
            "RateLimit-Policy: \"per-client\";q=200;w=2\r\n"
            "RateLimit: \"per-client\";r=150;t=1\r\n");
}

TEST(RateHeadersTest, UntouchedQuotaHasNoResetParameter) {
  const RuleInfo rule = PerClient();
  const Decision decision{.limit = 200, .remaining = 200, .window = seconds(2), .rule = &rule};

  EXPECT_EQ(Lines(decision, kDraftOnly),
            "RateLimit-Policy: \"per-client\";q=200;w=2\r\n"
            "RateLimit: \"per-client\";r=200\r\n");
}

TEST(RateHeadersTest, ConcurrencyIsAQuotaOfConcurrentRequestsWithoutWindow) {
  RuleInfo rule;
  rule.name = "stock-db";
  rule.kind = RuleKind::kConcurrency;
  rule.rate = {40, {}};
  const Decision decision{.limit = 40, .remaining = 3, .rule = &rule};

  EXPECT_EQ(Lines(decision, kDraftOnly),
            "RateLimit-Policy: \"stock-db\";q=40;qu=\"concurrent-requests\"\r\n"
            "RateLimit: \"stock-db\";r=3\r\n");
}

TEST(RateHeadersTest, LegacyFieldsCountSecondsFromNow) {
  const RuleInfo rule = PerClient();
  const Decision decision{
      .limit = 200, .remaining = 10, .reset_after = milliseconds(1'001), .rule = &rule};

  EXPECT_EQ(Lines(decision, kLegacyOnly),
            "X-RateLimit-Limit: 200\r\n"
            "X-RateLimit-Remaining: 10\r\n"
            "X-RateLimit-Reset: 2\r\n");
}

TEST(RateHeadersTest, ResetOfARefusalIsNeverBeforeItsWaitNorZero) {
  const RuleInfo rule = PerClient();
  const Decision decision{
      .verdict = Verdict::kRefuse, .limit = 1, .retry_after = milliseconds(1), .rule = &rule};

  EXPECT_NE(Lines(decision, kLegacyOnly).find("X-RateLimit-Reset: 1\r\n"), std::string::npos);
}

// A limit lowered below what is already used must not show as a negative remainder.
TEST(RateHeadersTest, RemainingIsNeverNegative) {
  const RuleInfo rule = PerClient();
  const Decision decision{.limit = 5, .remaining = -5, .reset_after = seconds(1), .rule = &rule};

  EXPECT_NE(Lines(decision, kLegacyOnly).find("X-RateLimit-Remaining: 0\r\n"), std::string::npos);
  EXPECT_NE(Lines(decision, kDraftOnly).find(";r=0"), std::string::npos);
}

TEST(RateHeadersTest, NumbersThatAStructuredFieldCannotHoldAreClamped) {
  const RuleInfo rule = PerClient();
  const Decision decision{
      .limit = INT64_MAX, .remaining = INT64_MAX, .window = Duration::max(), .rule = &rule};

  EXPECT_NE(Lines(decision, kDraftOnly).find(";q=999999999999999;w=9223372037\r\n"),
            std::string::npos);
}

TEST(RateHeadersTest, NeverHasNeitherWaitNorAnAbsurdNumber) {
  const RuleInfo rule = PerClient();
  const Decision decision{.verdict = Verdict::kRefuse,
                          .limit = 200,
                          .remaining = 200,
                          .retry_after = kNever,
                          .rule = &rule};

  EXPECT_NE(Lines(decision, kDraftOnly).find("RateLimit: \"per-client\";r=200\r\n"),
            std::string::npos);
}

TEST(RateHeadersTest, NothingWithoutARuleOrForAnAccessRule) {
  RuleInfo access;
  access.kind = RuleKind::kAccess;

  EXPECT_EQ(Lines(Decision{}, {}), "");
  EXPECT_EQ(Lines(Decision{.rule = &access}, {}), "");
}

TEST(RateHeadersTest, ARuleNameCannotBreakOutOfTheField) {
  std::string out;
  AppendStructuredString("a\"b\\c\r\nX: 1\xc3\xa9", out);

  EXPECT_EQ(out, R"("a\"b\\c??X: 1??")");
}

// Rate fields of an upstream beside ours: duplicates and conflicting values.
TEST(RateHeadersTest, EveryNameThatIsWrittenOrCommonlySentIsRecognisedForStripping) {
  EXPECT_TRUE(IsRateHeader("RateLimit"));
  EXPECT_TRUE(IsRateHeader("ratelimit-policy"));
  EXPECT_TRUE(IsRateHeader("RATELIMIT-LIMIT"));
  EXPECT_TRUE(IsRateHeader("X-RateLimit-Limit"));
  EXPECT_TRUE(IsRateHeader("x-ratelimit-remaining"));
  EXPECT_TRUE(IsRateHeader("X-Ratelimit-Reset"));
  EXPECT_FALSE(IsRateHeader("X-RateLimit-Limits"));
  EXPECT_FALSE(IsRateHeader("Retry-After"));
  EXPECT_FALSE(IsRateHeader(""));
}

TEST(RateHeadersTest, SecondsAreRoundedUp) {
  EXPECT_EQ(CeilSeconds(Duration(0)), 0);
  EXPECT_EQ(CeilSeconds(Duration(-1)), 0);
  EXPECT_EQ(CeilSeconds(Duration(1)), 1);
  EXPECT_EQ(CeilSeconds(seconds(1)), 1);
  EXPECT_EQ(CeilSeconds(seconds(1) + Duration(1)), 2);
}

}  // namespace
}  // namespace flowguard::serve
