// SPDX-License-Identifier: Apache-2.0
//
// One client and a real redis-server.
#include "quota/redis/real_server_test.h"

namespace flowguard::quota::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using SingleServerTest = RealServerTest;

TEST_F(SingleServerTest, SpeaksBothVersions) {
  testing::RedisServer server;
  for (const char* const protocol : {"2", "3"}) {
    Make(server.url() + "?protocol=" + protocol);
    EXPECT_EQ(Ask({"PING"}), "'PONG'");
    EXPECT_EQ(Ask({"SET", "k", "v"}), "'OK'");
    EXPECT_EQ(Ask({"GET", "k"}), "'v'");
    EXPECT_EQ(Ask({"GET", "none"}), "null");
    EXPECT_EQ(Ask({"HSET", "h", "a", "1"}), protocol[0] == '2' ? "1" : "0");
    EXPECT_EQ(Ask({"HGETALL", "h"}), protocol[0] == '2' ? "['a' '1']" : "map['a' '1']");
    EXPECT_EQ(Ask({"NOSUCH"}).substr(0, 11), "ERR unknown");
    EXPECT_NE(server.Ask({"CLIENT", "LIST"}).find("name=flowguard"), std::string::npos);
  }
}

TEST_F(SingleServerTest, RunsScriptsAndLoadsThemAgainAfterAFlush) {
  testing::RedisServer server;
  Make(server.url());
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 20; ++i)
      Run(100 * round + i, seconds(5), "k" + std::to_string(i));
    ASSERT_TRUE(WaitUntil([&] { return log.replies.size() == 20 * (round + 1); }));
    EXPECT_EQ(log.Count(Failure::kNone), 20 * (round + 1));
    for (uint64_t i = 0; i < 20; ++i)
      EXPECT_EQ(log.TextOf(100 * round + i), std::to_string(round + 1)) << "counted once each";
    EXPECT_EQ(metrics->script_loads.value(), round + 1);
    server.Ask({"SCRIPT", "FLUSH"});
  }
}

TEST_F(SingleServerTest, PasswordsAndUsers) {
  testing::RedisServer::Setup setup;
  setup.arguments = {"--requirepass", "p@ss", "--user", "worker",   "on",
                     ">secret",       "~*",   "+@all",  "-flushall"};
  setup.greeting = {"AUTH", "p@ss"};
  testing::RedisServer server(setup);
  for (const char* const protocol : {"?protocol=2", "?protocol=3"}) {
    Make("redis://:p%40ss@" + server.endpoint() + protocol);
    EXPECT_EQ(Ask({"PING"}), "'PONG'");
    Make("redis://worker:secret@" + server.endpoint() + "/2" + protocol);
    EXPECT_EQ(Ask({"PING"}), "'PONG'");
    EXPECT_EQ(Ask({"FLUSHALL"}).substr(0, 6), "NOPERM");
    EXPECT_EQ(log.replies.rbegin()->second.failure, Failure::kDenied);
    Make("redis://worker:wrong@" + server.endpoint() + protocol);
    ASSERT_TRUE(WaitUntil([&] { return metrics->connect_failures.value() != 0; }));
    EXPECT_EQ(metrics->connected.value(), 0U);
  }
  Make(server.url() + "?protocol=2");
  EXPECT_EQ(Ask({"PING"}).substr(0, 6), "NOAUTH");
  EXPECT_EQ(log.replies.rbegin()->second.failure, Failure::kDenied);
}

TEST_F(SingleServerTest, UnixSocketsAndNames) {
  testing::RedisServer server;
  Make("unix://" + server.socket_path() + "?db=3");
  EXPECT_EQ(Ask({"SET", "k", "v"}), "'OK'");
  EXPECT_EQ(server.Ask({"EXISTS", "k"}), ":0\r\n") << "database 0";
  Make("redis://localhost:" + std::to_string(server.port()) + "/3");
  EXPECT_EQ(Ask({"GET", "k"}), "'v'");
}

