// SPDX-License-Identifier: Apache-2.0
//
// /v1/enter and /v1/exit: calls that have an end.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/decision_api_fixture_test.h"

namespace flowguard::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string IdOf(const std::string& answer) {
  const size_t at = answer.find("\"id\":\"");
  return at == std::string::npos ? "" : answer.substr(at + 6, 32);
}

TEST(DecisionApiTest, AnEntryHoldsConcurrencyUntilItsExit) {
  Api api({Concurrency(1)});
  HandlerClient& client = api.client();

  const std::string id = IdOf(client.Post("/v1/enter", R"({"resource":"db"})"));
  ASSERT_EQ(id.size(), 32u);
  EXPECT_THAT(client.Post("/v1/enter", R"({"resource":"db"})"),
              HasSubstr(R"("allowed":false,"verdict":"refuse","reason":"concurrency")"));

  EXPECT_THAT(client.Post("/v1/exit", R"({"id":")" + id + R"(","outcome":"ok"})"),
              HasSubstr(R"({"settled":true})"));
  EXPECT_THAT(client.Post("/v1/enter", R"({"resource":"db"})"), HasSubstr(R"("allowed":true)"));
}

TEST(DecisionApiTest, ASecondExitIs404AndChangesNothing) {
  Api api({Concurrency(1)});
  HandlerClient& client = api.client();
  const std::string id = IdOf(client.Post("/v1/enter", R"({"resource":"db"})"));
  const std::string exit = R"({"id":")" + id + R"("})";
  client.Post("/v1/exit", exit);
  client.Post("/v1/enter", R"({"resource":"db"})");

  const std::string answer = client.Post("/v1/exit", exit);

  EXPECT_EQ(StatusOf(answer), "404");
  EXPECT_THAT(answer, HasSubstr("no open entry has this id"));
  EXPECT_THAT(client.Post("/v1/enter", R"({"resource":"db"})"), HasSubstr(R"("allowed":false)"));
}

// A caller that dies between enter and exit must not hold its slot for ever.
TEST(DecisionApiTest, AnEntryWhoseTimeIsOverIsSettled) {
  Api api({Concurrency(1)});
  HandlerClient& client = api.client();
  const std::string id = IdOf(client.Post("/v1/enter", R"({"resource":"db","ttl_ms":1000})"));

  api.Advance(milliseconds(1'000));

  EXPECT_EQ(StatusOf(client.Post("/v1/exit", R"({"id":")" + id + R"("})")), "404");
  EXPECT_THAT(client.Post("/v1/enter", R"({"resource":"db"})"), HasSubstr(R"("allowed":true)"));
}

TEST(DecisionApiTest, TheActualCostIsSettled) {
  Rule rule = Limit("tokens", 100, seconds(3'600));
  rule.cost = {.reserve = 60, .settle = "", .max_debt = 0};
  Api api({rule});
  HandlerClient& client = api.client();
  const std::string id = IdOf(client.Post("/v1/enter", R"({"resource":"llm"})"));
  EXPECT_THAT(client.Post("/v1/check", R"({"resource":"llm"})"), HasSubstr(R"("allowed":false)"));

  client.Post("/v1/exit", R"({"id":")" + id + R"(","actual_cost":10})");

  EXPECT_THAT(client.Post("/v1/check", R"({"resource":"llm"})"), HasSubstr(R"("allowed":true)"));
}

// Rules out: calls that no rule matches filling the table of open entries.
TEST(DecisionApiTest, AnEnterThatNoRuleMatchesTakesNoPlaceAndItsExitIsGood) {
  Api api({});
  HandlerClient& client = api.client();
  for (int i = 0; i < 5; ++i) {  // the table has room for two
    const std::string answer = client.Post("/v1/enter", R"({"resource":"x"})");
    EXPECT_THAT(answer, HasSubstr(R"("allowed":true)"));
    EXPECT_EQ(IdOf(answer), std::string(32, '0'));
  }
  EXPECT_EQ(api.entries().Counters().open, 0u);

  const std::string exit = R"({"id":"00000000000000000000000000000000","outcome":"error"})";
  EXPECT_THAT(client.Post("/v1/exit", exit), HasSubstr(R"({"settled":true})"));
  EXPECT_THAT(client.Post("/v1/exit", exit), HasSubstr(R"({"settled":true})"));
}

TEST(DecisionApiTest, AFullTableRefusesAndHoldsNothing) {
  Api api({Concurrency(3)});
  HandlerClient& client = api.client();
  client.Post("/v1/enter", R"({"resource":"db"})");
  client.Post("/v1/enter", R"({"resource":"db"})");

  const std::string answer = client.Post("/v1/enter", R"({"resource":"db"})");

  EXPECT_EQ(StatusOf(answer), "503");
  EXPECT_EQ(api.engine().Counters().rules.at(0).inflight, 2);
}

// --- what proxies and applications tell wrongly

}  // namespace
}  // namespace flowguard::serve
