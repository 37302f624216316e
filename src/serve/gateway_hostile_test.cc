// SPDX-License-Identifier: Apache-2.0
//
// Clients that try to get around the rules, and upstreams that hold or mix up what is
// not theirs.
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/bounds.h"
#include "serve/gateway.h"
#include "serve/gateway_fixture_test.h"
#include "testing/rules.h"

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

// The upstream gets the target as it came, so what it may take for another path than the
// rules did must not get there, not even where no rule looks.
TEST_F(GatewayTest, DotsThatUpstreamsResolveInTwoWaysAre400) {
  options.view.exempt =
      std::move(ExemptRoutes::Create(std::vector<std::string>{"/healthz"})).value();
  Open();
  for (const std::string target : {"/api/..;/healthz", "/api//../healthz", "/api/..;x/login",
                                   "/api//../login", "/a%2Fb/../healthz"}) {
    SCOPED_TRACE(target);
    SocketClient client = Dial();
    EXPECT_TRUE(Get(client, target).starts_with("HTTP/1.1 400"));
  }
  EXPECT_EQ(upstream.peers.size(), 0U);
}

TEST_F(GatewayTest, AnotherSpellingOfAnExemptPathIsDecided) {
  options.view.exempt =
      std::move(ExemptRoutes::Create(std::vector<std::string>{"/healthz"})).value();
  Open({Limit("none", 0)});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  EXPECT_TRUE(Get(client, "/healthz?a=b").ends_with("ok"));
  for (const std::string target : {"/healthz/", "//healthz", "/x/../healthz", "/healthz;x"}) {
    SCOPED_TRACE(target);
    EXPECT_TRUE(Get(client, target).starts_with("HTTP/1.1 429"));
  }
}

TEST_F(GatewayTest, AnExemptRouteIsCountedByNoKindOfRule) {
  options.view.exempt =
      std::move(ExemptRoutes::Create(std::vector<std::string>{"/healthz"})).value();
  Rule access;
  access.name = "access";
  access.kind = RuleKind::kAccess;
  access.deny = {{"method", {"GET"}}};
  std::vector<Rule> rules = {access, Limit("rate", 1), Concurrency("slots", 1),
                             testing::RuleOfSystem("most", testing::MostQps(1)),
                             testing::ErrorCountBreaker("breaker", 0)};
  Open(rules);
  upstream.AlwaysAnswer("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno");
  SocketClient client = Dial();
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(Get(client, "/healthz").ends_with("\r\n\r\nno"));

  const engine::EngineCounters counters = engine->Counters();
  EXPECT_EQ(counters.decisions, 0U);
  for (const engine::RuleCounters& rule : counters.rules) {
    EXPECT_EQ(rule.passed + rule.refused, 0U) << rule.rule;
    EXPECT_EQ(rule.inflight, 0) << rule.rule;
    EXPECT_EQ(rule.breakers_open, 0U) << rule.rule;
  }
  rules.erase(rules.begin());
  Open(rules);
  SocketClient other = Dial();
  EXPECT_TRUE(Get(other, "/a").ends_with("\r\n\r\nno")) << "the first that counts";
  EXPECT_TRUE(Get(other, "/a").starts_with("HTTP/1.1 429"));
}

// --- upstreams that cannot be reached

// The kernel says so within connect(): such an address has no request in flight, ever,
// and is the first choice until somebody counts its failures.
TEST_F(GatewayTest, AnAddressThatFailsAtOnceIsLeftOutAsOthersAre) {
  options.upstreams = {*net::Address::Parse("255.255.255.255:9"), upstream.address()};
  Open();
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(Get(client, "/a").ends_with("ok")) << i;
  EXPECT_TRUE(gateway->upstreams().ejected(0));
  EXPECT_EQ(counters().upstream_connect_failures.load(), 3U);
}

