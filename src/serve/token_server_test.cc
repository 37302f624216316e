// SPDX-License-Identifier: Apache-2.0
#include "serve/token_server.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "serve/token_fixture_test.h"

namespace flowguard::serve {
namespace {

using flowguard::testing::SocketClient;
using std::chrono::hours;
using std::chrono::seconds;
using wire::token::Answer;
using wire::token::Status;

// "000A 00": digits of bytes, spaces aside.
std::string Hex(std::string_view digits) {
  std::string bytes;
  int high = -1;
  for (const char digit : digits) {
    if (digit == ' ') continue;
    const int value = digit <= '9' ? digit - '0' : digit - 'A' + 10;
    if (high < 0) {
      high = value;
    } else {
      bytes.push_back(static_cast<char>(high * 16 + value));
      high = -1;
    }
  }
  return bytes;
}

std::vector<Status> Statuses(const std::vector<Answer>& answers) {
  std::vector<Status> statuses;
  statuses.reserve(answers.size());
  for (const Answer& answer : answers)
    statuses.push_back(answer.status);
  return statuses;
}

// The server's kernel has taken all that was sent.  Bounded.
bool HasArrived(const SocketClient& client) {
  constexpr int kLooks = 1'000'000;
  int under_way = 1;
  for (int i = 0; i < kLooks && under_way > 0; ++i) {
    if (ioctl(client.fd(), SIOCOUTQ, &under_way) != 0) return false;
    if (under_way > 0) std::this_thread::yield();
  }
  return under_way == 0;
}

// --- frames

TEST(TokenServerTest, TheFramesOfTheProtocolByteForByte) {
  Door door({FlowRule(1001, 10)});
  SocketClient& client = door.Connect();
  EXPECT_EQ(door.Ask(client, Hex("000D 00000000 00 00000004 61707041")),
            Hex("000A 00000000 00 00 00000001"));
  EXPECT_EQ(door.Ask(client, Hex("0005 00000000 00")), Hex("0006 00000000 00 FF"));
  EXPECT_EQ(door.Ask(client, Hex("0012 00000001 01 00000000000003E9 00000001 00")),
            Hex("000E 00000001 01 00 00000009 00000000"));
  EXPECT_EQ(door.Ask(client, Hex("0012 00000001 01 00000000000003E9 0000000A 00")),
            Hex("000E 00000001 01 01 00000000 00000000"));
  EXPECT_EQ(door.Ask(client, Hex("0012 00000001 01 00000000000003E8 00000001 00")),
            Hex("000E 00000001 01 03 00000000 00000000"));
  EXPECT_EQ(door.Ask(client, Hex("0012 00000001 01 0000000000000000 00000001 00")),
            Hex("000E 00000001 01 FC 00000000 00000000"));
}

TEST(TokenServerTest, QuestionsBehindAPingDoNotWaitForItsAnswer) {
  Door door({FlowRule(1, 1000)});
  SocketClient& client = door.Connect();
  std::string bytes = Ping(0, "shop");
  for (int32_t xid = 1; xid <= 100; ++xid)
    bytes += Flow(xid, 1);
  const std::vector<Answer> answers = door.AskAll(client, bytes);
  ASSERT_EQ(answers.size(), 101u);
  for (int32_t xid = 0; xid <= 100; ++xid) {
    EXPECT_EQ(answers[static_cast<size_t>(xid)].xid, xid);
    EXPECT_EQ(answers[static_cast<size_t>(xid)].status, Status::kOk);
  }
}

TEST(TokenServerTest, FramesThatComeByteByByteAreRead) {
  Door door({FlowRule(1, 10)});
  SocketClient& client = door.Connect();
  std::string all;
  for (const char byte : Ping(0, "a namespace of many letters") + Flow(7, 1) + Flow(8, 1))
    all += door.Ask(client, {&byte, 1});
  const std::vector<Answer> answers = AnswersOf(all);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[1].xid, 7);
  EXPECT_EQ(answers[1].remaining, 9);
  EXPECT_EQ(answers[2].remaining, 8);
}

TEST(TokenServerTest, AReadThatEndsWithinAFrameGoesOnInIt) {
  Door door({FlowRule(1, 1'000'000)});
  SocketClient& client = door.Connect();
  // Frames of 20 bytes straddle every border of reads.
  constexpr int32_t kQuestions = 10'000;
  std::string bytes;
  for (int32_t xid = 0; xid < kQuestions; ++xid)
    bytes += Flow(xid, 1);
  const std::vector<Answer> answers = door.AskAll(client, bytes);
  ASSERT_EQ(answers.size(), static_cast<size_t>(kQuestions));
  for (int32_t xid = 0; xid < kQuestions; ++xid) {
    ASSERT_EQ(answers[static_cast<size_t>(xid)].xid, xid);
    ASSERT_EQ(answers[static_cast<size_t>(xid)].remaining, 1'000'000 - xid - 1);
  }
}

// --- what is no question

TEST(TokenServerTest, NothingThatAPeerSendsShiftsWhatFollows) {
  Door door({FlowRule(1, 100)});
  SocketClient& client = door.Connect();
  std::string too_long = Hex("FFFF 00000009 01");
  too_long.resize(2 + 0xFFFF, '\x01');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Framed(""), ""},                                          // no head: nobody to answer
      {Framed("abcd"), ""},                                      // the same
      {Framed(Hex("00000005 63")), Hex("0006 00000005 63 FF")},  // a type that there is not
      {Framed(Hex("00000005 FF") + "rest"), Hex("0006 00000005 FF FF")},
      {Framed(Hex("00000006 01")), Hex("000E 00000006 01 FC 00000000 00000000")},  // no body
      {Framed(Hex("00000006 01 0000000000000001 0000")),
       Hex("000E 00000006 01 FC 00000000 00000000")},
      {Framed(Hex("00000007 02 0000000000000001 00000001 00000001 09")),  // a value of no kind
       Hex("000E 00000007 02 FC 00000000 00000000")},
      {Framed(Hex("00000007 02 0000000000000001 00000001 00000000")),  // no value
       Hex("000E 00000007 02 FC 00000000 00000000")},
      {Framed(Hex("00000008 00 7FFFFFFF")), Hex("0006 00000008 00 FF")},  // a ping cut short
      {too_long, Hex("000E 00000009 01 FC 00000000 00000000")},
  };
  int32_t left = 100;
  for (const auto& [bytes, answer] : cases) {
    EXPECT_EQ(door.Ask(client, bytes), answer);
    const std::vector<Answer> next = door.AskAll(client, Flow(1, 1));
    ASSERT_EQ(next.size(), 1u);
    EXPECT_EQ(next[0].remaining, --left);
  }
  EXPECT_EQ(door.counters().no_head, 2u);
  EXPECT_EQ(door.counters().unknown_type, 2u);
  EXPECT_EQ(door.counters().bad_body, 4u);
  EXPECT_EQ(door.counters().too_long, 1u);
}

