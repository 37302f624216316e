// SPDX-License-Identifier: Apache-2.0
//
// Requests whose decision needs a store: it answers at once, late, twice, from its
// own thread, with a failure, never, or to nobody any more.
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "serve/gateway_fixture_test.h"
#include "serve/store_patience.h"
#include "testing/fake_quota_store.h"
#include "testing/rules.h"

namespace flowguard::serve {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::FakeQuotaStore;
using testing::SharedRule;
using testing::SocketClient;
using Script = FakeQuotaStore::Script;

// With a deadline of 20 ms.
constexpr Duration kOverdue = milliseconds(21) + kStoreTellMax;

struct GatewayStoreTest : GatewayTest {
  GatewayStoreTest() {
    engine::EngineOptions with;
    with.remote_allowed = true;
    with.fallback_nodes = 2;
    engine = std::move(engine::Engine::Create(with)).value();
    store = &fake;
    options.store_deadline = milliseconds(20);
    upstream.AlwaysAnswer(std::string(kOk));
  }
  void TearDown() override { gateway.reset(); }  // before the store

  static Rule Shared(int64_t limit, StoreFailurePolicy policy = StoreFailurePolicy::kClosed) {
    return SharedRule("shared", limit, hours(1), policy);
  }
  // Sends a request whose take stays open.
  void AskAndWait(SocketClient& client, std::string_view text, Script script) {
    fake.Next(script);
    const int before = fake.takes();
    client.Send(text);
    ASSERT_TRUE(Until([&] { return fake.takes() == before + 1; }));
    Turn();
    EXPECT_EQ(client.Poll(), "");
  }
  static std::string StatusOf(const std::string& answer) { return answer.substr(9, 3); }

  static constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
  FakeQuotaStore fake;
};

TEST_F(GatewayStoreTest, TheStoreDecides) {
  Open({Shared(2)});
  SocketClient client = Dial();
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "200");
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "200");
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "429");
  EXPECT_EQ(fake.Held(), 2);
  EXPECT_EQ(upstream.requests(), 2U);
  EXPECT_EQ(fake.abandoned(), 0);
}

TEST_F(GatewayStoreTest, TheStatusPageTellsWhatTheStoreSaysAndTakesNothing) {
  constexpr std::string_view kStatus = "GET /.flowguard/status HTTP/1.1\r\nHost: x\r\n\r\n";
  constexpr std::string_view kUnknown =
      R"("kind":"limit","allowed":null,"limit":3,"remaining":null,"reset_after_ms":null)";
  Open({Shared(3)});
  SocketClient client = Dial();
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "200");
  for (int i = 0; i < 2; ++i) {
    const std::string answer = Ask(client, kStatus);
    EXPECT_NE(answer.find(R"("allowed":true,"limit":3,"remaining":2,)"), std::string::npos)
        << answer;
  }
  EXPECT_EQ(fake.Held(), 1);
  EXPECT_EQ(upstream.requests(), 1U);

  fake.Next(Script::kFails);
  EXPECT_NE(Ask(client, kStatus).find(kUnknown), std::string::npos);

  client.Forget();
  AskAndWait(client, kStatus, Script::kWhenTold);
  fake.AnswerAll();
  ASSERT_TRUE(UntilReceived(client, R"("remaining":2)"));
  client.Forget();
  AskAndWait(client, kStatus, Script::kWhenTold);
  clock.Advance(kOverdue);
  ASSERT_TRUE(UntilReceived(client, kUnknown));
  fake.AnswerAll();
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "200");
  {
    SocketClient leaves = Dial();
    AskAndWait(leaves, kStatus, Script::kWhenTold);
  }
  Turn();
  fake.AnswerAll();
  Turn();
  EXPECT_NE(Ask(client, kStatus).find(R"("remaining":1,)"), std::string::npos);
  EXPECT_EQ(counters().in_flight.load(), 0);
  EXPECT_EQ(fake.Held(), 2);
}

TEST_F(GatewayStoreTest, TheStatusPageTellsOfLocalAndSharedRulesTogether) {
  Open({Limit("local", 1), Shared(3)});
  SocketClient client = Dial();
  constexpr std::string_view kStatus = "GET /.flowguard/status HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_NE(Ask(client, kStatus).find(R"("remaining":3,)"), std::string::npos);
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "200");
  // Nothing is asked of the store that a local rule refuses already.
  const std::string answer = Ask(client, kStatus);
  EXPECT_NE(answer.find(R"("rule":"local","kind":"limit","allowed":false,"limit":1,"remaining":0)"),
            std::string::npos)
      << answer;
  EXPECT_NE(answer.find(R"("rule":"shared","kind":"limit","allowed":null,"limit":3,)"),
            std::string::npos);
}

