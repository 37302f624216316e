// SPDX-License-Identifier: Apache-2.0
//
// System rules and statistics at the gateway: everything that goes upstream counts.
#include <string>

#include <gtest/gtest.h>

#include "serve/gateway_fixture_test.h"
#include "testing/rules.h"

namespace flowguard::serve {
namespace {

using namespace std::chrono_literals;
using testing::MostCpu;
using testing::MostInflight;
using testing::MostQps;
using testing::RuleOfSystem;
using testing::SocketClient;

struct GatewaySystemTest : GatewayTest {
  GatewaySystemTest() {
    engine::EngineOptions counting;
    counting.statistics = true;
    engine = std::move(engine::Engine::Create(counting)).value();
  }
  [[nodiscard]] engine::StatisticsReport Report() const {
    return engine->ReportStatistics({.resource = {}, .most = 100}, clock.Now());
  }
};

TEST_F(GatewaySystemTest, AnOverloadedProcessRefusesWithoutAskingTheUpstream) {
  upstream.AlwaysAnswer(std::string(kOk));
  Open({RuleOfSystem("machine", MostCpu(0.85))});
  SocketClient client = Dial();
  EXPECT_NE(Get(client, "/").find(" 200 "), std::string::npos);
  engine->SetSystemReading({.cpu = 0.95, .load = {}});

  const std::string refusal = Get(client, "/");

  EXPECT_NE(refusal.find("HTTP/1.1 503 "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("Retry-After: 1\r\n"), std::string::npos) << refusal;
  EXPECT_EQ(upstream.requests(), 1U);
  engine->SetSystemReading({});
  EXPECT_NE(Get(client, "/").find(" 200 "), std::string::npos);
}

// The rule meets one path alone, and counts what is in progress at all of them.
TEST_F(GatewaySystemTest, CallsInProgressCountWhateverRuleTheyMeet) {
  Rule rule = RuleOfSystem("machine", MostInflight(2));
  rule.on.route = "/dear";
  Open({rule});
  SocketClient first = Dial();
  SocketClient second = Dial();
  first.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "/a");
  second.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(1, "/b");
  SocketClient third = Dial();
  EXPECT_NE(Get(third, "/dear").find(" 503 "), std::string::npos);
  upstream.peers[0]->Send(kOk);
  ASSERT_TRUE(UntilReceived(first, "ok"));
  upstream.AlwaysAnswer(std::string(kOk));
  EXPECT_NE(Get(third, "/dear").find(" 200 "), std::string::npos);
}

TEST_F(GatewaySystemTest, AClientThatLeavesGivesItsPlaceBack) {
  Open({RuleOfSystem("machine", MostInflight(1))});
  SocketClient leaves = Dial();
  leaves.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "/a");
  EXPECT_EQ(Report().entrance.inflight, 1);
  leaves.Reset();
  ASSERT_TRUE(Until([&] { return Report().entrance.inflight == 0; }));
  EXPECT_EQ(Report().entrance.second.succeeded, 0);
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  EXPECT_NE(Get(client, "/a").find(" 200 "), std::string::npos);
}

TEST_F(GatewaySystemTest, RequestsOfASecondAreHeldToTheNumber) {
  upstream.AlwaysAnswer(std::string(kOk));
  Open({RuleOfSystem("machine", MostQps(2))});
  SocketClient client = Dial();
  EXPECT_NE(Get(client, "/").find(" 200 "), std::string::npos);
  EXPECT_NE(Get(client, "/").find(" 200 "), std::string::npos);
  EXPECT_NE(Get(client, "/").find(" 503 "), std::string::npos);
  clock.Advance(1100ms);
  Turn();
  EXPECT_NE(Get(client, "/").find(" 200 "), std::string::npos);
}

// Statistics name a request by the route of its rule, and time the upstream.
TEST_F(GatewaySystemTest, ARouteIsCountedWithTheTimeOfItsUpstream) {
  Rule orders = Limit("orders", 2);
  orders.on.route = "GET /orders/{id}";
  Open({orders});
  SocketClient client = Dial();
  client.Send("GET /orders/7 HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "/orders/7");
  clock.Advance(40ms);
  Turn();
  upstream.peers[0]->Send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno");
  ASSERT_TRUE(UntilReceived(client, "no"));
  upstream.AlwaysAnswer(std::string(kOk));
  EXPECT_NE(Get(client, "/orders/8").find(" 200 "), std::string::npos);
  EXPECT_NE(Get(client, "/orders/9").find(" 429 "), std::string::npos);
  EXPECT_NE(Get(client, "/elsewhere").find(" 200 "), std::string::npos);

  const engine::StatisticsReport report = Report();
  ASSERT_EQ(report.resources.size(), 1U);
  EXPECT_EQ(report.resources[0].resource, "GET /orders/{id}");
  EXPECT_EQ(report.resources[0].second.passed, 2);
  EXPECT_EQ(report.resources[0].second.blocked, 1);
  EXPECT_EQ(report.resources[0].second.succeeded, 2);
  EXPECT_EQ(report.resources[0].second.failed, 1);
  EXPECT_GE(report.resources[0].second.rt_sum, 40ms);
  EXPECT_EQ(report.entrance.second.passed, 3);
  EXPECT_EQ(report.entrance.inflight, 0);
}

}  // namespace
}  // namespace flowguard::serve
