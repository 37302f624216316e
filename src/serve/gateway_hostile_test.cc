// SPDX-License-Identifier: Apache-2.0
//
// Clients that try to get around the rules, and upstreams that hold or mix up what is
// not theirs.
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "serve/gateway.h"
#include "serve/gateway_fixture_test.h"

namespace flowguard::serve {
namespace {

using std::chrono::seconds;
using testing::SocketClient;

bool Has(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// --- upgrades

// A tunnel for another version of HTTP carries requests that no rule sees.
TEST_F(GatewayTest, OnlyWebSocketIsUpgradedTo) {
  Open();
  for (const std::string lines :
       {"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n",
        "Upgrade: h2c\r\nConnection: Upgrade\r\nHTTP2-Settings: AAMAAABk\r\n",
        "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n",
        "Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n"}) {
    SCOPED_TRACE(lines);
    const size_t index = upstream.peers.size();
    SocketClient client = Dial();
    client.Send("GET /a HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n");
    ScriptedUpstream::Peer& peer = PeerWith(index, "\r\n\r\n");
    EXPECT_FALSE(Has(peer.received, "Upgrade")) << peer.received;
    EXPECT_FALSE(Has(peer.received, "HTTP2-Settings")) << peer.received;
    peer.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
  }
  EXPECT_EQ(counters().tunnels.load(), 0U);
}

TEST_F(GatewayTest, AnUpgradeToAnotherProtocolThanTheOneAskedForIs502) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n");
  PeerWith(0, "Upgrade: WebSocket\r\n")
      .Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
}

// --- targets and methods

TEST_F(GatewayTest, AnAbsoluteTargetWithAQueryAloneGetsItsPath) {
  Open();
  SocketClient client = Dial();
  client.Send("GET http://real.example?a=/b HTTP/1.1\r\nHost: real.example\r\n\r\n");
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_TRUE(seen.starts_with("GET /?a=/b HTTP/1.1\r\n")) << seen;
}

TEST_F(GatewayTest, AFragmentIs400EvenWhereNoRuleLooks) {
  options.view.exempt = std::move(ExemptRoutes::Create(std::vector<std::string>{"/free"})).value();
  Open();
  for (const std::string target :
       {"/free#/x", "/free?a#b", "/a#b", "http://x#/a", "http://x/free#a"}) {
    SCOPED_TRACE(target);
    SocketClient client = Dial();
    EXPECT_TRUE(Get(client, target).starts_with("HTTP/1.1 400"));
  }
  EXPECT_EQ(upstream.peers.size(), 0U);
}

TEST_F(GatewayTest, AKnownMethodInAnotherCaseIs400) {
  Open();
  for (const std::string method : {"get", "Post", "dELETE", "connect"}) {
    SCOPED_TRACE(method);
    SocketClient client = Dial();
    EXPECT_TRUE(
        Ask(client, method + " /a HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 400"));
  }
  EXPECT_EQ(upstream.peers.size(), 0U);
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  EXPECT_TRUE(Ask(client, "purge /a HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("ok"))
      << "its own name";
}

// --- header lines

// CGI-like upstreams read X_Api_Key as X-Api-Key: a second spelling that evades the rule.
TEST_F(GatewayTest, NamesWithUnderscoresPassOnlyWhereARuleReadsThem) {
  Rule rule = Limit("by-key", 100);
  rule.by = {"header:x_plain_key"};
  Open({rule});
  SocketClient client = Dial();
  client.Send(
      "GET /a HTTP/1.1\r\nHost: x\r\nX_Api_Key: a\r\nX-Forwarded_For: b\r\nX_Plain_Key: c\r\n"
      "X-Last: d\r\n\r\n");
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_FALSE(Has(seen, "X_Api_Key")) << seen;
  EXPECT_FALSE(Has(seen, "X-Forwarded_For")) << seen;
  EXPECT_TRUE(Has(seen, "X_Plain_Key: c\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Last: d\r\n")) << seen;
}

constexpr std::string_view kClaims =
    "GET /a HTTP/1.1\r\nHost: x\r\nX-Real-IP: 192.0.2.1\r\nForwarded: for=192.0.2.2\r\n"
    "X-Forwarded-Host: evil.example\r\nX-Forwarded-For: 192.0.2.3\r\n"
    "X-Forwarded-For: 192.0.2.4\r\nX-Forwarded-Proto: https\r\n"
    "X-Forwarded-Port: 8443\r\nx-forwarded-prefix: /evil\r\nX-FORWARDED-SERVER: evil.example\r\n"
    "X-Forwarded-User: evil\r\nX-Forwarded: for=192.0.2.5\r\nX-Forwardedness: kept\r\n\r\n";

TEST_F(GatewayTest, WhatStrangersClaimToBeIsNotForwarded) {
  Open();
  SocketClient client = Dial();
  client.Send(kClaims);
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_FALSE(Has(seen, "192.0.2.")) << seen;
  EXPECT_FALSE(Has(seen, "evil")) << seen;
  EXPECT_FALSE(Has(seen, "8443")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwardedness: kept\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwarded-For: 127.0.0.1\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwarded-Proto: http\r\n")) << seen;
}

TEST_F(GatewayTest, WhatATrustedProxySaysIsForwarded) {
  const std::vector<std::string> here = {"127.0.0.1"};
  options.view.client.trusted = std::move(http::IpBlocks::Create(here)).value();
  Open();
  SocketClient client = Dial();
  client.Send(kClaims);
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_TRUE(Has(seen, "X-Real-IP: 192.0.2.1\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "Forwarded: for=192.0.2.2\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwarded-Host: evil.example\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwarded-For: 192.0.2.3, 192.0.2.4, 127.0.0.1\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwarded-Proto: https\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwarded-Port: 8443\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "x-forwarded-prefix: /evil\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-FORWARDED-SERVER: evil.example\r\n")) << seen;
  EXPECT_TRUE(Has(seen, "X-Forwarded-User: evil\r\n")) << seen;
}

// --- upstreams that do not read

// Fills what stands between a client and an upstream that reads nothing more.
void Fill(GatewayTest& test, SocketClient& client) {
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 60; ++i) {
    client.SendSome(piece);
    test.Turn();
  }
}

TEST_F(GatewayTest, AnUpstreamThatStopsReadingABodyIs504AndHoldsNothing) {
  Open({Concurrency("one", 1)});
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  peer.reading = false;
  Fill(*this, client);
  clock.Advance(seconds(59));
  Turn();
  ASSERT_EQ(InFlight("one"), 1);
  clock.Advance(seconds(2));
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 504"));
  EXPECT_EQ(InFlight("one"), 0);
  EXPECT_EQ(counters().upstream_timeouts.load(), 1U);
  peer.reading = true;
  peer.Read();
  EXPECT_TRUE(Until([&] { return peer.ended || peer.reset; })) << "its connection is kept";
}

TEST_F(GatewayTest, AnUpstreamThatReadsABodySlowlyIsWaitedFor) {
  Open();
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  peer.reading = peer.keep = false;
  Fill(*this, client);
  for (int i = 0; i < 4; ++i) {
    clock.Advance(seconds(40));
    const size_t before = peer.bytes;
    peer.Read();
    EXPECT_GT(peer.bytes, before);
    Fill(*this, client);
  }
  EXPECT_EQ(counters().upstream_timeouts.load(), 0U);
  EXPECT_TRUE(client.Poll().empty()) << client.received();
}

// --- interim answers

TEST_F(GatewayTest, InterimAnswersPassWithoutWhatConcernsOneConnection) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n")
      .Send(
          "HTTP/1.1 102 Processing\r\nX-Not: 1\r\n\r\n"
          "HTTP/1.1 103 Early Hints\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"
          "Transfer-Encoding: chunked\r\nLink: </s.css>\r\n\r\n" +
          std::string(kOk));
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  EXPECT_TRUE(client.received().starts_with(
      "HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\nHTTP/1.1 200 OK\r\n"))
      << client.received();
}

TEST_F(GatewayTest, InterimAnswersWithoutEndAre502) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  for (size_t i = 0; i < base::kInterimAnswersMax; ++i) {
    peer.Send("HTTP/1.1 103 Early Hints\r\n\r\n");
    Turn();
  }
  ASSERT_FALSE(Has(client.Poll(), "HTTP/1.1 502"));
  peer.Send("HTTP/1.1 103 Early Hints\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
}

TEST_F(GatewayTest, InterimAnswersDoNotPutOffTheResponseTimeout) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  clock.Advance(seconds(40));
  peer.Send("HTTP/1.1 103 Early Hints\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "103 Early Hints"));
  clock.Advance(seconds(21));
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 504"));
}

// --- kept connections

// Both arrive in one turn: the late bytes, and the request that would take them for its
// answer.
TEST_F(GatewayTest, BytesBehindAnAnswerAreNotTheNextAnswer) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  ASSERT_EQ(gateway->upstreams().idle(0), 1U);
  client.Forget();
  client.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  Peer(0).Send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
  PeerWith(1, "GET /b").Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  EXPECT_FALSE(Has(client.received(), "poison"));
  EXPECT_EQ(counters().upstream_retries.load(), 0U);
}

// --- exchanges that end within their own start

// The upstream's connection is fresh, so that the body is first looked at when it becomes
// ready, within the call that sends the request.
TEST_F(GatewayTest, ABodyThatEndsBrokenBeforeItsUpstreamIsReadyEndsTheExchangeOnce) {
  Open({Concurrency("one", 1)});
  upstream.on_data = [](ScriptedUpstream::Peer& peer) { peer.Close(); };
  for (const std::string head :
       {"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "Content-Length: 100\r\n\r\nhalf", "Content-Length: 100\r\n\r\n"}) {
    SCOPED_TRACE(head);
    SocketClient client(address.raw(), address.raw_size());
    client.Send("POST /a HTTP/1.1\r\nHost: x\r\n" + head);
    client.ShutdownWrites();
    ASSERT_TRUE(UntilClosed(client));
    Turn();
    EXPECT_EQ(InFlight("one"), 0);
    EXPECT_EQ(counters().in_flight.load(), 0);
    upstream.peers.clear();
  }
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient next = Dial();
  EXPECT_TRUE(Get(next, "/b").ends_with("ok"));
}

}  // namespace
}  // namespace flowguard::serve