TEST_F(GatewayStoreTest, NothingGoesUpstreamBeforeALateAnswerAndAllOfItAfter) {
  Open({Shared(1)});
  SocketClient client = Dial();
  upstream.on_data = nullptr;
  AskAndWait(client, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nfirst",
             Script::kWhenTold);
  EXPECT_EQ(upstream.peers.size(), 0U);
  fake.AnswerAll();
  PeerWith(0, "first").Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
}

TEST_F(GatewayStoreTest, LateAnswersOutOfOrderReachTheirOwnRequests) {
  Open({Shared(1)});
  SocketClient first = Dial();
  SocketClient second = Dial();
  AskAndWait(first, kGet, Script::kWhenTold);
  AskAndWait(second, kGet, Script::kWhenTold);
  fake.AnswerAll();  // the last first
  ASSERT_TRUE(UntilReceived(first, "HTTP/1.1 200"));
  ASSERT_TRUE(UntilReceived(second, "HTTP/1.1 429"));
}

TEST_F(GatewayStoreTest, ASecondAnswerChangesNothing) {
  Open({Shared(10)});
  SocketClient client = Dial();
  fake.Next(Script::kTwice);
  client.Send(kGet);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  Turn();
  EXPECT_EQ(upstream.requests(), 1U);
  EXPECT_EQ(counters().in_flight.load(), 0);
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "200") << "the same exchange, used again";
}

TEST_F(GatewayStoreTest, AnAnswerFromTheStoresThreadWakesTheLoop) {
  Open({Shared(40)});
  SocketClient client = Dial();
  for (int i = 0; i < 40; ++i) {
    fake.Next(Script::kFromThread);
    EXPECT_EQ(StatusOf(Ask(client, kGet)), "200") << i;
  }
  fake.Next(Script::kFromThread);
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "429");
}

TEST_F(GatewayStoreTest, AFailureIsAnsweredAsTheRuleSays) {
  const std::pair<StoreFailurePolicy, std::string> cases[] = {
      {StoreFailurePolicy::kClosed, "503"},
      {StoreFailurePolicy::kOpen, "200"},
      {StoreFailurePolicy::kLocal, "200"},
  };
  for (const auto& [policy, status] : cases) {
    Open({Shared(2, policy)});
    fake.Next(Script::kFails);
    SocketClient client = Dial();
    EXPECT_EQ(StatusOf(Ask(client, kGet)), status);
  }
  // The local share of this one of two nodes is 1, and that is gone.
  fake.Next(Script::kFails);
  SocketClient client = Dial();
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "429");
}

TEST_F(GatewayStoreTest, AStoreThatNeverAnswersHoldsARequestUntilTheDeadlineOnly) {
  Open({Shared(5)});
  SocketClient client = Dial();
  AskAndWait(client, kGet, Script::kWhenTold);
  clock.Advance(milliseconds(19));
  Turn();
  EXPECT_EQ(client.Poll(), "");
  clock.Advance(kOverdue - milliseconds(19));
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 503"));
  EXPECT_EQ(fake.abandoned(), 1);
  EXPECT_EQ(fake.Held(), 0) << "what it took is given back";
  fake.AnswerAll();
  Turn();
  EXPECT_EQ(upstream.requests(), 0U);
  EXPECT_EQ(StatusOf(Ask(client, kGet)), "200");
}

TEST_F(GatewayStoreTest, AtTheDeadlineTheLocalShareDecides) {
  Open({Shared(2, StoreFailurePolicy::kLocal)});
  for (const std::string status : {"200", "429"}) {
    SocketClient client = Dial();
    AskAndWait(client, kGet, Script::kWhenTold);
    clock.Advance(kOverdue);
    ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 " + status));
  }
  EXPECT_EQ(fake.Held(), 0);
}

// Rules out: what a store that is well granted in the last moment being given back although the
// request goes.
TEST_F(GatewayStoreTest, AtTheDeadlineItIsTheStoresToSayThatItFailed) {
  Open({Shared(5, StoreFailurePolicy::kOpen)});
  SocketClient client = Dial();
  AskAndWait(client, kGet, Script::kWhenTold);
  clock.Advance(milliseconds(20));
  Turn();
  EXPECT_EQ(fake.abandoned(), 0);
  fake.AnswerAll();
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 200"));
  EXPECT_EQ(fake.Held(), 1);
}

