// SPDX-License-Identifier: Apache-2.0
//
// One connection against a server that the test plays.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "quota/redis/fake_server_test.h"

namespace flowguard::quota::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using ClientTest = FakeServerTest;
using Sequence = std::vector<Words>;
using Tickets = std::vector<uint64_t>;

constexpr std::string_view kNoScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

TEST_F(ClientTest, GreetsWithHelloAndEverythingThatTheUrlTells) {
  Options options = *ParseUrl("redis://me:pw@" + server.endpoint() + "/3");
  client = std::move(MakeCommander(*loop, options, metrics, 1)).value();
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{{"HELLO", "3", "AUTH", "me", "pw"}}));
  server.Send("%1\r\n$5\r\nproto\r\n:3\r\n");
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{{"CLIENT", "SETNAME", "flowguard"}}));
  server.Send("+OK\r\n");
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{{"SELECT", "3"}}));
  EXPECT_EQ(metrics.connected.value(), 0U);
  server.Send("+OK\r\n");
  Turn();
  EXPECT_EQ(metrics.connected.value(), 1U);
}

TEST_F(ClientTest, FallsBackToAuthWhereHelloIsUnknown) {
  Options options = *ParseUrl("redis://:pw@" + server.endpoint());
  client = std::move(MakeCommander(*loop, options, metrics, 1)).value();
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{{"HELLO", "3", "AUTH", "default", "pw"}}));
  server.Send("-ERR unknown command `HELLO`, with args beginning with: `3`,\r\n");
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{{"AUTH", "pw"}}));
  server.Send("+OK\r\n");
  Greet();
  EXPECT_EQ(metrics.connected.value(), 1U);
}

TEST_F(ClientTest, AWrongPasswordIsNoConnectionAndIsTriedAgain) {
  Options options = *ParseUrl("redis://:pw@" + server.endpoint());
  client = std::move(MakeCommander(*loop, options, metrics, 1)).value();
  Turn();
  Run(1);
  server.Commands();
  server.Send("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kNotSent);
  EXPECT_EQ(metrics.connect_failures.value(), 1U);
  Advance(base::kConnectBackoffMin);
  EXPECT_EQ(server.accepted(), 2U);
}

TEST_F(ClientTest, OneTurnIsOneWriteAndRepliesComeInOrder) {
  MakeReady();
  const size_t reads = server.reads();
  for (uint64_t ticket = 0; ticket < 100; ++ticket)
    Run(ticket);
  Turn();
  EXPECT_EQ(server.Commands(), Sequence(100, Evalsha()));
  EXPECT_EQ(server.reads(), reads + 1);
  std::string replies;
  for (int i = 0; i < 100; ++i)
    replies += ":" + std::to_string(i) + "\r\n";
  for (const char byte : replies) {
    server.Send({&byte, 1});
    Turn(1);
  }
  ASSERT_EQ(log.order.size(), 100U);
  for (uint64_t ticket = 0; ticket < 100; ++ticket) {
    EXPECT_EQ(log.order[ticket], ticket);
    EXPECT_EQ(log.TextOf(ticket), std::to_string(ticket));
  }
  EXPECT_EQ(metrics.Of(Failure::kNone).value(), 100U);
}

TEST_F(ClientTest, WhatIsRunWhileConnectingLeavesWhenReady) {
  Make("?protocol=2");
  Run(1);
  Run(2, milliseconds(5));
  Turn();
  Advance(milliseconds(5));
  EXPECT_EQ(log.FailureOf(2), Failure::kNotSent) << "it never left";
  Greet();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha()});
  server.Send(":1\r\n");
  Turn();
  EXPECT_EQ(log.TextOf(1), "1");
}

TEST_F(ClientTest, ALateReplyKeepsItsPlace) {
  MakeReady();
  Run(1, milliseconds(20));
  Run(2, milliseconds(50));
  Turn();
  Advance(milliseconds(20));
  EXPECT_EQ(log.FailureOf(1), Failure::kTimeout);
  EXPECT_FALSE(log.Has(2));
  Advance(milliseconds(5));
  server.Send(":1\r\n:2\r\n");
  Turn();
  EXPECT_EQ(log.TextOf(2), "2") << "not the reply to the first";
  EXPECT_EQ(metrics.late.value(), 1U);
}

