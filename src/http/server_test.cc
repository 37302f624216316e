// SPDX-License-Identifier: Apache-2.0
//
// A server with a Handler behind it, on real sockets, turned by hand.
#include "http/server.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/handler.h"
#include "http/handler_service.h"
#include "http/server_session.h"
#include "testing/manual_clock.h"
#include "testing/socket_client.h"

namespace flowguard::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SocketClient;

// Answers with what it was asked, and keeps a record.
class Echo final : public Handler {
 public:
  void Handle(const wire::RequestHead& head, std::string_view body, const PeerInfo& /*peer*/,
              Responder& responder) noexcept override {
    seen.push_back(std::string(head.method_text) + " " + std::string(head.target));
    bodies.emplace_back(body);
    if (head.target == "/later") {
      deferred = responder.Defer(this);
      return;
    }
    if (head.target == "/nothing") return;
    responder.Send(200, "text/plain", seen.back(), "X-Echo: yes\r\n");
  }
  void OnGone(void* waiter) noexcept override { gone += waiter == this ? 1 : 100; }
  std::vector<std::string> seen;
  std::vector<std::string> bodies;
  Deferred deferred;
  int gone = 0;
};

struct ServerTest : ::testing::Test {
  ServerTest() { Open({}); }

  void Open(const ServerOptions& options) {
    server = std::make_unique<Server>(*loop, options, service);
    address = *server->Listen(*net::Address::Parse("127.0.0.1:0"));
  }
  SocketClient Dial() {
    SocketClient client(address.raw(), address.raw_size());
    Turn();
    return client;
  }
  void Turn(int turns = 3) {
    for (int i = 0; i < turns; ++i)
      loop->RunOnce(Duration::zero());
  }
  // Turns until `done`; a test that needs many turns fails instead of hanging.
  bool Until(const std::function<bool()>& done) {
    for (int i = 0; i < 5000; ++i) {
      if (done()) return true;
      loop->RunOnce(milliseconds(1));
    }
    return false;
  }
  std::string Ask(SocketClient& client, std::string_view request) {
    client.Forget();
    client.Send(request);
    Turn();
    return client.Poll();
  }
  static size_t Count(std::string_view text, std::string_view what) {
    size_t count = 0;
    for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
      ++count;
    }
    return count;
  }
  static std::string BodyOf(const std::string& answer) {
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }

  testing::ManualClock clock;
  std::unique_ptr<net::Loop> loop = std::move(net::Loop::Create(clock)).value();
  Echo echo;
  HandlerService service{echo, 1000};
  std::unique_ptr<Server> server;
  net::Address address;
};

