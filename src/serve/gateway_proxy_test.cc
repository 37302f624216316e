// SPDX-License-Identifier: Apache-2.0
//
// What the gateway makes of requests and answers on their way, and of upstreams that
// are down, slow, lying or gone.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "serve/gateway.h"
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

TEST_F(GatewayTest, ForwardsWhatConcernsBothEndsAndNotWhatConcernsOneConnection) {
  Open();
  SocketClient client = Dial();
  client.Send(
      "GET /a?b=c HTTP/1.1\r\nHost: shop.example\r\nConnection: keep-alive, X-Private\r\n"
      "X-Private: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: trailers\r\n"
      "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Kept: yes\r\n\r\n");
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_TRUE(seen.starts_with("GET /a?b=c HTTP/1.1\r\n"));
  EXPECT_NE(seen.find("Host: shop.example\r\n"), std::string::npos);
  EXPECT_NE(seen.find("X-Kept: yes\r\n"), std::string::npos);
  EXPECT_NE(seen.find("X-Forwarded-For: 127.0.0.1\r\n"), std::string::npos);
  EXPECT_NE(seen.find("X-Forwarded-Proto: http\r\n"), std::string::npos)
      << "not what strangers say";
  EXPECT_NE(seen.find("TE: trailers\r\n"), std::string::npos);
  for (const char* gone : {"X-Private", "Keep-Alive", "Proxy-Connection"}) {
    EXPECT_EQ(seen.find(gone), std::string::npos) << gone;
  }
  Peer(0).Send(
      "HTTP/1.1 200 OK\r\nServer: theirs\r\nDate: then\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
      "Content-Length: 0\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\n"));
  EXPECT_NE(client.received().find("Server: theirs\r\n"), std::string::npos);
  EXPECT_NE(client.received().find("Date: then\r\n"), std::string::npos);
  EXPECT_EQ(client.received().find("X-Hop"), std::string::npos);
  EXPECT_EQ(client.received().find("Connection:"), std::string::npos);
}

TEST_F(GatewayTest, AnAbsoluteTargetIsReducedAndItsHostCounts) {
  Open();
  SocketClient client = Dial();
  client.Send("GET http://real.example/p?q HTTP/1.1\r\nHost: other.example\r\n\r\n");
  const std::string& seen = PeerWith(0, "\r\n\r\n").received;
  EXPECT_TRUE(seen.starts_with("GET /p?q HTTP/1.1\r\nHost: real.example\r\n")) << seen;
  EXPECT_EQ(seen.find("other.example"), std::string::npos);
}

TEST_F(GatewayTest, ConnectionsToTheUpstreamAreUsedAgain) {
  Open();
  upstream.AlwaysAnswer(std::string(kOk));
  for (int i = 0; i < 10; ++i) {
    SocketClient client = Dial();
    EXPECT_TRUE(Get(client, "/a").ends_with("ok"));
    EXPECT_TRUE(Get(client, "/b").ends_with("ok"));
  }
  EXPECT_EQ(upstream.peers.size(), 1U);
  EXPECT_EQ(upstream.requests(), 20U);
}

TEST_F(GatewayTest, SplitAtEveryByteBothWaysIsTheSameExchange) {
  Open();
  const std::string request =
      "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: "
      "1\r\n\r\n";
  const std::string answer =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: U\r\n\r\n4\r\nwxyz\r\n0\r\nU: "
      "2\r\n\r\n";
  SocketClient client = Dial();
  for (size_t cut = 1; cut < std::max(request.size(), answer.size()); ++cut) {
    SCOPED_TRACE(cut);
    client.Forget();
    if (!upstream.peers.empty()) upstream.peers[0]->received.clear();
    client.Send(request.substr(0, std::min(cut, request.size())));
    Turn();
    if (cut < request.size()) client.Send(request.substr(cut));
    PeerWith(0, "\r\n0\r\n\r\n").Send(answer.substr(0, std::min(cut, answer.size())));
    Turn();
    if (cut < answer.size()) Peer(0).Send(answer.substr(cut));
    ASSERT_TRUE(UntilReceived(client, "0\r\nU: 2\r\n\r\n")) << client.received();
    ASSERT_EQ(Count(client.received(), "wxyz"), 1U);
    ASSERT_TRUE(Peer(0).received.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
  }
  EXPECT_EQ(upstream.peers.size(), 1U);
}

TEST_F(GatewayTest, HeadAnd304And204HaveNoBodyWhateverTheirLength) {
  Open();
  SocketClient client = Dial();
  client.Send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "HEAD /a").Send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "Content-Length: 500\r\n\r\n"));
  client.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "GET /b").Send("HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "304 Not Modified"));
  client.Send("GET /c HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "GET /c").Send("HTTP/1.1 204 No Content\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "204 No Content"));
  EXPECT_EQ(upstream.peers.size(), 1U);
}