TEST_F(ClientTest, ADeadlineThatHasPassedIsNotSent) {
  MakeReady();
  Run(1, Duration::zero());
  EXPECT_FALSE(log.Has(1)) << "never from inside Run";
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kNotSent);
  EXPECT_TRUE(server.Commands().empty());
}

TEST_F(ClientTest, NoScriptIsAnsweredByEvalOnce) {
  MakeReady();
  Run(1, milliseconds(20), "a");
  Run(2, milliseconds(20), "b");
  Run(3, milliseconds(20), "c");
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{Evalsha("a"), Evalsha("b"), Evalsha("c")}));
  server.Send(std::string(kNoScript) + std::string(kNoScript) + std::string(kNoScript));
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{Eval("a"), Evalsha("b"), Evalsha("c")}))
      << "the first one brings the script for all";
  EXPECT_TRUE(log.order.empty());
  server.Send(":1\r\n:2\r\n:3\r\n");
  Turn();
  EXPECT_EQ(log.order, Tickets({1, 2, 3}));
  EXPECT_EQ(log.TextOf(2), "2");
  EXPECT_EQ(metrics.script_loads.value(), 1U);

  Run(4, milliseconds(20), "d");
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha("d")});
  server.Send(kNoScript);  // flushed since
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Eval("d")});
  server.Send(kNoScript);  // which EVAL cannot be answered by
  Turn();
  EXPECT_EQ(log.FailureOf(4), Failure::kScriptError);
}

TEST_F(ClientTest, NoScriptAfterTheDeadlineIsNotRunAgain) {
  MakeReady();
  Run(1);
  Turn();
  Advance(milliseconds(20));
  server.Commands();
  server.Send(kNoScript);
  Turn();
  EXPECT_TRUE(server.Commands().empty());
}

TEST_F(ClientTest, EveryOtherErrorIsToldAndNotSentAgain) {
  MakeReady();
  const std::vector<std::pair<std::string, Failure>> errors{
      {"-LOADING Redis is loading the dataset in memory\r\n", Failure::kLoading},
      {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", Failure::kOutOfMemory},
      {"-NOPERM this user has no permissions\r\n", Failure::kDenied},
      {"-ERR value is not an integer\r\n", Failure::kScriptError},
      {"-MOVED 1 127.0.0.1:1\r\n", Failure::kLoading},
  };
  uint64_t ticket = 0;
  for (const auto& [reply, failure] : errors) {
    Run(++ticket);
    Turn();
    EXPECT_EQ(server.Commands().size(), 1U);
    server.Send(reply);
    Turn();
    EXPECT_EQ(log.FailureOf(ticket), failure) << reply;
    EXPECT_EQ("-" + log.TextOf(ticket) + "\r\n", reply);
  }
  EXPECT_EQ(server.accepted(), 1U);
}

TEST_F(ClientTest, ReadOnlyClosesWhenAllIsAnsweredAndConnectsAnew) {
  MakeReady();
  Run(1);
  Run(2);
  Turn();
  server.Commands();
  server.Send("-READONLY You can't write against a read only replica.\r\n");
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kReadOnly);
  EXPECT_FALSE(log.Has(2));
  Run(3);
  Turn();
  EXPECT_EQ(log.FailureOf(3), Failure::kNotSent);
  server.Send("-READONLY You can't write against a read only replica.\r\n");
  Turn();
  EXPECT_EQ(log.FailureOf(2), Failure::kReadOnly) << "its reply was waited for";
  server.Commands();
  EXPECT_FALSE(server.connected());
  Advance(base::kConnectBackoffMin);
  Greet();
  EXPECT_EQ(server.accepted(), 2U);
  Run(4);
  Turn();
  server.Send(":4\r\n");
  Turn();
  EXPECT_EQ(log.TextOf(4), "4");
}

TEST_F(ClientTest, ALostConnectionTellsWhatMayHaveBeenApplied) {
  MakeReady();
  Run(1);
  Turn();
  Run(2);  // still to be sent when the loss is seen
  server.Drop();
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kLost);
  EXPECT_TRUE(Indeterminate(log.FailureOf(1)));
  EXPECT_EQ(log.FailureOf(2), Failure::kNotSent);
  Run(3);
  Turn();
  EXPECT_EQ(log.FailureOf(3), Failure::kNotSent);
}