TEST_F(ServerTest, AnswersAndKeepsTheConnection) {
  SocketClient client = Dial();
  const std::string answer = Ask(client, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(answer.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_NE(answer.find("X-Echo: yes\r\n"), std::string::npos);
  EXPECT_NE(answer.find("Content-Length: 6\r\n"), std::string::npos);
  EXPECT_EQ(answer.find("Connection:"), std::string::npos);
  EXPECT_EQ(BodyOf(answer), "GET /a");

  EXPECT_EQ(BodyOf(Ask(client, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n")), "GET /b");
  EXPECT_EQ(server->counters().connections.load(), 1U);
  EXPECT_EQ(server->counters().requests.load(), 2U);
}

TEST_F(ServerTest, AnIdleConnectionHoldsNoBuffer) {
  SocketClient client = Dial();
  Ask(client, "GET /a HTTP/1.1\r\nHo");
  EXPECT_GT(server->buffers().lent_bytes(), 0U);
  Ask(client, "st: x\r\n\r\n");
  EXPECT_EQ(server->buffers().lent_bytes(), 0U);
}

TEST_F(ServerTest, SplitAtEveryByteARequestIsTheSameRequest) {
  const std::string request =
      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n4;e=1\r\ndefg\r\n0\r\nT: 1\r\n\r\n"
      "GET /g HTTP/1.1\r\nHost: x\r\n\r\n";
  for (size_t cut = 1; cut < request.size(); ++cut) {
    SCOPED_TRACE(cut);
    echo.seen.clear();
    echo.bodies.clear();
    SocketClient client = Dial();
    client.Send(request.substr(0, cut));
    Turn();
    client.Send(request.substr(cut));
    Turn();
    ASSERT_EQ(echo.seen, (std::vector<std::string>{"POST /p", "POST /c", "GET /g"}));
    ASSERT_EQ(echo.bodies, (std::vector<std::string>{"hello", "abcdefg", ""}));
    ASSERT_EQ(Count(client.Poll(), "HTTP/1.1 200 OK"), 3U);
  }
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  SocketClient client = Dial();
  std::string requests;
  for (int i = 0; i < 300; ++i) {
    requests += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  }
  client.Send(requests);
  ASSERT_TRUE(Until([&] { return Count(client.Poll(), "HTTP/1.1 200") == 300; }));
  size_t at = 0;
  for (int i = 0; i < 300; ++i) {
    at = client.received().find("\r\n\r\nGET /" + std::to_string(i) + "H", at);
    if (i < 299) {
      ASSERT_NE(at, std::string::npos) << i;
    } else {
      EXPECT_TRUE(client.received().ends_with("GET /299"));
    }
  }
}

TEST_F(ServerTest, OneTurnAnswersABoundedNumberOfOneClientsRequests) {
  SocketClient client = Dial();
  std::string requests;
  for (int i = 0; i < 1000; ++i)
    requests += "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  client.Send(requests);
  loop->RunOnce(Duration::zero());
  EXPECT_LE(echo.seen.size(), base::kPipelineDepthMax);
  ASSERT_TRUE(Until([&] { return Count(client.Poll(), "HTTP/1.1 200") == 1000; }));
}

TEST_F(ServerTest, HeadHasNoBodyAndTheNextAnswerIsUnderstood) {
  SocketClient client = Dial();
  const std::string answer = Ask(client, "HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(answer.find("Content-Length: 7\r\n"), std::string::npos);
  EXPECT_EQ(BodyOf(answer), "");
  EXPECT_EQ(BodyOf(Ask(client, "GET /g HTTP/1.1\r\nHost: x\r\n\r\n")), "GET /g");
}

TEST_F(ServerTest, HttpOneDotZeroAndConnectionCloseEndTheConnection) {
  for (const char* request :
       {"GET /a HTTP/1.0\r\n\r\n", "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"}) {
    SocketClient client = Dial();
    const std::string answer = Ask(client, request);
    EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos);
    EXPECT_EQ(BodyOf(answer), "GET /a");
    Turn();
    client.Poll();
    EXPECT_TRUE(client.ended());
  }
}

TEST_F(ServerTest, WhatIsNotHttpIsRefusedAndNothingBehindItIsRead) {
  struct Case {
    const char* request;
    const char* status;
  };
  const std::string long_target =
      "GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string many_headers = [] {
    std::string text = "GET / HTTP/1.1\r\nHost: x\r\n";
    for (int i = 0; i < 200; ++i)
      text += "A" + std::to_string(i) + ": b\r\n";
    return text + "\r\n";
  }();
  const std::vector<Case> cases = {
      {"nonsense\r\n\r\n", " 400 "},
      {"GET / HTTP/1.1\r\n\r\n", " 400 "},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
       " 400 "},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", " 400 "},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc", " 400 "},
      {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", " 501 "},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", " 505 "},
      {"POST / HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 1\r\n\r\n", " 417 "},
      {long_target.c_str(), " 414 "},
      {many_headers.c_str(), " 431 "},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(std::string(one.request).substr(0, 100));
    echo.seen.clear();
    SocketClient client = Dial();
    client.Send(std::string(one.request) + "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(Until([&] {
      client.Poll();
      return client.closed();
    }));
    const std::string line = client.received().substr(0, client.received().find("\r\n"));
    EXPECT_NE(line.find(one.status), std::string::npos) << line;
    EXPECT_NE(client.received().find("Connection: close\r\n"), std::string::npos);
    EXPECT_NE(client.received().find("application/problem+json"), std::string::npos);
    EXPECT_EQ(Count(client.received(), "Content-Length:"), 1U);
    EXPECT_TRUE(echo.seen.empty());
    EXPECT_FALSE(client.reset());
  }
}

TEST_F(ServerTest, ABrokenChunkIsRefusedAndNeverReachesTheHandler) {
  SocketClient client = Dial();
  client.Send(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\nzz\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Until([&] {
    client.Poll();
    return client.closed();
  }));
  EXPECT_NE(client.received().find(" 400 "), std::string::npos);
  EXPECT_TRUE(echo.seen.empty());
}

