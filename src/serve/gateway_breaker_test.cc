// SPDX-License-Identifier: Apache-2.0
//
// What of an exchange is the upstream's doing, and what its breaker hears.
#include <string>

#include <gtest/gtest.h>

#include "serve/gateway_fixture_test.h"

namespace flowguard::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SocketClient;

constexpr std::string_view k404 = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view k429 = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view k500 = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

struct GatewayBreakerTest : GatewayTest {
  static constexpr Duration kOver = milliseconds(100);

  static Rule Slow() {
    Rule rule = Breaker();
    rule.breaker.slow_ratio = 0;
    rule.breaker.slow_over = kOver;
    return rule;
  }
  static Rule Errors() {
    Rule rule = Breaker();
    rule.breaker.error_count = 0;
    return rule;
  }
  [[nodiscard]] bool IsOpen() const { return engine->Counters().rules.at(0).breakers_open == 1; }
  [[nodiscard]] bool IsClosed() const {
    const engine::RuleCounters rule = engine->Counters().rules.at(0);
    return rule.breakers_open + rule.breakers_half_open == 0;
  }
  // What a client gets while the upstream answers this.
  int StatusAfter(std::string_view answer) {
    upstream.AlwaysAnswer(std::string(answer));
    SocketClient client = Dial();
    const std::string got = Get(client, "/");
    return got.size() > 12 ? std::stoi(got.substr(9, 3)) : 0;
  }
  void Wait(Duration time) {
    clock.Advance(time);
    Turn();
  }

 private:
  static Rule Breaker() {
    Rule rule;
    rule.name = "b";
    rule.kind = RuleKind::kBreaker;
    rule.breaker.min_calls = 1;
    return rule;
  }
};

TEST_F(GatewayBreakerTest, CutsASlowUpstreamOffAndSaysWhenToComeBack) {
  Open({Slow()});
  SocketClient client = Dial();
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n");
  Wait(kOver + milliseconds(1));
  upstream.peers[0]->Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "ok"));

  const std::string refusal = Get(client, "/");

  EXPECT_NE(refusal.find("HTTP/1.1 503 "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("Retry-After: 5\r\n"), std::string::npos) << refusal;
  EXPECT_EQ(upstream.requests(), 1U);
}

TEST_F(GatewayBreakerTest, AFiveHundredIsAnErrorAndAFourHundredIsNone) {
  Open({Errors()});
  EXPECT_EQ(StatusAfter(k404), 404);
  EXPECT_FALSE(IsOpen());

  EXPECT_EQ(StatusAfter(k500), 500);

  EXPECT_TRUE(IsOpen());
}

// Rules out: an upstream that limits its callers hides thereby that it fails, or is taken for
// one that fails, or for one that is well again.
TEST_F(GatewayBreakerTest, A429OfTheUpstreamSaysNothingOfHowItIs) {
  Rule rule = Errors();
  rule.breaker.error_count.reset();
  rule.breaker.error_ratio = 0.5;
  rule.breaker.min_calls = 3;
  Open({rule});
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(StatusAfter(k429), 429);
  EXPECT_EQ(StatusAfter(k500), 500);
  EXPECT_EQ(StatusAfter(k500), 500);
  EXPECT_EQ(StatusAfter(k429), 429);
  EXPECT_FALSE(IsOpen()) << "two calls of three have said something";
  EXPECT_EQ(StatusAfter(k500), 500);
  EXPECT_TRUE(IsOpen());

  Wait(seconds(5));
  EXPECT_EQ(StatusAfter(k429), 429);
  EXPECT_EQ(StatusAfter(k429), 429) << "the one before left its place to the next probe";
  EXPECT_FALSE(IsClosed());
  EXPECT_EQ(StatusAfter(kOk), 200);
  EXPECT_TRUE(IsClosed());
}

