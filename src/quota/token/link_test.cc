// SPDX-License-Identifier: Apache-2.0
#include "quota/token/link.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quota/token/fake_token_server_test.h"

namespace flowguard::quota::token {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using wire::token::Answer;

struct LinkTest : TokenClientTest, LinkOwner {
  void OnUp(Link& /*link*/) noexcept override { ++ups; }
  void OnDown(Link& /*link*/, std::string_view why) noexcept override { downs.emplace_back(why); }
  void OnClients(Link& /*link*/, int32_t clients) noexcept override { told_clients = clients; }
  void OnAnswer(uint64_t ticket, const Answer* answer) noexcept override {
    ended.emplace_back(ticket, answer != nullptr ? std::optional(answer->status) : std::nullopt);
    if (answer != nullptr) last = *answer;
  }

  void Make(std::string name_space = "app") {
    LinkOptions options;
    options.endpoint = server.endpoint();
    options.name_space = std::move(name_space);
    link = std::make_unique<Link>(*loop, options, static_cast<LinkOwner&>(*this), 1);
    link->Start();
    Turn();
    server.Questions();
    Turn();
  }
  bool Ask(int64_t flow_id, uint64_t ticket, Duration in = 20ms) {
    const bool asked = link->Ask({.flow_id = flow_id}, loop->Now() + in, ticket);
    Turn();
    return asked;
  }
  // `count` questions that nobody answers in time.
  void Miss(int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(Ask(1, 100 + static_cast<uint64_t>(i)));
      Advance(21ms);
    }
  }

  FakeTokenServer server{*loop};
  std::unique_ptr<Link> link;
  int ups = 0;
  std::vector<std::string> downs;
  int32_t told_clients = 0;
  std::vector<std::pair<uint64_t, std::optional<Status>>> ended;
  Answer last;
};

TEST_F(LinkTest, RegistersAndIsReadyOnceTheServerSaysSomething) {
  server.clients = 0;  // says nothing
  Make();
  EXPECT_FALSE(link->ready());
  EXPECT_FALSE(Ask(7, 1));
  EXPECT_THAT(server.names(), ElementsAre("app"));

  std::string pong;
  wire::token::AppendPong(0, 3, pong);
  server.Send(pong);
  Turn();
  EXPECT_TRUE(link->ready());
  EXPECT_EQ(told_clients, 3);
  EXPECT_EQ(ups, 1);
}

TEST_F(LinkTest, AsksAgainHowManyClientsThereAre) {
  Make();
  server.clients = 5;
  Advance(5s);
  server.Questions();
  Turn();
  EXPECT_EQ(told_clients, 5);
  EXPECT_EQ(server.names().size(), 2u);
}

TEST_F(LinkTest, QuestionsOfATurnGoInOneWriteAndAnswersComeInAnyOrder) {
  Make();
  const size_t reads = server.reads();
  for (const uint64_t ticket : {uint64_t{11}, uint64_t{12}, uint64_t{13}})
    ASSERT_TRUE(link->Ask({.flow_id = 1000 + static_cast<int64_t>(ticket), .count = 2},
                          loop->Now() + 20ms, ticket));
  Turn();
  const std::vector<Asked> asked = server.Questions();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(server.reads(), reads + 1);
  EXPECT_EQ(asked[1].flow_id, 1012);
  EXPECT_EQ(asked[1].count, 2);

  server.Answer(asked[2], Status::kOk, 9);
  server.Answer(asked[0], Status::kBlocked);
  server.Answer(asked[1], Status::kShouldWait, 0, 200);
  Turn();
  EXPECT_THAT(ended, ElementsAre(std::pair(uint64_t{13}, std::optional(Status::kOk)),
                                 std::pair(uint64_t{11}, std::optional(Status::kBlocked)),
                                 std::pair(uint64_t{12}, std::optional(Status::kShouldWait))));
  EXPECT_EQ(last.wait_ms, 200);
  EXPECT_EQ(link->pending(), 0u);
}