// --- who is there

TEST(TokenServerTest, ClientsAreCountedByNamespaceWhileTheyAreConnected) {
  Door door({FlowRule(1, 1)});
  SocketClient& first = door.Connect();
  SocketClient& second = door.Connect();
  SocketClient& third = door.Connect();
  EXPECT_EQ(door.AskAll(first, Ping(0, "a"))[0].remaining, 1);
  EXPECT_EQ(door.AskAll(second, Ping(0, "a"))[0].remaining, 2);
  EXPECT_EQ(door.AskAll(second, Ping(1, "a"))[0].remaining, 2);  // counts once
  EXPECT_EQ(door.AskAll(third, Ping(0, "b"))[0].remaining, 1);
  EXPECT_EQ(door.AskAll(second, Ping(2, "b"))[0].remaining, 2);  // and in the last alone
  EXPECT_EQ(door.AskAll(first, Ping(1, "a"))[0].remaining, 1);
  door.Close(third);
  EXPECT_EQ(door.AskAll(second, Ping(3, "b"))[0].remaining, 1);
}

TEST(TokenServerTest, AQuietClientStays) {
  Door door({FlowRule(1, 10)});
  SocketClient& client = door.Connect();
  EXPECT_EQ(door.AskAll(client, Ping(0, "a")).size(), 1u);
  for (int day = 0; day < 30; ++day)
    door.Advance(hours(24));
  EXPECT_FALSE(client.closed());
  EXPECT_EQ(door.AskAll(client, Flow(1, 1)).size(), 1u);
}