TEST_F(SingleServerTest, AStoppedServerKeepsNobodyBeyondTheDeadline) {
  testing::RedisServer server;
  Make(server.url());
  ASSERT_EQ(Ask({"PING"}), "'PONG'");
  server.Pause();
  Duration worst = Duration::zero();
  for (uint64_t ticket = 1; ticket <= 200; ++ticket) {
    const Instant begin = SystemClock().Now();
    Run(ticket, milliseconds(20));
    ASSERT_TRUE(WaitUntil([&] { return log.Has(ticket); }));
    worst = std::max(worst, SystemClock().Now() - begin);
  }
  EXPECT_LT(worst, milliseconds(20 + 100)) << "a busy machine is late, not the client";
  EXPECT_EQ(log.Count(Failure::kTimeout), 5U) << "then the breaker answers";
  EXPECT_EQ(log.Count(Failure::kNotSent), 195U);
  server.Resume();
  const Instant resumed = SystemClock().Now();
  ASSERT_TRUE(WaitUntil([&] { return Works(); }));
  EXPECT_LT(SystemClock().Now() - resumed, seconds(2));
}

TEST_F(SingleServerTest, IsBackWithinTwoSecondsOfARestart) {
  testing::RedisServer server;
  Make(server.url());
  ASSERT_EQ(Ask({"PING"}), "'PONG'");
  for (uint64_t ticket = 1; ticket <= 1000; ++ticket)
    Run(ticket, seconds(5), "k" + std::to_string(ticket));
  server.Kill();
  ASSERT_TRUE(WaitUntil([&] { return log.replies.size() == 1001; })) << "each is told once";
  ASSERT_TRUE(WaitUntil([&] { return metrics->connect_failures.value() >= 8; }));
  server.Start();
  const Instant started = SystemClock().Now();
  ASSERT_TRUE(WaitUntil([&] { return Works(); }));
  EXPECT_LT(SystemClock().Now() - started, seconds(2));
}

TEST_F(SingleServerTest, LosesNoTicketWhenTheServerIsKilledOverAndOver) {
  testing::RedisServer server;
  Make(server.url() + "?connections=3");
  uint64_t ticket = 0;
  for (int round = 0; round < 10; ++round) {
    ASSERT_TRUE(WaitUntil([&] { return Works(); }));
    const uint64_t first = ticket;
    for (int i = 0; i < 1000; ++i)
      Run(++ticket, milliseconds(i % 2 == 0 ? 1 : 50), "k" + std::to_string(i));
    loop->RunOnce(Duration::zero());
    server.Kill();
    ASSERT_TRUE(WaitUntil([&] {
      for (uint64_t t = first + 1; t <= ticket; ++t) {
        if (!log.Has(t)) return false;
      }
      return true;
    }));
    server.Start();
  }
}

TEST_F(SingleServerTest, AMasterThatBecomesAReplicaIsLeft) {
  testing::RedisServer server;
  testing::RedisServer other;
  Make(server.url());
  Run(1, seconds(5));
  ASSERT_TRUE(WaitUntil([&] { return log.Has(1); }));
  server.Ask({"REPLICAOF", "127.0.0.1", std::to_string(other.port())});
  const uint64_t connects = metrics->connects.value();
  Run(2, seconds(5));
  ASSERT_TRUE(WaitUntil([&] { return log.Has(2); }));
  EXPECT_NE(log.FailureOf(2), Failure::kNone);
  ASSERT_TRUE(WaitUntil([&] { return metrics->connects.value() > connects; }));
  server.Ask({"REPLICAOF", "NO", "ONE"});
  ASSERT_TRUE(WaitUntil([&] { return Works(); }));
}

TEST_F(SingleServerTest, AFullMemoryIsToldAsThat) {
  testing::RedisServer server;
  Make(server.url());
  EXPECT_EQ(Ask({"CONFIG", "SET", "maxmemory", "1"}), "'OK'");
  Run(1, seconds(5));
  ASSERT_TRUE(WaitUntil([&] { return log.Has(1); }));
  EXPECT_EQ(log.FailureOf(1), Failure::kOutOfMemory) << log.TextOf(1);
}

}  // namespace
}  // namespace flowguard::quota::redis