TEST_F(GatewayTest, InterimAnswersPassAndDoNotEndTheRequest) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n")
      .Send("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n" + std::string(kOk));
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  EXPECT_EQ(Count(client.received(), "HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n"), 1U);
}

TEST_F(GatewayTest, AnAnswerThatLastsUntilCloseEndsTheClientsConnection) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  peer.Send("HTTP/1.0 200 OK\r\n\r\nall of it");
  peer.Close();
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_TRUE(client.ended());
  EXPECT_NE(client.received().find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(client.received().ends_with("\r\n\r\nall of it"));
}

TEST_F(GatewayTest, AnHttpOneDotZeroClientGetsNoChunks) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.0\r\n\r\n");
  PeerWith(0, "\r\n\r\n")
      .Send(
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_TRUE(client.received().ends_with("\r\n\r\nabcde")) << client.received();
  EXPECT_EQ(client.received().find("chunked"), std::string::npos);
}

TEST_F(GatewayTest, AnAnswerThatIsCutOffIsSeenToBe) {
  // A short body must never look whole, whichever way its length was told.
  Open();
  for (const char* begun : {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
                            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    const size_t index = upstream.peers.size();
    SocketClient client = Dial();
    client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    ScriptedUpstream::Peer& peer = PeerWith(index, "\r\n\r\n");
    peer.Send(begun);
    ASSERT_TRUE(UntilReceived(client, "abc"));
    peer.Close();
    ASSERT_TRUE(UntilClosed(client));
    EXPECT_TRUE(client.reset());
  }
  EXPECT_EQ(counters().upstream_resets.load(), 2U);
}

TEST_F(GatewayTest, BrokenChunksOfTheUpstreamResetTheClient) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_TRUE(client.reset());
  EXPECT_EQ(counters().upstream_garbage.load(), 1U);
}

TEST_F(GatewayTest, AnUpstreamThatIsDownSlowOrTalksGarbageIs502Or504) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /garbage HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
  EXPECT_EQ(counters().upstream_garbage.load(), 1U);

  client.Forget();
  client.Send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(1, "\r\n\r\n");
  clock.Advance(seconds(61));
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 504"));
  EXPECT_EQ(counters().upstream_timeouts.load(), 1U);

  client.Forget();
  client.Send("GET /lying HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(2, "\r\n\r\n")
      .Send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde");
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));

  upstream.StopListening();
  client.Forget();
  client.Send("GET /down HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
  EXPECT_EQ(counters().upstream_connect_failures.load(), 1U);
}

TEST_F(GatewayTest, MoreThanTheAnnouncedBodyIsNotTheNextAnswer) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n")
      .Send(std::string(kOk) + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  client.Forget();
  client.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(1, "GET /b").Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  EXPECT_EQ(client.received().find("poison"), std::string::npos);
}