TEST_F(ServerTest, ASlowHeadIsCutOffByTotalTimeNotByPauses) {
  // One byte a second never pauses long, and must not hold a connection for ever.
  SocketClient client = Dial();
  const std::string head = "GET / HTTP/1.1\r\nHost: a-rather-long-host-name";
  for (int i = 0; i < 10; ++i) {
    client.Send(head.substr(static_cast<size_t>(i), 1));
    Turn();
    EXPECT_FALSE((client.Poll(), client.closed()));
    clock.Advance(seconds(1));
  }
  Turn();
  client.Poll();
  EXPECT_NE(client.received().find(" 408 "), std::string::npos);
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(server->counters().timeouts.load(), 1U);
  EXPECT_TRUE(echo.seen.empty());
  clock.Advance(seconds(3));
  Turn();
  EXPECT_EQ(server->open(), 0U);
}

TEST_F(ServerTest, ASlowBodyIsAnswered408) {
  SocketClient client = Dial();
  Ask(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  clock.Advance(seconds(29));
  Ask(client, "d");
  EXPECT_FALSE((client.Poll(), client.closed()));
  clock.Advance(seconds(2));  // a byte is worth its share of the least rate, no more
  Turn();
  EXPECT_NE(client.Poll().find(" 408 "), std::string::npos);
  EXPECT_TRUE(echo.seen.empty());
}

TEST_F(ServerTest, IdleConnectionsAreClosedWithoutAWord) {
  SocketClient fresh = Dial();
  SocketClient used = Dial();
  Ask(used, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  used.Forget();
  clock.Advance(seconds(11));
  Turn();
  EXPECT_TRUE((fresh.Poll(), fresh.ended())) << "never sent a byte";
  EXPECT_FALSE((used.Poll(), used.closed()));
  clock.Advance(seconds(75));
  Turn();
  EXPECT_TRUE((used.Poll(), used.ended()));
  EXPECT_EQ(used.received(), "");
}

TEST_F(ServerTest, ABodyAboveTheBoundIs413AndTheClientSeesIt) {
  SocketClient client = Dial();
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
  client.SendSome(std::string(200'000, 'x'));
  ASSERT_TRUE(Until([&] {
    client.Poll();
    return client.closed();
  }));
  EXPECT_NE(client.received().find(" 413 "), std::string::npos);
  EXPECT_FALSE(client.reset());
  EXPECT_TRUE(echo.seen.empty());
}

TEST_F(ServerTest, AChunkedBodyAboveTheBoundIs413) {
  SocketClient client = Dial();
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" +
              std::string(2048, 'x') + "\r\n0\r\n\r\n");
  ASSERT_TRUE(Until([&] { return client.Poll().find(" 413 ") != std::string::npos; }));
  EXPECT_TRUE(echo.seen.empty());
}

TEST_F(ServerTest, ContinueIsSentOnceAndOnlyWhenTheBodyIsWanted) {
  SocketClient client = Dial();
  const std::string interim = Ask(
      client, "POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(interim, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(BodyOf(Ask(client, "abc")), "POST /p");

  const std::string refused =
      Ask(client,
          "POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n");
  EXPECT_EQ(refused.find(" 100 "), std::string::npos);
  EXPECT_NE(refused.find(" 413 "), std::string::npos);
  EXPECT_NE(refused.find("Connection: close"), std::string::npos);
}

TEST_F(ServerTest, ADeferredAnswerKeepsLaterRequestsWaiting) {
  SocketClient client = Dial();
  EXPECT_EQ(
      Ask(client, "GET /later HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n"),
      "");
  EXPECT_EQ(echo.seen.size(), 1U);
  ASSERT_TRUE(echo.deferred.waiting());
  echo.deferred.Send(200, "text/plain", "now");
  Turn();
  const std::string both = client.Poll();
  EXPECT_LT(both.find("now"), both.find("GET /next"));
  EXPECT_FALSE(echo.deferred.waiting());
}

TEST_F(ServerTest, ADeferredAnswerToAClientThatLeftGoesNowhere) {
  SocketClient client = Dial();
  Ask(client, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  client.Close();
  Turn();
  EXPECT_FALSE(echo.deferred.waiting());
  SocketClient other = Dial();  // uses the same session object
  echo.deferred.Send(200, "text/plain", "for somebody else");
  EXPECT_EQ(Ask(other, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n").find("somebody"), std::string::npos);
  EXPECT_EQ(server->counters().aborted.load(), 1U);
}

TEST_F(ServerTest, AHandlerIsToldOnceThatTheClientItLetWaitHasLeft) {
  SocketClient bodiless = Dial();
  SocketClient chunked = Dial();
  SocketClient answered = Dial();
  Ask(bodiless, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  Ask(chunked, "POST /later HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  Ask(chunked, "3\r\nabc\r\n0\r\n\r\n");
  Ask(answered, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  echo.deferred.Send(200, "text/plain", "now");
  EXPECT_EQ(echo.gone, 0);

  for (SocketClient* client : {&bodiless, &chunked, &answered})
    client->Close();
  Turn();

  EXPECT_EQ(echo.gone, 2);
}

// The body is gathered still: nobody waits yet.
TEST_F(ServerTest, AHandlerIsNotToldOfClientsThatItHasNotSeen) {
  SocketClient client = Dial();
  Ask(client, "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
  client.Close();
  Turn();
  EXPECT_TRUE(echo.seen.empty());
  EXPECT_EQ(echo.gone, 0);
}

TEST_F(ServerTest, AHandlerThatSaysNothingIs500) {
  SocketClient client = Dial();
  EXPECT_NE(Ask(client, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n").find(" 500 "),
            std::string::npos);
}

TEST_F(ServerTest, AClientThatDoesNotReadIsNotBufferedWithoutBound) {
  SocketClient client = Dial();
  std::string requests;
  for (int i = 0; i < 500; ++i)
    requests += "GET /" + std::string(900, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n";
  for (int i = 0; i < 200; ++i) {
    client.SendSome(requests);
    Turn(20);
  }
  EXPECT_LT(server->buffers().lent_bytes(), 1'000'000U);
  const size_t stuck = echo.seen.size();
  Turn(50);
  EXPECT_EQ(echo.seen.size(), stuck) << "requests are taken though no answer gets out";
  clock.Advance(seconds(31));
  Turn();
  EXPECT_EQ(server->open(), 0U) << "a reader that stands still is cut off";
}

TEST_F(ServerTest, AboveTheConnectionBoundClientsAreToldAndClosed) {
  ServerOptions options;
  options.connections_max = 2;
  Open(options);
  SocketClient a = Dial();
  SocketClient b = Dial();
  SocketClient c = Dial();
  c.Poll();
  EXPECT_NE(c.received().find(" 503 "), std::string::npos);
  EXPECT_TRUE(c.closed());
  EXPECT_EQ(server->counters().shed.load(), 1U);
  a.Close();
  Turn();
  SocketClient d = Dial();
  EXPECT_EQ(BodyOf(Ask(d, "GET /d HTTP/1.1\r\nHost: x\r\n\r\n")), "GET /d");
}

TEST_F(ServerTest, DrainAnswersTheNextRequestWithCloseAndThenEndsIdleOnes) {
  SocketClient active = Dial();
  SocketClient idle = Dial();
  Ask(active, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  Ask(idle, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  server->Drain(seconds(10));
  EXPECT_FALSE(server->drained());
  clock.Advance(milliseconds(100));
  const std::string answer = Ask(active, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(BodyOf(answer), "GET /b");
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_TRUE((active.Poll(), active.ended()));
  EXPECT_FALSE((idle.Poll(), idle.closed()));
  clock.Advance(seconds(1));
  Turn();
  EXPECT_TRUE((idle.Poll(), idle.ended()));
  EXPECT_FALSE(idle.reset());
  idle.Close();
  Turn();
  EXPECT_TRUE(server->drained());
}

TEST_F(ServerTest, DrainLetsAnAnswerEndWithinItsGraceAndNotLonger) {
  SocketClient ends = Dial();
  SocketClient hangs = Dial();
  Ask(ends, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  Deferred first = echo.deferred;
  Ask(hangs, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  server->Drain(seconds(5));
  clock.Advance(seconds(4));
  Turn();
  first.Send(200, "text/plain", "made it");
  Turn();
  EXPECT_NE(ends.Poll().find("made it"), std::string::npos);
  EXPECT_NE(ends.received().find("Connection: close"), std::string::npos);
  clock.Advance(seconds(2));
  Turn();
  EXPECT_TRUE((hangs.Poll(), hangs.closed()));
  EXPECT_TRUE(server->drained());
  EXPECT_EQ(server->counters().cut_off.load(), 1U) << "the drain must not pass for a good one";
}

TEST_F(ServerTest, ARequestAndItsEndInOnePacketAreAnswered) {
  SocketClient client = Dial();
  client.Send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ShutdownWrites();
  ASSERT_TRUE(Until([&] {
    client.Poll();
    return client.closed();
  }));
  EXPECT_EQ(BodyOf(client.received()), "GET /a");
}

}  // namespace
}  // namespace flowguard::http