TEST_F(ClientTest, HalfAReplyIsNoReply) {
  MakeReady();
  Run(1);
  Turn();
  server.Commands();
  server.Send("*2\r\n:1\r\n");
  Turn();
  EXPECT_FALSE(log.Has(1));
  server.Drop();
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kLost);
}

TEST_F(ClientTest, BytesThatAreNoReplyClose) {
  MakeReady();
  Run(1);
  Turn();
  server.Commands();
  server.Send("HTTP/1.1 400 Bad Request\r\n\r\n");
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kLost);
  server.Commands();
  EXPECT_FALSE(server.connected());
}

TEST_F(ClientTest, RepliesThatNothingAskedForClose) {
  MakeReady();
  Run(1);
  Turn();
  server.Commands();
  Run(2);
  server.Send(":1\r\n:2\r\n:3\r\n");
  // The second has not left when its reply comes, so that it cannot be one.
  loop->RunOnce(Duration::zero());
  Turn();
  EXPECT_EQ(log.TextOf(1), "1");
  server.Commands();
  EXPECT_FALSE(server.connected());
}

TEST_F(ClientTest, PushesArePassedOver) {
  MakeReady();
  Run(1);
  Turn();
  server.Commands();
  server.Send(">2\r\n+invalidate\r\n*0\r\n:1\r\n");
  Turn();
  EXPECT_EQ(log.TextOf(1), "1");
}

TEST_F(ClientTest, AHalfOpenConnectionIsGivenUp) {
  MakeReady();
  Run(1, milliseconds(20));
  Turn();
  Advance(milliseconds(20));
  EXPECT_EQ(log.FailureOf(1), Failure::kTimeout);
  Advance(base::kRedisOverdueMax - milliseconds(1));
  server.Commands();
  EXPECT_TRUE(server.connected());
  Run(2, seconds(1));
  Turn();
  Advance(milliseconds(1));
  EXPECT_EQ(log.FailureOf(2), Failure::kLost);
  server.Commands();
  EXPECT_FALSE(server.connected());
  Advance(base::kConnectBackoffMin);
  Greet();
  EXPECT_EQ(metrics.connected.value(), 1U);
}

TEST_F(ClientTest, TheBreakerOpensAfterFailuresInARowAndAProbeClosesIt) {
  MakeReady("&break_after=3");
  uint64_t ticket = 0;
  for (int i = 0; i < 3; ++i) {
    Run(++ticket);
    Turn();
    Advance(milliseconds(20));
    EXPECT_EQ(log.FailureOf(ticket), Failure::kTimeout);
  }
  Run(++ticket);
  Turn();
  EXPECT_EQ(log.FailureOf(ticket), Failure::kNotSent);
  EXPECT_EQ(metrics.breaker_opened.value(), 1U);
  EXPECT_EQ(server.Commands(), (Sequence{Evalsha(), Evalsha(), Evalsha(), {"PING"}}));
  server.Send(":1\r\n:2\r\n:3\r\n");
  Turn();
  Run(++ticket);
  Turn();
  EXPECT_EQ(log.FailureOf(ticket), Failure::kNotSent) << "late replies are no recovery";
  server.Send("+PONG\r\n");
  Turn();
  Run(++ticket);
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha()});
  server.Send(":1\r\n");
  Turn();
  EXPECT_EQ(log.FailureOf(ticket), Failure::kNone);
}

TEST_F(ClientTest, ALateProbeIsTriedAgain) {
  MakeReady("&break_after=1");
  Run(1);
  Turn();
  Advance(milliseconds(20));
  EXPECT_EQ(server.Commands(), (Sequence{Evalsha(), {"PING"}}));
  Advance(milliseconds(30));
  server.Send(":1\r\n+PONG\r\n");
  Turn();
  Run(2);
  Turn();
  EXPECT_EQ(log.FailureOf(2), Failure::kNotSent);
  Advance(milliseconds(50));
  EXPECT_EQ(server.Commands(), Sequence{{"PING"}});
  server.Send("+PONG\r\n");
  Turn();
  Run(3);
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha()});
}