TEST_F(GatewayTest, AKeptConnectionThatDiedIsReplacedWithoutASecondCharge) {
  Open({Limit("two", 2)});
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  client.Forget();
  // It takes the next request, and dies over it as if it had been closing already.
  client.Send("GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "GET /b").Reset();
  PeerWith(1, "GET /b").Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  EXPECT_EQ(counters().upstream_retries.load(), 1U);
  EXPECT_EQ(Get(client, "/c").substr(0, 12), "HTTP/1.1 429");
}

TEST_F(GatewayTest, ARequestThatMayHaveActedIsNotSentTwice) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
  client.Send("POST /order HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
  PeerWith(0, "hi").Reset();
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
  EXPECT_EQ(upstream.peers.size(), 1U);
}

TEST_F(GatewayTest, AnotherAddressIsTriedWhenOneRefusesAndThatOneIsLeftOutThen) {
  ScriptedUpstream other(*loop);
  other.AlwaysAnswer(std::string(kOk));
  options.upstreams = {upstream.address(), other.address()};
  options.upstream.fail_after = 2;
  options.upstream.retry_down_after = seconds(7);
  upstream.StopListening();
  Open({Limit("hundred", 100)});
  SocketClient client = Dial();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(Get(client, "/a").ends_with("ok"));
  EXPECT_EQ(other.requests(), 20U);
  EXPECT_EQ(counters().upstream_connect_failures.load(), 2U);
  clock.Advance(seconds(6));
  Turn();
  EXPECT_TRUE(gateway->upstreams().ejected(0));
  clock.Advance(seconds(1));
  Turn();
  EXPECT_FALSE(gateway->upstreams().ejected(0)) << "it is given another chance";
}

TEST_F(GatewayTest, AsManyOtherAddressesAreTriedAsRetriesSays) {
  ScriptedUpstream second(*loop);
  ScriptedUpstream third(*loop);
  third.AlwaysAnswer(std::string(kOk));
  upstream.StopListening();
  second.StopListening();
  options.upstreams = {upstream.address(), second.address(), third.address()};
  options.upstream.fail_after = 1000;
  for (const int retries : {0, 1, 2}) {
    options.upstream.retries = retries;
    Open();
    SocketClient client = Dial();
    EXPECT_EQ(Get(client, "/a").substr(0, 12), retries == 2 ? "HTTP/1.1 200" : "HTTP/1.1 502")
        << retries;
    EXPECT_EQ(counters().upstream_retries.load(), static_cast<uint64_t>(retries));
  }
}

TEST_F(GatewayTest, AnEarlyAnswerPassesWhileTheBodyIsStillBeingSent) {
  Open();
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\nbegin");
  ScriptedUpstream::Peer& peer = PeerWith(0, "begin");
  peer.Send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
  ASSERT_TRUE(UntilReceived(client, "big"));
  EXPECT_NE(client.received().find("Connection: close"), std::string::npos);
  EXPECT_FALSE(client.reset());
}

TEST_F(GatewayTest, AClientThatLeavesInItsBodyLeavesNoWholeRequestBehind) {
  Open({Concurrency("one", 1)});
  SocketClient client = Dial();
  client.Send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
  ScriptedUpstream::Peer& peer = PeerWith(0, "half");
  client.Close();
  ASSERT_TRUE(Until([&] { return peer.ended || peer.reset; }));
  EXPECT_TRUE(peer.received.ends_with("half"));
  EXPECT_EQ(InFlight("one"), 0);
}

TEST_F(GatewayTest, AnUpgradedConnectionIsATunnelThatHoldsItsPlace) {
  Open({Concurrency("one", 1)});
  SocketClient client = Dial();
  client.Send("GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  EXPECT_NE(peer.received.find("Connection: Upgrade\r\nUpgrade: websocket\r\n"), std::string::npos);
  peer.Send(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello");
  ASSERT_TRUE(UntilReceived(client, "hello"));
  EXPECT_NE(client.received().find("Upgrade: websocket\r\n"), std::string::npos);
  client.Send("GET / HTTP/1.1\r\n\r\n is data here");
  PeerWith(0, "is data here").Send("more");
  ASSERT_TRUE(UntilReceived(client, "more"));
  EXPECT_EQ(InFlight("one"), 1);
  peer.Close();
  ASSERT_TRUE(UntilClosed(client));
  EXPECT_EQ(InFlight("one"), 0);
}

TEST_F(GatewayTest, AnUpgradeThatNobodyAskedForIs502) {
  Open();
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  PeerWith(0, "\r\n\r\n").Send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
  ASSERT_TRUE(UntilReceived(client, "HTTP/1.1 502"));
}

TEST_F(GatewayTest, ALargeAnswerStreamsThroughBoundedMemory) {
  Open();
  constexpr size_t kSize = 64 << 20;
  SocketClient client = Dial();
  client.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  peer.Send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kSize) + "\r\n\r\n");
  peer.Send(std::string(kSize, 'x'));
  Turn(50);
  EXPECT_LE(gateway->server().buffers().lent_bytes(), 512U << 10) << "the client has not read yet";
  EXPECT_GT(peer.unsent(), kSize / 2) << "the upstream was not held back";
  size_t got = 0;
  ASSERT_TRUE(Until([&] {
    got += client.Poll().size();
    client.Forget();
    return got >= kSize;
  }));
  EXPECT_EQ(gateway->server().buffers().lent_bytes(), 0U);
  EXPECT_FALSE(client.closed());
}

TEST_F(GatewayTest, ALargeBodyStreamsThroughBoundedMemory) {
  Open();
  constexpr size_t kSize = 64 << 20;
  SocketClient client = Dial();
  client.Send("POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kSize) +
              "\r\n\r\n");
  ScriptedUpstream::Peer& peer = PeerWith(0, "\r\n\r\n");
  peer.keep = peer.reading = false;
  const size_t head = peer.bytes;
  const std::string piece(1 << 20, 'x');
  size_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    sent +=
        client.SendSome(std::string_view(piece).substr(0, std::min(piece.size(), kSize - sent)));
    Turn();
  }
  EXPECT_LT(sent, kSize / 2) << "the client was not held back";
  EXPECT_LE(gateway->server().buffers().lent_bytes(), 256U << 10);
  peer.reading = true;
  peer.Read();
  ASSERT_TRUE(Until([&] {
    sent +=
        client.SendSome(std::string_view(piece).substr(0, std::min(piece.size(), kSize - sent)));
    return peer.bytes == head + kSize;
  }));
  peer.Send(kOk);
  ASSERT_TRUE(UntilReceived(client, "\r\n\r\nok"));
}

}  // namespace
}  // namespace flowguard::serve