// Rules out that units are lost when the answer and the end of patience cross.
TEST_F(GatewayStoreTest, AnAnswerThatCrossesTheDeadlineCounts) {
  Open({Shared(5)});
  SocketClient client = Dial();
  AskAndWait(client, kGet, Script::kAfterGivingUp);
  clock.Advance(kOverdue);
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 200"));
  EXPECT_EQ(fake.Held(), 1);
  EXPECT_EQ(upstream.requests(), 1U);
}

TEST_F(GatewayStoreTest, AClientThatLeavesWhileTheStoreIsAskedHoldsNothing) {
  Open({Shared(5), Concurrency("one", 1)});
  for (const Script script : {Script::kWhenTold, Script::kAfterGivingUp}) {
    SocketClient client = Dial();
    AskAndWait(client, kGet, script);
    EXPECT_EQ(InFlight("one"), 1);
    const int before = fake.abandoned();
    client.Close();
    ASSERT_TRUE(Until([&] { return fake.abandoned() == before + 1; }));
    Turn();
    EXPECT_EQ(fake.Held(), 0);
    EXPECT_EQ(InFlight("one"), 0);
  }
  clock.Advance(milliseconds(50));
  Turn();
  EXPECT_EQ(fake.abandoned(), 2) << "its deadline is nobody's matter any more";
  EXPECT_EQ(upstream.requests(), 0U);
}

TEST_F(GatewayStoreTest, AClientThatLeavesAtTheDeadlineIsAbandonedOnce) {
  Open({Shared(5, StoreFailurePolicy::kOpen)});
  SocketClient client = Dial();
  AskAndWait(client, kGet, Script::kWhenTold);
  clock.Advance(kOverdue);
  client.Close();
  Turn();
  EXPECT_EQ(fake.abandoned(), 1);
  EXPECT_EQ(fake.Held(), 0);
  EXPECT_EQ(counters().in_flight.load(), 0);
}

TEST_F(GatewayStoreTest, AnAnswerToAGatewayThatIsGoneIsHarmless) {
  Open({Shared(5)});
  SocketClient first = Dial();
  SocketClient second = Dial();
  SocketClient third = Dial();
  AskAndWait(first, kGet, Script::kAfterGivingUp);
  AskAndWait(second, kGet, Script::kWhenTold);
  AskAndWait(third, kGet, Script::kWhenTold);
  third.Close();
  fake.Next(Script::kAtOnce);
  gateway.reset();
  fake.AnswerAll();
  Turn();
  EXPECT_EQ(fake.abandoned(), 3);
}

TEST_F(GatewayStoreTest, AnAmbiguousRequestIsNotAskedAbout) {
  Rule rule = Shared(5);
  rule.by = {"header:x-user"};
  Open({rule});
  SocketClient client = Dial();
  EXPECT_EQ(StatusOf(Ask(client, "GET /a HTTP/1.1\r\nHost: x\r\nX-User: a\r\nX-User: b\r\n\r\n")),
            "400");
  EXPECT_EQ(fake.takes(), 0);
}

TEST_F(GatewayStoreTest, TheActualCostIsSettledWithTheStore) {
  Rule rule = Shared(100);
  rule.cost = {.reserve = 10, .settle = "header:x-cost", .max_debt = 50};
  Open({rule});
  SocketClient client = Dial();
  const std::pair<std::string, int64_t> cases[] = {{"3", 3}, {"25", 28}, {"no", 38}};
  for (const auto& [cost, held] : cases) {
    upstream.AlwaysAnswer("HTTP/1.1 200 OK\r\nX-Cost: " + cost + "\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_EQ(StatusOf(Ask(client, kGet)), "200");
    EXPECT_EQ(fake.Held(), held);
  }
}

TEST_F(GatewayStoreTest, PipelinedRequestsAreAskedAboutOneByOne) {
  Open({Shared(2)});
  SocketClient client = Dial();
  client.Send(std::string(kGet) + std::string(kGet) + std::string(kGet));
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 429"));
  EXPECT_EQ(upstream.requests(), 2U);
  EXPECT_EQ(fake.takes(), 3);
}

}  // namespace
}  // namespace flowguard::serve