TEST(TokenServerTest, AQuietClientHoldsNoBuffer) {
  Door door({FlowRule(1, 10)});
  SocketClient& client = door.Connect();
  const std::string question = Flow(1, 1);
  door.Ask(client, question.substr(0, 19));
  EXPECT_EQ(door.AskAll(client, question.substr(19)).size(), 1u);
  EXPECT_EQ(door.server().buffers().lent_bytes(), 0u);
}

// --- bounds

TEST(TokenServerTest, NoMoreConnectThanMayAndWhoLeavesMakesRoom) {
  TokenServerOptions options;
  options.connections_max = 2;
  Door door({FlowRule(1, 10)}, options);
  SocketClient& first = door.Connect();
  SocketClient& second = door.Connect();
  EXPECT_TRUE(door.Ended(door.Connect()));
  EXPECT_EQ(door.counters().refused_full, 1u);
  EXPECT_EQ(door.AskAll(second, Flow(1, 1)).size(), 1u);
  door.Close(first);
  SocketClient& fourth = door.Connect();
  EXPECT_EQ(door.AskAll(fourth, Flow(1, 1)).size(), 1u);
  EXPECT_EQ(door.counters().open, 2);
}

TEST(TokenServerTest, OnlyNetworksThatMayConnectDo) {
  const std::string elsewhere[] = {"10.0.0.0/8"};
  TokenServerOptions options;
  options.allowed = http::IpBlocks::Create(elsewhere).value();
  Door refusing({FlowRule(1, 10)}, options);
  EXPECT_TRUE(refusing.Ended(refusing.Connect()));
  EXPECT_EQ(refusing.counters().refused_network, 1u);

  const std::string here[] = {"127.0.0.0/8"};
  options.allowed = http::IpBlocks::Create(here).value();
  Door door({FlowRule(1, 10)}, options);
  EXPECT_EQ(door.AskAll(door.Connect(), Flow(1, 1)).size(), 1u);
}

// Sends whole frames until the server takes none any more, and then the rest of the last
// one, for which somebody has to take answers; how many.
class Flood {
 public:
  Flood(Door& door, SocketClient& client) : door_(door), client_(client) {}

  // Until nothing has moved for many turns.
  void Send() {
    door_.set_reads(false);
    for (int still = 0; still < kStill; ++still) {
      const uint64_t in = door_.counters().bytes_in;
      const bool took = SendSome() > 0;
      door_.Turn();
      if (took || door_.counters().bytes_in != in) still = 0;
    }
    door_.set_reads(true);
  }
  int32_t End() {
    EXPECT_TRUE(door_.Until([&] {
      rest_.remove_prefix(client_.SendSome(rest_));
      return rest_.empty();
    }));
    return sent_;
  }

 private:
  static constexpr int kStill = 2'000;
  static constexpr int32_t kAtOnce = 1'000;

  size_t SendSome() {
    if (rest_.empty()) {
      frames_.clear();
      for (int32_t i = 0; i < kAtOnce; ++i)
        frames_ += Flow(sent_++, 1);
      rest_ = frames_;
    }
    const size_t took = client_.SendSome(rest_);
    rest_.remove_prefix(took);
    return took;
  }

  Door& door_;
  SocketClient& client_;
  std::string frames_;
  std::string_view rest_;
  int32_t sent_ = 0;
};

TEST(TokenServerTest, WhoTakesNoAnswersIsReadNoMoreUntilHeDoesAndThenGetsAll) {
  Door door({FlowRule(1, 1)});
  SocketClient& client = door.Connect();
  Flood flood(door, client);
  flood.Send();
  EXPECT_GE(door.counters().paused, 1u);
  EXPECT_LE(door.server().buffers().lent_bytes(), 128u * 1024);
  const auto sent = static_cast<size_t>(flood.End());
  constexpr size_t kAnswerBytes = 16;
  EXPECT_TRUE(door.Until([&] { return client.Poll().size() >= sent * kAnswerBytes; }));
  const std::vector<Answer> answers = AnswersOf(client.Poll());
  ASSERT_EQ(answers.size(), sent);
  for (size_t i = 0; i < sent; ++i)
    ASSERT_EQ(answers[i].xid, static_cast<int32_t>(i));
  EXPECT_EQ(door.server().buffers().lent_bytes(), 0u);
}