// Rules out: a server that is slower than what the last command had left, refused for ever.
TEST_F(ClientTest, TheBreakerClosesHoweverLittleTheLastCommandHadLeft) {
  MakeReady("&break_after=1");
  Run(1, std::chrono::microseconds(100));
  Turn();
  Advance(std::chrono::microseconds(100));
  EXPECT_EQ(server.Commands(), (Sequence{Evalsha(), {"PING"}}));
  server.Send(":1\r\n");
  int probes = 1;
  // Each is answered after 30 ms.
  for (; probes < 10; ++probes) {
    Advance(milliseconds(30));
    server.Send("+PONG\r\n");
    Turn();
    Advance(milliseconds(50));
    if (server.Commands().empty()) break;
  }
  EXPECT_EQ(probes, 6) << "1, 2, 4, 8, 16, 32 ms";
  Run(2);
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha()});
}

TEST_F(ClientTest, ConnectsAgainWithinTheLongestWaitHoweverLongItWasDown) {
  MakeReady();
  server.Down();
  for (int i = 0; i < 600; ++i)
    Advance(milliseconds(100));
  const uint64_t failures = metrics.connect_failures.value();
  EXPECT_GT(failures, 60U / 2);
  EXPECT_LT(failures, 60U * 5) << "it waits longer and longer between attempts";
  Run(1);
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kNotSent);
  server.Up();
  Advance(base::kConnectBackoffMax);
  Greet();
  Run(2);
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha()});
}

TEST_F(ClientTest, AServerThatNeverGreetsIsGivenUp) {
  Make("?connect_timeout=100ms");
  EXPECT_EQ(server.Commands().size(), 1U);
  Run(1, seconds(10));
  Advance(milliseconds(100));
  EXPECT_EQ(log.FailureOf(1), Failure::kNotSent);
  server.Commands();
  EXPECT_FALSE(server.connected());
}

TEST_F(ClientTest, NothingIsTakenBeyondTheBounds) {
  MakeReady();
  for (uint64_t i = 0; i < base::kRedisPendingMax; ++i)
    Run(i);
  Run(base::kRedisPendingMax);
  Turn();
  EXPECT_EQ(log.FailureOf(base::kRedisPendingMax), Failure::kNotSent);
  EXPECT_EQ(log.replies.size(), 1U);
  // Those that nobody waits for any more count as well.
  for (int i = 0; i < 4; ++i) {
    server.Commands();
    Turn();
  }
  Advance(milliseconds(20));
  EXPECT_EQ(log.Count(Failure::kTimeout), base::kRedisPendingMax);
  Run(base::kRedisPendingMax + 1);
  Turn();
  EXPECT_EQ(log.FailureOf(base::kRedisPendingMax + 1), Failure::kNotSent);
}

TEST_F(ClientTest, ACommandThatIsTooLongIsNotSent) {
  MakeReady();
  Run(1, milliseconds(20), std::string(base::kRedisCommandBytesMax, 'x'));
  Turn();
  EXPECT_EQ(log.FailureOf(1), Failure::kNotSent);
  EXPECT_TRUE(server.Commands().empty());
}

TEST_F(ClientTest, ASinkMayRunMore) {
  MakeReady();
  log.on_reply = [this](uint64_t ticket) {
    if (ticket < 5) Run(ticket + 1);
  };
  Run(1, Duration::zero());  // refused, from the end of the turn
  Turn();
  for (int i = 0; i < 4; ++i) {
    Turn();
    ASSERT_EQ(server.Commands(), Sequence{Evalsha()});
    server.Send(":1\r\n");
    Turn();
  }
  EXPECT_EQ(log.order, Tickets({1, 2, 3, 4, 5}));
}

TEST_F(ClientTest, SinksMayRunMoreWhileTheConnectionIsLost) {
  MakeReady();
  log.on_reply = [this](uint64_t ticket) {
    if (ticket < 100) Run(ticket + 100);
  };
  for (uint64_t ticket = 0; ticket < 100; ++ticket)
    Run(ticket);
  Turn();
  server.Drop();
  Turn();
  EXPECT_EQ(log.Count(Failure::kLost), 100U);
  EXPECT_EQ(log.Count(Failure::kNotSent), 100U);
}

TEST_F(ClientTest, DestroyedInTheMiddleItTellsNobody) {
  MakeReady();
  Run(1);
  Turn();
  Run(2);
  Run(3, Duration::zero());
  client.reset();
  Turn();
  EXPECT_TRUE(log.replies.empty());
}

}  // namespace
}  // namespace flowguard::quota::redis