TEST_F(LinkTest, AKeyIsSentAsOneTextAndATokenIsAskedFor) {
  Make();
  ASSERT_TRUE(
      link->Ask({.type = Type::kParamFlow, .flow_id = 5, .text = "acme"}, loop->Now() + 20ms, 1));
  ASSERT_TRUE(link->Ask({.type = Type::kConcurrentAcquire, .flow_id = 6, .count = 3},
                        loop->Now() + 20ms, 2));
  ASSERT_TRUE(link->Release(77));
  Turn();
  const std::vector<Asked> asked = server.Questions();
  ASSERT_EQ(asked.size(), 3u);
  std::string value;
  wire::token::AppendStringValue("acme", value);
  EXPECT_EQ(asked[0].values, value);
  EXPECT_EQ(asked[1].count, 3);
  EXPECT_EQ(asked[2].token_id, 77);
  server.AnswerToken(asked[1], Status::kOk, 4711);
  Turn();
  EXPECT_EQ(last.token_id, 4711);
}

TEST_F(LinkTest, WhatIsNotAnsweredInTimeEndsAndItsLateAnswerIsDropped) {
  Make();
  ASSERT_TRUE(Ask(7, 1));
  const std::vector<Asked> asked = server.Questions();
  Advance(19ms);
  EXPECT_TRUE(ended.empty());
  Advance(2ms);
  EXPECT_THAT(ended, ElementsAre(std::pair(uint64_t{1}, std::optional<Status>())));

  ASSERT_TRUE(Ask(7, 2));  // has the place of the first
  server.Answer(asked[0], Status::kOk);
  Turn();
  EXPECT_EQ(ended.size(), 1u) << "not the answer of the second";
  EXPECT_EQ(link->metrics().late.load(), 1u);
  EXPECT_EQ(link->pending(), 1u);
}

TEST_F(LinkTest, AServerThatAnswersNothingIsBrokenUntilItDoes) {
  Make();
  Miss(4);
  EXPECT_TRUE(link->ready());
  server.clients = 0;
  Miss(1);
  EXPECT_FALSE(link->ready());
  EXPECT_FALSE(Ask(7, 9));
  EXPECT_EQ(downs.back(), "it does not answer in time");
  server.Questions();
  const size_t pings = server.names().size();
  Advance(100ms);
  server.Questions();
  EXPECT_EQ(server.names().size(), pings + 1) << "asks whether it is back";

  server.clients = 2;
  Advance(200ms);
  server.Questions();
  Turn();
  EXPECT_TRUE(link->ready());
  EXPECT_EQ(server.accepted(), 1u) << "on the same connection";
}

TEST_F(LinkTest, AnAnswerInBetweenKeepsItFromBreaking) {
  Make();
  Miss(4);
  ASSERT_TRUE(Ask(7, 1));
  server.Answer(server.Questions().back(), Status::kOk);
  Turn();
  Miss(4);
  EXPECT_TRUE(link->ready());
}

TEST_F(LinkTest, AServerThatAnswersTooLateIsBrokenAndStaysSo) {
  Make();
  server.clients = 0;
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) {
    ASSERT_TRUE(Ask(7, ticket));
    const Asked asked = server.Questions().at(0);
    Advance(21ms);
    server.Answer(asked, Status::kOk);
    Turn();
  }
  EXPECT_FALSE(link->ready());
  EXPECT_EQ(link->metrics().late.load(), 5u);

  // A ping is answered, and too late.
  Advance(100ms);
  server.Questions();
  Advance(25ms);
  std::string pong;
  wire::token::AppendPong(-2, 1, pong);
  server.Send(pong);
  Turn();
  EXPECT_FALSE(link->ready());
}

// Whoever asked has gone on without it.
TEST_F(LinkTest, ATokenThatComesTooLateGoesBackAlsoWhileTheServerIsBroken) {
  Make();
  for (const bool broken : {false, true}) {
    ASSERT_TRUE(link->Ask({.type = Type::kConcurrentAcquire, .flow_id = 7}, loop->Now() + 20ms, 1));
    Turn();
    const Asked asked = server.Questions().at(0);
    server.clients = 0;
    Advance(21ms);
    if (broken) Miss(3);
    EXPECT_EQ(link->ready(), !broken);
    server.Questions();
    server.AnswerToken(asked, Status::kOk, 99);
    Turn();
    const std::vector<Asked> after = server.Questions();
    ASSERT_EQ(after.size(), 1u);
    EXPECT_EQ(after[0].token_id, 99);
  }
  EXPECT_TRUE(link->Release(100)) << "of a call that ends meanwhile";
}

TEST_F(LinkTest, QuestionsWithLittleTimeTellNothingOfTheServer) {
  Make();
  for (uint64_t ticket = 1; ticket <= 10; ++ticket) {
    ASSERT_TRUE(Ask(7, ticket, 1ms));
    Advance(2ms);
  }
  EXPECT_EQ(ended.size(), 10u);
  EXPECT_TRUE(link->ready());
}