TEST_F(GatewayTest, OurOwnWantOfDescriptorsIsNoFaultOfAnAddress) {
  options.upstreams = {upstream.address(), *net::Address::Parse("127.0.0.1:9")};
  Open();
  SocketClient client = Dial();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(Get(client, "/a").starts_with("HTTP/1.1 502"));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(gateway->upstreams().ejected(0));
  EXPECT_FALSE(gateway->upstreams().ejected(1));
}

// --- clients that leave

Rule Spaced(std::string name, std::chrono::seconds wait) {
  Rule rule;
  rule.name = std::move(name);
  rule.rate = {1, wait};
  rule.wait = seconds(60);
  return rule;
}

TEST_F(GatewayTest, AWaitEndsWithItsClientWhateverIsUnreadOfTheBody) {
  Open({Spaced("one", seconds(10))});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient first = Dial();
  ASSERT_TRUE(Get(first, "/a").ends_with("ok"));
  for (const std::string body : {"", "ha", "half and whole"}) {
    SCOPED_TRACE(body);
    SocketClient client = Dial();
    client.Send("POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n" + body);
    ASSERT_TRUE(Until([&] { return counters().parked.load() == 1; }));
    client.Close();
    ASSERT_TRUE(Until([&] { return counters().parked.load() == 0; }));
  }
  clock.Advance(seconds(60));
  Turn();
  EXPECT_EQ(upstream.requests(), 1U);
}

TEST_F(GatewayTest, AClientThatLeavesInTheTurnInWhichItsWaitEndsIsNotSentOn) {
  Open({Spaced("one", seconds(10))});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient first = Dial();
  ASSERT_TRUE(Get(first, "/a").ends_with("ok"));
  SocketClient client = Dial();
  client.Send("POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
  ASSERT_TRUE(Until([&] { return counters().parked.load() == 1; }));
  clock.Advance(seconds(10));
  client.Close();
  Turn();
  EXPECT_EQ(counters().parked.load(), 0);
  EXPECT_EQ(upstream.requests(), 1U);
}

TEST_F(GatewayTest, AClientThatClosesItsHalfIsAnsweredAndThenClosed) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ShutdownWrites();
  PeerWith(0, "GET /a").Send(kOk);
  PeerWith(0, "GET /b").Send(kOk);
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_FALSE(client.reset());
  EXPECT_EQ(client.received(), std::string(kOk) + std::string(kOk));
}

TEST_F(GatewayTest, AWaitBehindAnAnswerEndsWhenTheClientHasClosedItsHalf) {
  Open({Spaced("one", seconds(10))});
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ShutdownWrites();
  PeerWith(0, "GET /a").Send(kOk);
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_EQ(counters().waited.load(), 1U);
  EXPECT_EQ(counters().parked.load(), 0);
}

// Each byte alone is in time; without a rate they hold a place for days.
TEST_F(GatewayTest, ABodyThatTricklesInLosesItsPlace) {
  Open({Concurrency("one", 1)});
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx");
  PeerWith(0, "\r\n\r\nx");
  for (int i = 0; i < 2; ++i) {
    clock.Advance(seconds(14));
    client.Send("x");
    Turn();
    ASSERT_EQ(InFlight("one"), 1) << i;
  }
  clock.Advance(seconds(3));
  Turn();
  EXPECT_EQ(InFlight("one"), 0);
}

TEST_F(GatewayTest, ABodyThatComesSlowlyButAtTheRateIsWaitedFor) {
  Open({Concurrency("one", 1)});
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nx");
  PeerWith(0, "\r\n\r\nx");
  for (int i = 0; i < 20; ++i) {
    clock.Advance(seconds(20));
    client.Send(std::string(20 * base::kTransferRateMin, 'x'));
    Turn();
    ASSERT_EQ(InFlight("one"), 1) << i;
  }
}

// --- tunnels