TEST(TokenServerTest, WhoTakesNoAnswersForLongIsClosedAndOthersAreServed) {
  Door door({FlowRule(1, 100)});
  SocketClient& stuck = door.Connect();
  SocketClient& other = door.Connect();
  Flood flood(door, stuck);
  flood.Send();
  door.set_reads(false);
  EXPECT_EQ(door.AskAll(other, Flow(1, 99)).size(), 1u);
  door.Advance(TokenSession::kWriteMax + seconds(1));
  EXPECT_EQ(door.counters().stalled, 1u);
  EXPECT_EQ(door.counters().open, 1);
  EXPECT_EQ(door.server().buffers().lent_bytes(), 0u);
}

// --- ends

TEST(TokenServerTest, WhoSendsNoMoreGetsItsAnswersAndThenTheEnd) {
  Door door({FlowRule(1, 10)});
  SocketClient& client = door.Connect();
  client.Send(Ping(0, "a") + Flow(1, 1) + Flow(2, 1).substr(0, 9));
  client.ShutdownWrites();
  EXPECT_TRUE(door.Ended(client));
  EXPECT_FALSE(client.reset());
  EXPECT_EQ(AnswersOf(client.received()).size(), 2u);
  EXPECT_EQ(door.counters().open, 0);
}

TEST(TokenServerTest, AResetLeavesNothingBehind) {
  Door door({FlowRule(1, 10)});
  SocketClient& first = door.Connect();
  SocketClient& second = door.Connect();
  door.Ask(first, Ping(0, "a"));
  first.Reset();
  EXPECT_TRUE(door.Until([&] { return door.counters().open == 1; }));
  EXPECT_EQ(door.AskAll(second, Ping(0, "a"))[0].remaining, 1);
}

TEST(TokenServerTest, ADrainAnswersWhatHasArrivedAndCloses) {
  Door door({FlowRule(1, 10)});
  SocketClient& busy = door.Connect();
  SocketClient& quiet = door.Connect();
  busy.Send(Flow(1, 1) + Flow(2, 1));
  // They are there, and the loop has not turned since.
  EXPECT_TRUE(HasArrived(busy));
  door.server().Drain(seconds(10));
  EXPECT_TRUE(door.Ended(busy));
  EXPECT_TRUE(door.Ended(quiet));
  EXPECT_FALSE(busy.reset());
  EXPECT_EQ(AnswersOf(busy.received()).size(), 2u);
  // Who closes is let go at once, the other one a second later.
  door.Close(busy);
  EXPECT_FALSE(door.server().drained());
  door.Advance(TokenSession::kLinger);
  EXPECT_TRUE(door.server().drained());
  EXPECT_EQ(door.counters().cut_off, 0u);
}

// --- tokens

TEST(TokenServerTest, TokensAreHeldUntilTheyAreReleased) {
  Rule rule = FlowRule(5, 1);
  rule.kind = RuleKind::kConcurrency;
  rule.rate = {};
  rule.algorithm = Algorithm::kTokenBucket;
  rule.concurrency = 1;
  Door door({rule});
  SocketClient& client = door.Connect();
  std::string acquire;
  wire::token::AppendConcurrentAcquire(1, 5, 1, acquire);
  const std::vector<Answer> got = door.AskAll(client, acquire + acquire);
  ASSERT_THAT(Statuses(got), ::testing::ElementsAre(Status::kOk, Status::kBlocked));
  EXPECT_NE(got[0].token_id, 0);
  std::string release;
  wire::token::AppendConcurrentRelease(2, got[0].token_id, release);
  EXPECT_THAT(Statuses(door.AskAll(client, release + release + acquire)),
              ::testing::ElementsAre(Status::kReleaseOk, Status::kAlreadyRelease, Status::kOk));
}

}  // namespace
}  // namespace flowguard::serve
