// SPDX-License-Identifier: Apache-2.0
//
// Costs that the upstream tells with its answer: reserved before the request goes,
// settled by a header of the response.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "serve/gateway_fixture_test.h"
#include "testing/fake_request.h"

namespace flowguard::serve {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::FakeRequest;
using testing::SocketClient;

std::string Answer(const std::string& lines) {
  return "HTTP/1.1 200 OK\r\n" + lines + "Content-Length: 2\r\n\r\nok";
}

struct GatewayCostTest : GatewayTest {
  static Rule Tokens(int64_t limit, int64_t reserve, int64_t max_debt) {
    Rule rule = Limit("tokens", limit);
    rule.cost = {.reserve = reserve, .settle = "header:X-Usage-Tokens", .max_debt = max_debt};
    return rule;
  }
  int64_t Remaining(std::string_view rule, FakeRequest::Values values = {}) {
    FakeRequest request("", std::move(values));
    request.method = "POST";
    request.path = "/v1/chat/x";
    for (const engine::Explanation& one : engine->Explain(request, clock.Now())) {
      if (one.rule == rule) return one.decision.remaining;
    }
    return -1;
  }
};

constexpr int kAtOnce = 60;

// Rules out that parallel requests all see the same budget and overspend it together.
TEST_F(GatewayCostTest, ParallelRequestsNeverSpendMoreThanThereIsAndTheUnusedComesBack) {
  RuleSet set;
  Rule rule = Tokens(100'000, 2'000, 20'000);
  rule.on.route = "POST /v1/chat/**";
  rule.rate.window = minutes(1);
  rule.by = {"user"};
  set.rules = {rule};
  DimensionSpec user;
  user.name = "user";
  user.source = "header:x-user-id";
  set.dimensions = {user};
  Open(set);
  const auto ask = [](SocketClient& client, const std::string& name) {
    client.Send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-User-Id: " + name +
                "\r\nContent-Length: 0\r\n\r\n");
  };

  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < kAtOnce; ++i) {
    clients.push_back(std::make_unique<SocketClient>(address.raw(), address.raw_size()));
    ask(*clients.back(), "ann");
  }
  const auto refused = [&] {
    int count = 0;
    for (const auto& client : clients)
      count += client->Poll().starts_with("HTTP/1.1 429") ? 1 : 0;
    return count;
  };
  ASSERT_TRUE(Until([&] { return refused() == 10 && upstream.requests() == 50; }));
  EXPECT_EQ(Remaining("tokens", {{"user", "ann"}}), 0);
  EXPECT_EQ(Remaining("tokens", {{"user", "bob"}}), 100'000);

  for (const auto& peer : upstream.peers)
    peer->Send(Answer("X-Usage-Tokens: 500\r\n"));
  ASSERT_TRUE(Until([&] { return counters().in_flight.load() == 0; }));
  EXPECT_EQ(Remaining("tokens", {{"user", "ann"}}), 75'000);
  EXPECT_EQ(counters().cost_unknown.load(), 0U);
}

TEST_F(GatewayCostTest, WhatIsAboveTheReservedUnitsBecomesDebt) {
  Open({Tokens(10'000, 4'000, 5'000)});
  upstream.AlwaysAnswer(Answer("x-usage-tokens: 12000\r\n"));
  SocketClient client = Dial();
  EXPECT_NE(Get(client, "/a").find("200 OK"), std::string::npos);
  EXPECT_EQ(Get(client, "/a").substr(0, 12), "HTTP/1.1 429");
  client.Close();
  // 2 000 units of debt, then the 4 000 to reserve, at 10 000 an hour.
  clock.Advance(seconds(2'159));
  SocketClient early = Dial();
  EXPECT_EQ(Get(early, "/a").substr(0, 12), "HTTP/1.1 429");
  clock.Advance(seconds(1));
  EXPECT_NE(Get(early, "/a").find("200 OK"), std::string::npos);
}

TEST_F(GatewayCostTest, AnAnswerWithoutAUsableCostCostsWhatWasReserved) {
  Open({Tokens(1'000'000, 1'000, 0)});
  const std::vector<std::string> answers = {
      "",
      "X-Usage-Tokens:\r\n",
      "X-Usage-Tokens: -5\r\n",
      "X-Usage-Tokens: +5\r\n",
      "X-Usage-Tokens: 12x\r\n",
      "X-Usage-Tokens: 1.5\r\n",
      "X-Usage-Tokens: 0x10\r\n",
      "X-Usage-Tokens: 7, 7\r\n",
      "X-Usage-Tokens: 7\r\nX-Usage-Tokens: 8\r\n",
  };
  int64_t left = 1'000'000;
  uint64_t unknown = 0;
  for (const std::string& lines : answers) {
    SCOPED_TRACE(lines);
    upstream.AlwaysAnswer(Answer(lines));
    SocketClient client = Dial();
    ASSERT_NE(Get(client, "/a").find("200 OK"), std::string::npos);
    EXPECT_EQ(Remaining("tokens"), left -= 1'000);
    EXPECT_EQ(counters().cost_unknown.load(), ++unknown);
  }
}

TEST_F(GatewayCostTest, ACostBeyondAllBoundsIsTheMostThereIs) {
  Open({Tokens(1'000, 10, 50)});
  upstream.AlwaysAnswer(Answer("X-Usage-Tokens: 99999999999999999999\r\n"));
  SocketClient client = Dial();
  Get(client, "/a");
  EXPECT_EQ(Remaining("tokens"), 0);
  EXPECT_EQ(counters().cost_unknown.load(), 0U);
}

TEST_F(GatewayCostTest, TwoRulesSettleByHeadersOfTheirOwn) {
  Rule bytes = Limit("bytes", 10'000);
  bytes.cost = {.reserve = 1'000, .settle = "header:x-bytes", .max_debt = 0};
  Open({Tokens(10'000, 1'000, 0), bytes, Limit("calls", 10)});
  upstream.AlwaysAnswer(Answer("X-USAGE-TOKENS: 0\r\nX-Bytes: 3000\r\n"));
  SocketClient client = Dial();
  const std::string answer = Get(client, "/a");
  EXPECT_NE(answer.find("X-USAGE-TOKENS: 0\r\n"), std::string::npos) << "the client sees it too";
  EXPECT_EQ(Remaining("tokens"), 10'000);
  EXPECT_EQ(Remaining("bytes"), 7'000);
  EXPECT_EQ(Remaining("calls"), 9);
}

TEST_F(GatewayCostTest, AClientThatLeavesPaysWhatTheHeadSaidOrElseWhatWasReserved) {
  Open({Tokens(10'000, 1'000, 0)});
  for (const bool head : {false, true}) {
    SocketClient client = Dial();
    client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    ScriptedUpstream::Peer& peer = PeerWith(head ? 1 : 0, "\r\n\r\n");
    if (head) {
      peer.Send("HTTP/1.1 200 OK\r\nX-Usage-Tokens: 10\r\nContent-Length: 9\r\n\r\n");
      ASSERT_TRUE(UntilReceived(client, "\r\n\r\n"));
    }
    client.Reset();
    ASSERT_TRUE(Until([&] { return counters().in_flight.load() == 0; }));
    EXPECT_EQ(Remaining("tokens"), head ? 8'990 : 9'000);
  }
}

TEST_F(GatewayCostTest, AnUpstreamThatFailsCostsWhatWasReserved) {
  Open({Tokens(10'000, 1'000, 0)});
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Close();
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
  EXPECT_EQ(Remaining("tokens"), 9'000);
}

}  // namespace
}  // namespace flowguard::serve
