// SPDX-License-Identifier: Apache-2.0
//
// What a client sees of a refusal must be a well-formed message, whatever a rule file
// says.
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rules/check_rule.h"

namespace flowguard::rules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckAnswerTest : public testing::Test {
 protected:
  Faults Check() {
    Faults faults;
    FaultsAt at("rule", faults);
    CheckAnswer(rule_, at);
    return faults;
  }
  Rule rule_;
};

TEST_F(CheckAnswerTest, DefaultsAreFine) {
  const Faults faults = Check();

  EXPECT_THAT(faults.errors, IsEmpty());
  EXPECT_THAT(faults.warnings, IsEmpty());
}

TEST_F(CheckAnswerTest, StatusIsAnError) {
  rule_.refuse.status = 200;
  EXPECT_THAT(Check().errors, ElementsAre("rule: refuse.status: found 200; allowed 400 to 599"));

  rule_.refuse.status = 600;
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("found 600")));
}

TEST_F(CheckAnswerTest, UnusualStatusIsAWarning) {
  rule_.refuse.status = 418;

  EXPECT_THAT(Check().errors, IsEmpty());
  EXPECT_THAT(Check().warnings, ElementsAre(HasSubstr("418 is unusual")));
}

// Rules out header injection through a rule.
TEST_F(CheckAnswerTest, HeadersCannotCarryASecondOne) {
  rule_.refuse.headers = {
      {"x-a", "1\r\nset-cookie: a=b"}, {"x-b\r\nx", "1"}, {"x-c", "\x7f"}, {"", "1"}, {"x d", "1"}};

  EXPECT_THAT(Check().errors,
              ElementsAre(HasSubstr("header x-a: found a line break"), HasSubstr("header name"),
                          HasSubstr("header x-c: found a line break or control"),
                          HasSubstr("header name"), HasSubstr("header name")));
}

TEST_F(CheckAnswerTest, HeadersCannotChangeTheFraming) {
  rule_.refuse.headers = {{"Content-Length", "0"}, {"TRANSFER-ENCODING", "chunked"}};

  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("header content-length, which the server"),
                                          HasSubstr("header transfer-encoding")));
}

// Rules out headers that load and are never sent.
TEST_F(CheckAnswerTest, HeadersOfTheServerAreItsOwn) {
  rule_.refuse.headers = {{"Date", "x"}, {"X-RateLimit-Limit", "7"}, {"ratelimit-policy", "x"}};

  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("header date, which the server"),
                                          HasSubstr("header x-ratelimit-limit, which the server"),
                                          HasSubstr("header ratelimit-policy, which the server")));
}

TEST_F(CheckAnswerTest, MessageMayHaveLinesAndAnyLanguage) {
  rule_.refuse.message = "\xe7\xb3\xbb\xe7\xbb\x9f\nbusy";
  EXPECT_THAT(Check().errors, IsEmpty());

  rule_.refuse.message = std::string("a\0b", 3);
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("refuse.message: found a control character")));

  rule_.refuse.message = std::string(20'000, 'x');
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("refuse.message: found 20000 bytes")));
}

TEST_F(CheckAnswerTest, DegradeFieldsNeedDegrade) {
  rule_.degrade.header = "x-degraded: 1";

  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("degrade: found its fields")));
}

TEST_F(CheckAnswerTest, DegradeHeaderIsOneWellFormedLine) {
  rule_.degrade.enabled = true;
  rule_.degrade.header = "x-degraded: 1";
  EXPECT_THAT(Check().errors, IsEmpty());

  rule_.degrade.header = "x-degraded";
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("write \"name: value\"")));

  rule_.degrade.header = "x: 1\r\nhost: evil";
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("found a line break")));

  rule_.degrade.header = "Host: evil";
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("header host")));
}

TEST_F(CheckAnswerTest, DegradeAnswerNeedsAStatusThatHasABody) {
  rule_.degrade.enabled = true;
  rule_.degrade.body = "{}";
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("degrade.status: missing beside body")));

  rule_.degrade.status = 204;
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("beside status 204")));

  rule_.degrade.status = 100;
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("found 100; allowed 200 to 599")));

  rule_.degrade.status = 200;
  EXPECT_THAT(Check().errors, IsEmpty());

  rule_.degrade.content_type = "text/plain\r\nx: y";
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("header content-type")));
}

// Rules out fields that load and are never looked at.
TEST_F(CheckAnswerTest, DegradeMarksOrAnswersAndNeverRefuses) {
  rule_.degrade.enabled = true;
  rule_.degrade.header = "x-degraded: 1";
  rule_.degrade.status = 200;
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("degrade.header: found beside status")));

  rule_.degrade.header.clear();
  rule_.refuse.message = "no";
  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("refuse: found beside degrade")));

  rule_.wait = std::chrono::seconds(1);
  EXPECT_THAT(Check().errors, IsEmpty()) << "a server with no room for one more wait refuses";
}

TEST_F(CheckAnswerTest, AccessRulesDoNotDegrade) {
  rule_.kind = RuleKind::kAccess;
  rule_.degrade.enabled = true;

  EXPECT_THAT(Check().errors, ElementsAre(HasSubstr("degrade: found here; it belongs to")));
}

}  // namespace
}  // namespace flowguard::rules
