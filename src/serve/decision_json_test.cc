// SPDX-License-Identifier: Apache-2.0
#include "serve/decision_json.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string CheckError(std::string_view body) {
  const auto question = ReadQuestion(body, QuestionKind::kCheck);
  return question.ok() ? "" : question.error().message;
}

std::string EnterError(std::string_view body) {
  const auto question = ReadQuestion(body, QuestionKind::kEnter);
  return question.ok() ? "" : question.error().message;
}

std::string ExitError(std::string_view body) {
  const auto exit = ReadExit(body);
  return exit.ok() ? "" : exit.error().message;
}

TEST(DecisionJsonTest, AWholeQuestionIsRead) {
  const auto question = ReadQuestion(
      R"({"resource":"r","method":"POST","path":"/p","dimensions":{"user":"u","n":7,"none":null},)"
      R"("cost":3,"peek":true})",
      QuestionKind::kCheck);

  ASSERT_TRUE(question.ok()) << question.error().message;
  EXPECT_EQ(question->resource, "r");
  EXPECT_EQ(question->method, "POST");
  EXPECT_EQ(question->path, "/p");
  ASSERT_EQ(question->dimensions.size(), 2u);
  EXPECT_EQ(question->dimensions[0], std::make_pair(std::string("user"), std::string("u")));
  EXPECT_EQ(question->dimensions[1], std::make_pair(std::string("n"), std::string("7")));
  EXPECT_EQ(question->cost, 3);
  EXPECT_TRUE(question->peek);
}

TEST(DecisionJsonTest, EachFaultSaysWhereWhatAndWhatIsAllowed) {
  EXPECT_THAT(CheckError("{"), StartsWith("request:1:"));
  EXPECT_THAT(CheckError(""), StartsWith("request:1:1"));
  EXPECT_THAT(CheckError("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(CheckError("{}"), HasSubstr("neither resource nor path"));
  EXPECT_THAT(CheckError(R"({"resource":7})"), HasSubstr("resource: \"7\"; expected a string"));
  EXPECT_THAT(CheckError(R"({"resource":"r","method":"P T"})"), HasSubstr("an HTTP method"));
  EXPECT_THAT(CheckError(R"({"path":"p"})"), HasSubstr("begins with"));
  EXPECT_THAT(CheckError(R"({"resource":"r","dimensions":[]})"), HasSubstr("expected an object"));
  EXPECT_THAT(CheckError(R"({"resource":"r","dimensions":{"u":{}}})"),
              HasSubstr("u: a map; expected a string or a number, or a list of them"));
  EXPECT_THAT(CheckError(R"({"resource":"r","peek":1})"), HasSubstr("expected true or false"));
}

TEST(DecisionJsonTest, CostIsAWholeNumberThatIsNotNegative) {
  for (const char* cost : {"-1", "1.5", "1e3", "\"1\"", "99999999999999999999", "true", "null"}) {
    EXPECT_THAT(CheckError(std::string(R"({"resource":"r","cost":)") + cost + "}"),
                HasSubstr("expected a whole number from 0 to "))
        << cost;
  }
}

TEST(DecisionJsonTest, PeekBelongsToCheckAndTtlToEnter) {
  EXPECT_THAT(EnterError(R"({"resource":"r","peek":true})"), HasSubstr("\"peek\" is not known"));
  EXPECT_THAT(CheckError(R"({"resource":"r","ttl_ms":1})"), HasSubstr("\"ttl_ms\" is not known"));
  EXPECT_THAT(EnterError(R"({"resource":"r","ttl_ms":0})"), HasSubstr("from 1 to 3600000"));
  EXPECT_EQ(EnterError(R"({"resource":"r","ttl_ms":3600000})"), "");
}

TEST(DecisionJsonTest, TooManyDimensionsAreRefused) {
  std::string body = R"({"resource":"r","dimensions":{)";
  for (int i = 0; i < 65; ++i) {
    body += (i == 0 ? "\"d" : ",\"d") + std::to_string(i) + "\":\"v\"";
  }

  EXPECT_THAT(CheckError(body + "}}"), HasSubstr("65 of them; allowed are 64"));
}

TEST(DecisionJsonTest, AListIsEachOfItsValues) {
  const auto question =
      ReadQuestion(R"({"resource":"r","dimensions":{"a":["x",7,"x"],"b":[],"c":["y"],"d":"z"}})",
                   QuestionKind::kCheck);

  ASSERT_TRUE(question.ok()) << question.error().message;
  using Values = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(question->dimensions,
            (Values{{"a", "x"}, {"a", "7"}, {"a", "x"}, {"c", "y"}, {"d", "z"}}));
}

TEST(DecisionJsonTest, AFaultInAListSaysWhereWhatAndWhatIsAllowed) {
  const auto list = [](const std::string& items) {
    return "{\"resource\":\"r\",\"dimensions\":{\n\"u\":[" + items + "]}}";
  };
  for (const auto& [item, found] :
       {std::pair("[]", "a list"), {"{}", "a map"}, {"null", "nothing"}})
    EXPECT_EQ(
        CheckError(list("\"a\", " + std::string(item))),
        "request:2:11: u: " + std::string(found) + " in a list; expected a string or a number");
  std::string items = "\"v\"";
  for (int i = 1; i < 32; ++i)
    items += ",\"v\"";
  EXPECT_EQ(CheckError(list(items)), "");
  EXPECT_EQ(CheckError(list(items + ",1")), "request:2:5: u: 33 values; allowed are 32");
}

TEST(DecisionJsonTest, AnExitIsReadWithItsOutcomeAndCost) {
  const auto exit =
      ReadExit(R"({"id":"0123456789abcdef0123456789abcdef","outcome":"error","actual_cost":12})");

  ASSERT_TRUE(exit.ok()) << exit.error().message;
  EXPECT_EQ(exit->id.ToString(), "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(exit->outcome, Outcome::kError);
  EXPECT_EQ(exit->actual_cost, 12);
}

TEST(DecisionJsonTest, ABadExitSaysWhat) {
  EXPECT_THAT(ExitError("{}"), HasSubstr("no id"));
  EXPECT_THAT(ExitError(R"({"id":"x"})"), HasSubstr("the 32 digits"));
  EXPECT_THAT(ExitError(R"({"id":"0123456789abcdef0123456789abcdef","outcome":"fine"})"),
              HasSubstr("\"ok\", \"error\""));
  EXPECT_THAT(ExitError(R"({"ids":"x"})"), HasSubstr("allowed are id, outcome, actual_cost"));
}

}  // namespace
}  // namespace flowguard::serve