TEST_F(GatewayTest, ATunnelWhoseClientHasClosedItsHalfEndsSoon) {
  Open({Concurrency("one", 1)});
  SocketClient client = Dial();
  client.Send("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "Upgrade: websocket\r\n");
  peer.Send(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "101"));
  client.ShutdownWrites();
  ASSERT_TRUE(Until([&] { return peer.ended; }));
  peer.Send("the rest");
  ASSERT_TRUE(UntilReceived(client, "the rest"));
  clock.Advance(seconds(31));
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_EQ(InFlight("one"), 0);
}

// --- header lines

// Rules out: a budget of another host for a request that this host serves.
TEST_F(GatewayTest, ARuleReadsTheHostThatTheUpstreamGets) {
  Rule rule = Limit("by-host", 1);
  rule.by = {"header:host"};
  Open({rule});
  upstream.AlwaysAnswer(std::string(kOk));
  SocketClient client = Dial();
  EXPECT_TRUE(Ask(client, "GET http://real/a HTTP/1.1\r\nHost: other\r\n\r\n").ends_with("ok"));
  EXPECT_TRUE(Ask(client, "GET http://real/a HTTP/1.1\r\nHost: another\r\n\r\n")
                  .starts_with("HTTP/1.1 429"));
  EXPECT_TRUE(Ask(client, "GET /a HTTP/1.1\r\nHost: real\r\n\r\n").starts_with("HTTP/1.1 429"));
  EXPECT_TRUE(Ask(client, "GET /a HTTP/1.1\r\nHost: other\r\n\r\n").ends_with("ok"));
}

// Rules out: a tenant's budget for a request that reaches the upstream without a tenant.
TEST_F(GatewayTest, ConnectionTakesNoLineAwayThatARuleHasRead) {
  Rule rule = Limit("by-tenant", 100);
  rule.by = {"header:x-tenant-id"};
  Open({rule});
  SocketClient client = Dial();
  client.Send(
      "GET /a HTTP/1.1\r\nHost: x\r\nX-Tenant-Id: t\r\nX-Other: o\r\n"
      "Connection: x-tenant-id, X-Other\r\n\r\n");
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_TRUE(Has(seen, "X-Tenant-Id: t\r\n")) << seen;
  EXPECT_FALSE(Has(seen, "X-Other")) << seen;
  EXPECT_FALSE(Has(seen, "Connection:")) << seen;
}

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

TEST_F(GatewayTest, OtherAddressesPathsAndMethodsOfStrangersAreNotForwarded) {
  Rule rule = Limit("by-client", 100);
  rule.by = {"header:true-client-ip"};
  Open({rule});
  SocketClient client = Dial();
  std::string lines;
  for (const char* name :
       {"X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-Method-Override",
        "X-HTTP-Method", "X-Client-IP", "CF-Connecting-IP", "x-cluster-client-ip"}) {
    lines.append(name).append(": claimed\r\n");
  }
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n" + lines + "True-Client-IP: read\r\n\r\n");
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_FALSE(Has(seen, "claimed")) << seen;
  EXPECT_TRUE(Has(seen, "True-Client-IP: read\r\n")) << seen;
}

// No rule has seen them, and some upstreams merge them into the header lines.
TEST_F(GatewayTest, TrailersOfARequestAreNotForwarded) {
  Open();
  SocketClient client = Dial();
  const std::string request =
      "POST /a HTTP/1.1\r\nHost: x\r\nTrailer: X-Tenant-Id\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n0\r\nX-Tenant-Id: t\r\nT: 1\r\n\r\n";
  const size_t body = request.find("3\r\nabc");
  for (size_t cut = body; cut <= request.size(); ++cut) {
    SCOPED_TRACE(cut);
    client.Forget();
    if (!upstream.peers.empty()) upstream.peers[0]->received.clear();
    client.Send(request.substr(0, cut));
    Turn();
    client.Send(request.substr(cut));
    ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n0\r\n\r\n");
    EXPECT_TRUE(peer.received.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n")) << peer.received;
    EXPECT_FALSE(Has(peer.received, "Tenant")) << peer.received;
    peer.Send(kOk);
    ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  }
  EXPECT_EQ(upstream.peers.size(), 1U);
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