TEST_F(LinkTest, EachQuestionEndsAtItsOwnDeadline) {
  Make();
  ASSERT_TRUE(Ask(7, 1, 30ms));
  ASSERT_TRUE(Ask(7, 2, 20ms));
  ASSERT_TRUE(Ask(7, 3, 25ms));
  std::vector<uint64_t> order;
  for (int i = 0; i < 7; ++i) {
    Advance(5ms);
    const size_t due = i < 3 ? 0 : i == 3 ? 1 : i == 4 ? 2 : 3;
    EXPECT_EQ(ended.size(), due) << i;
  }
  for (const auto& [ticket, status] : ended)
    order.push_back(ticket);
  EXPECT_THAT(order, ElementsAre(2, 3, 1));
}

TEST_F(LinkTest, WhatASlowServerDoesNotTakeIsBoundedAndNothingOfItIsLost) {
  Make();
  const std::string text(1'000, 'x');
  uint64_t asked = 0;
  while (link->Ask({.type = Type::kParamFlow, .flow_id = 1, .text = text}, loop->Now() + 20ms,
                   asked)) {
    ++asked;
    ASSERT_LE(asked, base::kTokenAsksMax);
    if (asked % 64 == 0) loop->RunOnce(Duration::zero());
  }
  size_t received = 0;
  for (int i = 0; i < 10'000 && received < asked; ++i) {
    received += server.Questions().size();
    loop->RunOnce(Duration::zero());
  }
  EXPECT_EQ(received, asked);
  EXPECT_TRUE(link->Ask({.flow_id = 1}, loop->Now() + 20ms, 1)) << "there is room again";
}

TEST_F(LinkTest, ABrokenServerThatStaysSilentIsConnectedAnew) {
  Make();
  server.clients = 0;
  Miss(5);
  for (int i = 0; i < 30 && server.accepted() == 1; ++i)
    Advance(500ms);
  EXPECT_EQ(server.accepted(), 2u);
}

TEST_F(LinkTest, ALostConnectionEndsWhatWaitsAndComesBack) {
  Make();
  ASSERT_TRUE(Ask(7, 1));
  ASSERT_TRUE(Ask(8, 2));
  server.Drop();
  Turn();
  EXPECT_THAT(ended, ElementsAre(std::pair(uint64_t{1}, std::optional<Status>()),
                                 std::pair(uint64_t{2}, std::optional<Status>())));
  EXPECT_FALSE(link->ready());
  Advance(20ms);
  server.Questions();
  Turn();
  EXPECT_TRUE(link->ready());
  EXPECT_EQ(ups, 2);
}

TEST_F(LinkTest, TriesForEverAtMostHalfASecondApart) {
  Make();
  server.Down();
  Turn();
  for (int i = 0; i < 1'200; ++i)
    Advance(500ms);  // ten minutes
  EXPECT_FALSE(link->ready());
  server.Up();
  Advance(500ms);
  server.Questions();
  Turn();
  EXPECT_TRUE(link->ready());
}

TEST_F(LinkTest, NamesNobodyWhereItDoesNotRegister) {
  Make("");
  EXPECT_TRUE(link->ready());
  EXPECT_THAT(server.names(), ElementsAre(""));
  EXPECT_EQ(told_clients, 0);
}

TEST_F(LinkTest, WhatIsNoAnswerClosesTheConnection) {
  Make();
  ASSERT_TRUE(Ask(7, 1));
  server.Send(std::string(4'096, '\xff'));
  Turn();
  EXPECT_FALSE(link->ready());
  EXPECT_THAT(ended, ElementsAre(std::pair(uint64_t{1}, std::optional<Status>())));
}

TEST_F(LinkTest, AnswersComeByteByByte) {
  Make();
  ASSERT_TRUE(Ask(7, 1));
  const Asked asked = server.Questions().back();
  std::string bytes;
  wire::token::AppendFlowAnswer(asked.xid, asked.type, Status::kOk, 5, 0, bytes);
  for (const char byte : bytes) {
    EXPECT_TRUE(ended.empty());
    server.Send(std::string_view(&byte, 1));
    Turn();
  }
  EXPECT_EQ(last.remaining, 5);
}

}  // namespace
}  // namespace flowguard::quota::token
