// SPDX-License-Identifier: Apache-2.0
//
// What the gateway decides and how it refuses.
#include "serve/gateway.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "serve/gateway_fixture_test.h"

namespace flowguard::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SocketClient;

size_t Count(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(GatewayTest, PassesAdmittedRequestsAndRefusesTheRest) {
  Open({Limit("all", 2)});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  EXPECT_TRUE(Get(client, "/a").ends_with("\r\n\r\nok"));
  EXPECT_TRUE(Get(client, "/b").ends_with("\r\n\r\nok"));
  const std::string refused = Get(client, "/c");
  EXPECT_EQ(refused.substr(0, 12), "HTTP/1.1 429");
  EXPECT_NE(refused.find("Retry-After: "), std::string::npos);
  EXPECT_EQ(upstream.requests(), 2U);
  EXPECT_EQ(counters().refused.load(), 1U);
  EXPECT_EQ(counters().responses[2].load(), 2U);
  EXPECT_EQ(counters().responses[4].load(), 1U);
  EXPECT_EQ(counters().in_flight.load(), 0);
}

TEST_F(GatewayTest, RefusalsInSequenceAndAtOnceAreAllWhole) {
  // A refusal that is prepared once must not be used up by its first reader.
  Open({Limit("none", 0)});
  std::vector<SocketClient> clients;
  for (int i = 0; i < 50; ++i)
    clients.push_back(Dial());
  for (SocketClient& client : clients)
    client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  for (SocketClient& client : clients) {
    ASSERT_TRUE(UntilReceived(client, "}"));
    EXPECT_EQ(client.received().substr(client.received().find("\r\n\r\n")),
              clients[0].received().substr(clients[0].received().find("\r\n\r\n")));
  }
  EXPECT_EQ(upstream.peers.size(), 0U);
}

TEST_F(GatewayTest, ARefusedHeadHasNoBodyAndTheNextAnswerIsUnderstood) {
  Rule rule = Limit("one", 0);
  rule.on.route = "/limited";
  Open({rule});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  const std::string refused = Ask(client, "HEAD /limited HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(refused.substr(0, 12), "HTTP/1.1 429");
  EXPECT_TRUE(refused.ends_with("\r\n\r\n"));
  EXPECT_EQ(Get(client, "/free").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST_F(GatewayTest, ContinueIsNotSentToARefusedRequest) {
  Open({Limit("none", 0)});
  SocketClient client = Dial();
  const std::string answer = Ask(
      client, "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 429");
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_EQ(upstream.peers.size(), 0U);
}

TEST_F(GatewayTest, ContinueIsSentExactlyOnceToAnAdmittedRequest) {
  Open();
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 100 Continue\r\n\r\n"));
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  EXPECT_EQ(peer.received.find("Expect"), std::string::npos);
  peer.Send("HTTP/1.1 100 Continue\r\n\r\n");  // its own, which nobody asked for
  client.Send("body");
  PeerWith(0, "body");
  peer.Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  EXPECT_EQ(Count(client.received(), "100 Continue"), 1U);
}

TEST_F(GatewayTest, ABodyLeftBehindByARefusalIsNeverARequest) {
  Rule rule = Limit("one", 0);
  rule.on.route = "/limited";
  Open({rule});
  upstream.AlwaysAnswer(std::string(kOk));
  const std::string body = "GET /admin HTTP/1.1\r\nHost: x\r\n\r\n";
  SocketClient client = Dial();
  client.Send(
      "POST /limited HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
      "\r\n\r\n" + body + "GET /real HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  EXPECT_EQ(Count(client.received(), "HTTP/1.1 429"), 1U);
  EXPECT_EQ(upstream.requests(), 1U);
  EXPECT_EQ(PeerWith(0, "GET /real").received.find("admin"), std::string::npos);
}

TEST_F(GatewayTest, ALargeBodyDoesNotHideTheRefusalFromItsSender) {
  Open({Limit("none", 0)});
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
  client.SendSome(std::string(300'000, 'x'));
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_FALSE(client.reset());
  EXPECT_EQ(client.received().substr(0, 12), "HTTP/1.1 429");
  EXPECT_NE(client.received().find("Connection: close"), std::string::npos);
}

TEST_F(GatewayTest, ARefusedUpgradeLeavesNoSocketBehind) {
  Open({Limit("none", 0)});
  std::vector<SocketClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(Dial());
    const std::string answer =
        Ask(clients.back(),
            "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 429");
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  }
  // The clients keep their ends open.
  clock.Advance(seconds(5));
  Turn();
  EXPECT_EQ(gateway->server().open(), 0U);
}

TEST_F(GatewayTest, ConcurrencyIsHeldUntilTheEndOfTheBody) {
  Open({Concurrency("two", 2)});
  SocketClient a = Dial();
  SocketClient b = Dial();
  SocketClient c = Dial();
  const char* const start =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nevent\r\n";
  a.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  Peer(0).Send(start);
  b.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  Peer(1).Send(start);
  ASSERT_TRUE(UntilReceived(a, "event"));
  ASSERT_TRUE(UntilReceived(b, "event"));

  EXPECT_EQ(Get(c, "/stream").substr(0, 12), "HTTP/1.1 503");
  EXPECT_EQ(InFlight("two"), 2);
  Peer(0).Send("0\r\n\r\n");
  ASSERT_TRUE(Until([&] { return InFlight("two") == 1; }));
  // The client leaves in the middle; what is sent to it then tells.
  b.Close();
  ASSERT_TRUE(Until([&] { return Peer(1).Send("5\r\nevent\r\n"), InFlight("two") == 0; }));
  EXPECT_TRUE(Until([&] { return Peer(1).ended || Peer(1).reset; }));
  EXPECT_EQ(counters().in_flight.load(), 0);
}

TEST_F(GatewayTest, ConcurrencyIsReleasedWhenTheUpstreamFails) {
  Open({Concurrency("one", 1)});
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Close();
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
  EXPECT_EQ(InFlight("one"), 0);
  upstream.StopListening();
  EXPECT_EQ(Get(client, "/a").substr(0, 12), "HTTP/1.1 502");
  EXPECT_EQ(InFlight("one"), 0);
}

Rule Waiting(std::string name, Duration wait) {
  Rule rule;
  rule.name = std::move(name);
  rule.algorithm = Algorithm::kLeakyBucket;
  rule.rate = {1, seconds(1)};
  rule.wait = wait;
  return rule;
}

TEST_F(GatewayTest, AWaitingRequestIsParkedAndGoesInItsTurn) {
  Open({Waiting("paced", seconds(1))});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient first = Dial();
  SocketClient second = Dial();
  EXPECT_NE(Get(first, "/a").find("200 OK"), std::string::npos);
  second.Send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  Turn();
  EXPECT_EQ(counters().parked.load(), 1);
  EXPECT_EQ(upstream.requests(), 1U);
  clock.Advance(seconds(1));
  ASSERT_TRUE(UntilReceived(second, "\r\n\r\nok"));
  EXPECT_EQ(counters().parked.load(), 0);
  EXPECT_EQ(counters().waited.load(), 1U);
  PeerWith(0, "abc");
}

TEST_F(GatewayTest, AParkedClientThatLeavesGivesItsPlaceBack) {
  Open({Waiting("paced", seconds(1))});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient first = Dial();
  Get(first, "/a");
  {
    SocketClient second = Dial();
    second.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
    Turn();
    EXPECT_EQ(counters().parked.load(), 1);
  }
  Turn();
  EXPECT_EQ(counters().parked.load(), 0);
  clock.Advance(seconds(2));
  Turn();
  EXPECT_EQ(upstream.requests(), 1U);
}

TEST_F(GatewayTest, MoreThanParkedMaxWaitingIsRefusedAsOverload) {
  options.parked_max = 1;
  Open({Waiting("paced", seconds(10))});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient first = Dial();
  SocketClient second = Dial();
  SocketClient third = Dial();
  Get(first, "/a");
  second.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  Turn();
  EXPECT_EQ(Get(third, "/c").substr(0, 12), "HTTP/1.1 503");
  EXPECT_EQ(counters().overload.load(), 1U);
}

// Rules out: who stops waiting still counts among those who wait.
TEST_F(GatewayTest, WhoStopsWaitingMakesRoomForOneMoreToWait) {
  options.parked_max = 1;
  Open({Waiting("paced", seconds(10))});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient first = Dial();
  Get(first, "/a");
  for (int i = 0; i < 10; ++i) {
    SocketClient leaves = Dial();
    leaves.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
    Turn();
    ASSERT_EQ(counters().parked.load(), 1) << i;
    leaves.Close();
    Turn();
    ASSERT_EQ(counters().parked.load(), 0) << i;
  }
  EXPECT_EQ(counters().overload.load(), 0U);
  EXPECT_EQ(upstream.requests(), 1U);
}

TEST_F(GatewayTest, DrainRefusesTheParkedAndFinishesTheAdmitted) {
  Open({Waiting("paced", seconds(30))});
  SocketClient going = Dial();
  SocketClient waiting = Dial();
  going.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  waiting.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  Turn();
  gateway->Drain(seconds(10));
  ASSERT_TRUE(UntilReceived(waiting, "HTTP/1.1 503"));
  EXPECT_NE(waiting.received().find("Connection: close"), std::string::npos);
  peer.Send(kOk);
  ASSERT_TRUE(UntilReceived(going, "\r\n\r\nok"));
  EXPECT_NE(going.received().find("Connection: close"), std::string::npos);
  clock.Advance(seconds(3));
  Turn();
  EXPECT_TRUE(gateway->drained());
  EXPECT_EQ(upstream.requests(), 1U);
}

TEST_F(GatewayTest, SmuggledRequestsNeverReachTheUpstream) {
  Open();
  upstream.AlwaysAnswer(std::string(kOk));
  const std::vector<std::string> lines = {
      "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
      "Content-Length: 4\r\nContent-Length: 5\r\n",
      "Content-Length: 4, 5\r\n",
      "Content-Length: +5\r\n",
      "Content-Length: 0x5\r\n",
      "Content-Length: 5 5\r\n",
      "Transfer-Encoding: chunked,\r\n",
      "Transfer-Encoding: chunked, gzip\r\n",
      "Transfer-Encoding:\vchunked\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding : chunked\r\n",
      " Transfer-Encoding: chunked\r\n",
      "X: y\nTransfer-Encoding: chunked\r\n",
  };
  for (const std::string& line : lines) {
    SCOPED_TRACE(line);
    SocketClient client = Dial();
    client.Send("POST /a HTTP/1.1\r\nHost: x\r\n" + line +
                "\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(UntilClosed(client));
    EXPECT_TRUE(client.received().starts_with("HTTP/1.1 4") ||
                client.received().starts_with("HTTP/1.1 501"))
        << client.received();
  }
  EXPECT_EQ(upstream.requests(), 0U);
}

// The body breaks while the head is being sent: the exchange ends within its own call.
TEST_F(GatewayTest, ABodyThatIsBrokenFromItsFirstChunkIs400AndTheNextClientIsServed) {
  Open();
  upstream.AlwaysAnswer(std::string(kOk));
  for (const std::string body : {"zz\r\nhello\r\n0\r\n\r\n", "fffffffffffffffff\r\n", "-1\r\n"}) {
    SCOPED_TRACE(body);
    SocketClient client = Dial();
    client.Send("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body);
    ASSERT_TRUE(UntilClosed(client));
    EXPECT_TRUE(client.received().starts_with("HTTP/1.1 400")) << client.received();
  }
  SocketClient next = Dial();
  next.Send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(Until([&] { return Count(next.Poll(), "HTTP/1.1 200 OK") == 1; }));
}

TEST_F(GatewayTest, TheUpstreamGetsAsManyRequestsAsWereCounted) {
  Open({Limit("hundred", 100)});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  std::string requests;
  for (int i = 0; i < 150; ++i)
    requests += "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
  client.Send(requests);
  ASSERT_TRUE(Until([&] { return Count(client.Poll(), "HTTP/1.1 429") == 50; }));
  EXPECT_EQ(Count(client.received(), "HTTP/1.1 200 OK"), 100U);
  EXPECT_EQ(upstream.requests(), 100U);
}

TEST_F(GatewayTest, PreflightsPassUncountedAndPlainOptionsDoNot) {
  Open({Limit("one", 1)});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(Ask(client,
                  "OPTIONS /a HTTP/1.1\r\nHost: x\r\nOrigin: http://o\r\n"
                  "Access-Control-Request-Method: GET\r\n\r\n")
                  .find("200 OK"),
              std::string::npos);
  }
  EXPECT_NE(Ask(client, "OPTIONS /a HTTP/1.1\r\nHost: x\r\n\r\n").find("200 OK"),
            std::string::npos);
  EXPECT_EQ(Get(client, "/a").substr(0, 12), "HTTP/1.1 429");
}

// Rules out: a way round all rules for whoever writes two header lines.
TEST_F(GatewayTest, APreflightPassesLimitsOnlyAndOnlyWithoutABody) {
  Rule access;
  access.name = "keys";
  access.kind = RuleKind::kAccess;
  access.deny = {{"header:x-key", {"bad"}}};
  Open({Limit("none", 0), Concurrency("one", 1), access});
  const std::string preflight =
      "OPTIONS /a HTTP/1.1\r\nHost: x\r\nOrigin: http://o\r\n"
      "Access-Control-Request-Method: GET\r\n";
  SocketClient client = Dial();
  EXPECT_EQ(Ask(client, preflight + "X-Key: bad\r\n\r\n").substr(0, 12), "HTTP/1.1 403");
  EXPECT_EQ(Ask(client, preflight + "Content-Length: 2\r\n\r\nhi").substr(0, 12), "HTTP/1.1 429");
  SocketClient holder = Dial();
  holder.Send(preflight + "\r\n");
  PeerWith(0, "\r\n\r\n");
  EXPECT_EQ(InFlight("one"), 1);
  EXPECT_EQ(Ask(client, preflight + "\r\n").substr(0, 12), "HTTP/1.1 503");
}

TEST_F(GatewayTest, TheStatusPageIsOneInEverySpellingAndAnswersGetOnly) {
  Open();
  SocketClient client = Dial();
  for (const std::string target :
       {"/.flowguard/status/", "//.flowguard/status", "http://x/.flowguard/status?path=/a"}) {
    EXPECT_EQ(Get(client, target).substr(0, 15), "HTTP/1.1 200 OK") << target;
  }
  const std::string answer = Ask(client, "POST /.flowguard/status HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 405");
  EXPECT_NE(answer.find("Allow: GET, HEAD\r\n"), std::string::npos);
  EXPECT_EQ(upstream.peers.size(), 0U);
}

TEST_F(GatewayTest, TheStatusPageSpendsNothingAndIsNotPassedOn) {
  Open({Limit("one", 1)});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Get(client, "/.flowguard/status").substr(0, 15), "HTTP/1.1 200 OK");
  }
  EXPECT_EQ(upstream.requests(), 0U);
  EXPECT_NE(Get(client, "/a").find("200 OK"), std::string::npos);
}

TEST_F(GatewayTest, APathThatCanBeReadTwoWaysIs400) {
  Open();
  SocketClient client = Dial();
  EXPECT_EQ(Get(client, "/a%zz").substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(upstream.peers.size(), 0U);
}

TEST_F(GatewayTest, OurRateFieldsReplaceTheUpstreams) {
  options.refusal.rate_headers.on_success = true;
  Open({Limit("ten", 10)});
  upstream.AlwaysAnswer(
      "HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 99\r\nratelimit-limit: 98\r\nContent-Length: "
      "2\r\n\r\nok");
  SocketClient client = Dial();
  const std::string answer = Get(client, "/a");
  EXPECT_EQ(Count(answer, "X-RateLimit-Limit: "), 1U);
  EXPECT_NE(answer.find("X-RateLimit-Limit: 10\r\n"), std::string::npos);
  EXPECT_EQ(answer.find("98"), std::string::npos);
}

TEST_F(GatewayTest, ADegradedRequestGoesOnMarked) {
  Rule rule = Limit("soft", 1);
  rule.degrade.enabled = true;
  Open({rule});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  Get(client, "/a");
  EXPECT_EQ(PeerWith(0, "/a").received.find("x-degraded"), std::string::npos);
  EXPECT_NE(Get(client, "/b").find("200 OK"), std::string::npos);
  EXPECT_NE(PeerWith(0, "/b").received.find("x-degraded: 1\r\n"), std::string::npos);
}

// Rules out that a client asks for the cheaper answer, or that the upstream sees its
// word beside ours.
TEST_F(GatewayTest, AClientCannotMarkItsRequestItself) {
  Rule usual = Limit("usual", 100);
  usual.degrade.enabled = true;
  Rule own = Limit("own", 100);
  own.degrade.enabled = true;
  own.degrade.header = "X-Mode: cheap";
  Open({usual, own});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();

  Ask(client, "GET /a HTTP/1.1\r\nHost: x\r\nX-Degraded: 1\r\nx-mode: cheap\r\nx-a: b\r\n\r\n");

  const std::string& received = PeerWith(0, "/a").received;
  EXPECT_EQ(received.find("-Degraded"), std::string::npos);
  EXPECT_EQ(received.find("-mode"), std::string::npos);
  EXPECT_NE(received.find("x-a: b\r\n"), std::string::npos);
}

}  // namespace
}  // namespace flowguard::serve