// Rules out: a way in which an answer ends that never tells the breaker, so that it cannot close.
TEST_F(GatewayBreakerTest, EveryKindOfGoodAnswerClosesIt) {
  struct Kind {
    std::string method;
    std::string fields;  // of the request
    std::string answer;
    std::string end;  // of what the client gets
  };
  const Kind kinds[] = {
      {"GET", "", std::string(kOk), "ok"},
      {"GET", "", "HTTP/1.1 204 No Content\r\n\r\n", "\r\n\r\n"},
      {"GET", "", "HTTP/1.1 304 Not Modified\r\n\r\n", "\r\n\r\n"},
      {"HEAD", "", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "\r\n\r\n"},
      {"GET", "", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", "none"},
      {"GET", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
       "0\r\n\r\n"},
      {"GET", "", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nas it comes", "as it comes"},
      {"GET", "Connection: Upgrade\r\nUpgrade: websocket\r\n",
       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
       "\r\n\r\n"},
  };
  Open({Errors()});
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.answer);
    ASSERT_EQ(StatusAfter(k500), 500);
    ASSERT_TRUE(IsOpen());
    Wait(seconds(5));
    upstream.AlwaysAnswer(kind.answer);
    SocketClient client = Dial();

    client.Send(kind.method + " / HTTP/1.1\r\nHost: x\r\n" + kind.fields + "\r\n");
    ASSERT_TRUE(Until([&] { return client.Poll().ends_with(kind.end); })) << client.received();

    EXPECT_TRUE(IsClosed());
  }
}

TEST_F(GatewayBreakerTest, AnUpstreamThatCannotBeReachedIsAnError) {
  Open({Errors()});
  upstream.StopListening();
  SocketClient client = Dial();

  EXPECT_NE(Get(client, "/").find(" 502 "), std::string::npos);

  EXPECT_TRUE(IsOpen());
}

// Rules out: a client that sends its body slowly, and has the route cut off for all.
TEST_F(GatewayBreakerTest, TheTimeThatAClientTakesForItsBodyIsNotTheUpstreams) {
  Open({Slow()});
  SocketClient client = Dial();
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
  ScriptedUpstream::Peer& peer = PeerWith(0, "ab");
  Wait(seconds(1));
  client.Send("cd");
  PeerWith(0, "abcd");
  peer.Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "ok"));
  EXPECT_FALSE(IsOpen());

  SocketClient gone = Dial();
  gone.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab");
  ASSERT_TRUE(Until([&] { return upstream.requests() == 2; }));
  Wait(seconds(1));
  gone.Close();
  ASSERT_TRUE(Until([&] { return counters().in_flight.load() == 0; }));
  EXPECT_FALSE(IsOpen());
}

TEST_F(GatewayBreakerTest, ALongAnswerIsNotASlowOne) {
  Open({Slow()});
  SocketClient client = Dial();
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
  ASSERT_TRUE(UntilReceived(client, "ab"));
  Wait(seconds(1));
  peer.Send("cd");
  ASSERT_TRUE(UntilReceived(client, "abcd"));

  EXPECT_FALSE(IsOpen());
}

// A client that gives up on an upstream that hangs must not hide that it hangs.
TEST_F(GatewayBreakerTest, WhoGivesUpOnAHangingUpstreamTellsThatItHangs) {
  Open({Slow()});
  SocketClient client = Dial();
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n");
  Wait(kOver + milliseconds(1));

  client.Reset();
  ASSERT_TRUE(Until([&] { return counters().in_flight.load() == 0; }));

  EXPECT_TRUE(IsOpen());
}

TEST_F(GatewayBreakerTest, ATunnelIsACallUntilItStands) {
  Open({Slow()});
  SocketClient client = Dial();
  client.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  peer.Send(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "101"));
  Wait(seconds(1));
  peer.Close();
  ASSERT_TRUE(UntilClosed(client));

  EXPECT_FALSE(IsOpen());
}

}  // namespace
}  // namespace flowguard::serve
