// SPDX-License-Identifier: Apache-2.0
#include "serve/refusal.h"

#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

RuleInfo LimitRule() {
  RuleInfo rule;
  rule.name = "create-order";
  rule.rate = {500, seconds(1)};
  rule.refuse.status = 429;
  return rule;
}

Decision Refused(const RuleInfo& rule, Reason reason = Reason::kLimit,
                 Duration retry_after = milliseconds(100)) {
  return {.verdict = Verdict::kRefuse,
          .reason = reason,
          .limit = 500,
          .remaining = 0,
          .reset_after = seconds(1),
          .retry_after = retry_after,
          .window = seconds(1),
          .rule = &rule};
}

std::string Written(const Decision& decision, const RefusalOptions& options = {},
                    const RefusalRequest& request = {}) {
  std::string out;
  AppendRefusal(decision, options, request, out);
  return out;
}

std::string BodyOf(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

TEST(RefusalTest, UnifiedBodyLiterally) {
  RuleInfo rule = LimitRule();
  rule.refuse.message = "Too many orders, please retry shortly";

  EXPECT_EQ(
      Written(Refused(rule)),
      "HTTP/1.1 429 Too Many Requests\r\n"
      "Content-Type: application/json\r\n"
      "Cache-Control: no-store\r\n"
      "Retry-After: 1\r\n"
      "RateLimit-Policy: \"create-order\";q=500;w=1\r\n"
      "RateLimit: \"create-order\";r=0;t=1\r\n"
      "X-RateLimit-Limit: 500\r\n"
      "X-RateLimit-Remaining: 0\r\n"
      "X-RateLimit-Reset: 1\r\n"
      "Content-Length: 78\r\n"
      "\r\n"
      "{\"code\":429,\"message\":\"Too many orders, please retry shortly\",\"success\":false}");
}

TEST(RefusalTest, ProblemBodyLiterally) {
  const RuleInfo rule = LimitRule();

  const std::string answer = Written(Refused(rule), {.body = RefuseBody::kProblem});

  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: application/problem+json\r\n"));
  EXPECT_EQ(BodyOf(answer),
            "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
            "\"title\":\"Too Many Requests\",\"status\":429,"
            "\"detail\":\"Too many requests, please retry later\","
            "\"violated-policies\":[\"create-order\"],\"retry_after_ms\":100}");
}

TEST(RefusalTest, TextBodyLiterally) {
  const RuleInfo rule = LimitRule();

  const std::string answer = Written(
      Refused(rule), {.body = RefuseBody::kText, .rate_headers = {.draft = false, .legacy = false}},
      {.close = true, .date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"});

  EXPECT_EQ(answer,
            "HTTP/1.1 429 Too Many Requests\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            "Cache-Control: no-store\r\n"
            "Retry-After: 1\r\n"
            "Connection: close\r\n"
            "Content-Length: 38\r\n"
            "\r\n"
            "Too many requests, please retry later\n");
}

TEST(RefusalTest, TheRuleChoosesItsOwnBodyForm) {
  RuleInfo rule = LimitRule();
  rule.refuse.body = RefuseBody::kText;
  rule.refuse.message = "slow down";

  EXPECT_THAT(Written(Refused(rule), {.body = RefuseBody::kProblem}),
              EndsWith("\r\n\r\nslow down\n"));
}

// The configured status applied to one kind of limiter only, or a wrong default.
TEST(RefusalTest, StatusByKindAndReasonUnlessTheRuleSays) {
  RuleInfo limit = LimitRule();
  RuleInfo concurrency;
  concurrency.kind = RuleKind::kConcurrency;
  concurrency.refuse.status = 503;
  RuleInfo access;
  access.kind = RuleKind::kAccess;
  access.refuse.status = 403;

  EXPECT_EQ(RefusalStatus(Refused(limit)), 429);
  EXPECT_EQ(RefusalStatus(Refused(limit, Reason::kStoreFailure)), 503);
  EXPECT_EQ(RefusalStatus(Refused(limit, Reason::kOverload)), 503);
  EXPECT_EQ(RefusalStatus(Refused(limit, Reason::kMissingDimension)), 403);
  EXPECT_EQ(RefusalStatus(Refused(limit, Reason::kInvalidCost)), 429);
  EXPECT_EQ(RefusalStatus(Refused(concurrency, Reason::kConcurrency)), 503);
  EXPECT_EQ(RefusalStatus(Refused(access, Reason::kAccess)), 403);

  limit.refuse.status = 509;
  concurrency.refuse.status = 429;
  access.refuse.status = 404;
  EXPECT_EQ(RefusalStatus(Refused(limit)), 509);
  EXPECT_EQ(RefusalStatus(Refused(concurrency, Reason::kConcurrency)), 429);
  EXPECT_EQ(RefusalStatus(Refused(access, Reason::kAccess)), 404);
  EXPECT_THAT(Written(Refused(access, Reason::kAccess)), HasSubstr("HTTP/1.1 404 Not Found\r\n"));
}

TEST(RefusalTest, OverloadIsAReducedCapacityProblem) {
  RuleInfo rule;
  rule.name = "stock-db";
  rule.kind = RuleKind::kConcurrency;

  const std::string answer =
      Written(Refused(rule, Reason::kConcurrency, {}), {.body = RefuseBody::kProblem});

  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(answer, HasSubstr("#temporary-reduced-capacity\""));
  EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 1\r\n"));
}

// A wait below one second truncated to zero; a negative or fractional value.
TEST(RefusalTest, RetryAfterIsTheWaitRoundedUpAndAtLeastOne) {
  const RuleInfo rule = LimitRule();
  const auto told = [&](Duration wait) { return Written(Refused(rule, Reason::kLimit, wait)); };

  EXPECT_THAT(told(Duration(-1)), HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(told(Duration(0)), HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(told(Duration(1)), HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(told(seconds(1)), HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(told(seconds(1) + Duration(1)), HasSubstr("\r\nRetry-After: 2\r\n"));
  EXPECT_THAT(told(seconds(86'400)), HasSubstr("\r\nRetry-After: 86400\r\n"));
}

TEST(RefusalTest, NoRetryAfterWhereWaitingDoesNotHelp) {
  const RuleInfo rule = LimitRule();

  const std::string answer =
      Written(Refused(rule, Reason::kInvalidCost, kNever), {.body = RefuseBody::kProblem});

  EXPECT_THAT(answer, Not(HasSubstr("Retry-After")));
  EXPECT_THAT(answer, Not(HasSubstr("retry_after_ms")));
  EXPECT_THAT(Written(Refused(rule, Reason::kMissingDimension, {})), Not(HasSubstr("Retry-After")));
}

// Every refused client told the same instant, so that all return together.
TEST(RefusalTest, JitterSpreadsTheWaitAndNeverShortensIt) {
  const RuleInfo rule = LimitRule();
  const Decision decision = Refused(rule, Reason::kLimit, seconds(60));
  bool seen[121] = {};

  for (uint64_t draw = 0; draw < 1'000; ++draw) {
    const std::string answer =
        Written(decision, {.jitter_percent = 20}, {.draw = draw * 0x9e3779b97f4a7c15U});
    const size_t at = answer.find("Retry-After: ") + 13;
    const int told = std::stoi(answer.substr(at));
    ASSERT_GE(told, 60);
    ASSERT_LE(told, 72);
    seen[told] = true;
  }

  for (int told = 61; told <= 72; ++told)
    EXPECT_TRUE(seen[told]) << told;
}

TEST(RefusalTest, WithoutJitterTheWaitIsExact) {
  const RuleInfo rule = LimitRule();
  const Decision decision = Refused(rule, Reason::kLimit, seconds(60));

  EXPECT_THAT(Written(decision, {}, {.draw = 12345}), HasSubstr("\r\nRetry-After: 60\r\n"));
}

TEST(RefusalTest, JitterOfAFixedLengthIsAddedToTheWait) {
  const RuleInfo rule = LimitRule();
  const Decision decision = Refused(rule, Reason::kLimit, seconds(10));
  const RefusalOptions options{.jitter = seconds(5)};

  EXPECT_THAT(Written(decision, options, {.draw = 0}), HasSubstr("\r\nRetry-After: 10\r\n"));
  EXPECT_THAT(Written(decision, options, {.draw = 5'000'000'000}),
              HasSubstr("\r\nRetry-After: 15\r\n"));
}

// A refused HEAD with a body desynchronises the connection.
TEST(RefusalTest, HeadHasTheLengthOfTheBodyAndNoBody) {
  const RuleInfo rule = LimitRule();

  const std::string get = Written(Refused(rule));
  const std::string head = Written(Refused(rule), {}, {.head = true});

  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
  EXPECT_EQ(head, get.substr(0, get.find("\r\n\r\n") + 4));
}

TEST(RefusalTest, ContentLengthIsThatOfTheBody) {
  for (const size_t size : {0u, 1u, 9u, 10u, 99u, 4096u}) {
    RuleInfo rule = LimitRule();
    rule.refuse.body = RefuseBody::kText;
    rule.refuse.message = std::string(size, 'x');
    if (size == 0) rule.refuse.message = "\n";

    const std::string answer = Written(Refused(rule));

    EXPECT_THAT(answer,
                HasSubstr("\r\nContent-Length: " + std::to_string(BodyOf(answer).size()) + "\r\n"));
  }
}

// A pre-built answer that is consumed by the first refusal.
TEST(RefusalTest, TwoRefusalsInARowAreIdenticalAndAppend) {
  const RuleInfo rule = LimitRule();
  std::string out = "earlier answer";

  AppendRefusal(Refused(rule), {}, {}, out);
  AppendRefusal(Refused(rule), {}, {}, out);

  EXPECT_EQ(out, "earlier answer" + Written(Refused(rule)) + Written(Refused(rule)));
}

TEST(RefusalTest, TheMessageIsEscaped) {
  RuleInfo rule = LimitRule();
  rule.refuse.message = "a\"b\\c\n\x01\xff\xe9\x81\x99";

  EXPECT_EQ(BodyOf(Written(Refused(rule))),
            "{\"code\":429,\"message\":\"a\\\"b\\\\c\\n\\u0001\xef\xbf\xbd\xe9\x81\x99\","
            "\"success\":false}");
}

TEST(RefusalTest, TheRulesHeadersAreSentAndReplaceOurs) {
  RuleInfo rule = LimitRule();
  rule.refuse.headers = {{"X-Plan", "free"}, {"Retry-After", "120"}, {"content-type", "text/html"}};

  const std::string answer = Written(Refused(rule));

  EXPECT_THAT(answer, HasSubstr("\r\nX-Plan: free\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 120\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Retry-After: 1\r\n")));
  EXPECT_THAT(answer, HasSubstr("\r\ncontent-type: text/html\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("application/json")));
}

TEST(RefusalTest, ARuleCannotBreakTheFraming) {
  RuleInfo rule = LimitRule();
  rule.refuse.headers = {{"Content-Length", "0"},
                         {"Transfer-Encoding", "chunked"},
                         {"RateLimit", "\"x\";r=9"},
                         {"X-Note", "a\r\nX-Injected: 1"}};

  const std::string answer = Written(Refused(rule));

  EXPECT_THAT(answer, Not(HasSubstr("Content-Length: 0\r\n")));
  EXPECT_THAT(answer, Not(HasSubstr("Transfer-Encoding")));
  EXPECT_THAT(answer, Not(HasSubstr("\"x\";r=9")));
  EXPECT_THAT(answer, Not(HasSubstr("\r\nX-Injected")));
}

// A 429 that inherits a public Cache-Control is replayed by shared caches.
TEST(RefusalTest, IsNeverStoredByACache) {
  const RuleInfo rule = LimitRule();

  EXPECT_THAT(Written(Refused(rule)), HasSubstr("\r\nCache-Control: no-store\r\n"));
}

TEST(RefusalTest, TheInstantOfTheDecisionIsToldWhereAsked) {
  const RuleInfo rule = LimitRule();
  const RefusalRequest request{.decided_at = Instant(seconds(7) + Duration(5))};

  EXPECT_THAT(Written(Refused(rule), {.decided_at = true}, request),
              AllOf(HasSubstr("\r\nFlowGuard-Decided-At: 7000000005\r\n"),
                    Not(HasSubstr("Store-Decided-At"))));
  EXPECT_THAT(Written(Refused(rule), {.decided_at = true}, {.store_time_us = 1796000000000123}),
              HasSubstr("\r\nFlowGuard-Store-Decided-At: 1796000000000123\r\n"));
  EXPECT_THAT(Written(Refused(rule), {}, request), Not(HasSubstr("Decided-At")));
}

TEST(RefusalTest, AnotherStatusMayBeAskedFor) {
  const RuleInfo rule = LimitRule();

  const std::string answer = Written(Refused(rule), {}, {.status = 403});

  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 1\r\n"));
  EXPECT_THAT(answer, HasSubstr("{\"code\":403,"));
}

TEST(RefusalTest, WithoutARuleThereAreNoRateFields) {
  const Decision decision{
      .verdict = Verdict::kRefuse, .reason = Reason::kOverload, .retry_after = seconds(1)};

  EXPECT_EQ(Written(decision),
            "HTTP/1.1 503 Service Unavailable\r\n"
            "Content-Type: application/json\r\n"
            "Cache-Control: no-store\r\n"
            "Retry-After: 1\r\n"
            "Content-Length: 92\r\n"
            "\r\n"
            "{\"code\":503,\"message\":\"Too many requests are waiting, please retry "
            "shortly\",\"success\":false}");
}

TEST(RefusalTest, DegradedAnswerIsTheRulesOwn) {
  RuleInfo rule = LimitRule();
  rule.degrade = {.enabled = true,
                  .header = "",
                  .status = 200,
                  .body = "{\"items\":[]}",
                  .content_type = "application/json"};
  const Decision decision{.degraded = true, .limit = 500, .rule = &rule};
  std::string out;

  ASSERT_TRUE(AnswersDegraded(decision));
  AppendDegraded(decision, {}, {}, out);

  EXPECT_EQ(out,
            "HTTP/1.1 200 OK\r\n"
            "Content-Type: application/json\r\n"
            "Cache-Control: no-store\r\n"
            "Content-Length: 12\r\n"
            "\r\n"
            "{\"items\":[]}");
}

TEST(RefusalTest, DegradedAnswerWithoutContentHasNoLength) {
  RuleInfo rule = LimitRule();
  rule.degrade = {.enabled = true, .header = "", .status = 204, .body = "", .content_type = ""};
  std::string out;

  AppendDegraded({.degraded = true, .rule = &rule}, {}, {}, out);

  EXPECT_EQ(out, "HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\n\r\n");
}

TEST(RefusalTest, DegradeMarkIsTheRulesHeaderLineOrTheUsualOne) {
  RuleInfo rule = LimitRule();
  rule.degrade = {.enabled = true, .header = "", .status = 0, .body = "", .content_type = ""};
  const Decision decision{.degraded = true, .rule = &rule};
  std::string out;

  EXPECT_FALSE(AnswersDegraded(decision));
  AppendDegradeMark(decision, out);
  rule.degrade.header = "x-mode: cached";
  AppendDegradeMark(decision, out);

  EXPECT_EQ(out, "x-degraded: 1\r\nx-mode: cached\r\n");
}

}  // namespace
}  // namespace flowguard::serve
