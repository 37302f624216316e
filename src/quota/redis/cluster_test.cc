// SPDX-License-Identifier: Apache-2.0
//
// The cluster's client against nodes that the test plays.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "quota/redis/fake_server_test.h"
#include "quota/redis/slot.h"

namespace flowguard::quota::redis {
namespace {

using Sequence = std::vector<Words>;

struct ClusterTest : FakeServerTest {
  static std::string Port(const FakeServer& node) {
    return node.endpoint().substr(node.endpoint().rfind(':') + 1);
  }
  // One range for each node, without a host: "where you asked".
  std::string Slots(const std::string& boundary) {
    return "*2\r\n*3\r\n:0\r\n:" + boundary + "\r\n*2\r\n$-1\r\n:" + Port(server) +
           "\r\n*3\r\n:" + std::to_string(std::stoi(boundary) + 1) +
           "\r\n:16383\r\n*2\r\n$0\r\n\r\n:" + Port(other) + "\r\n";
  }
  void Welcome(FakeServer& node) {
    Turn();
    ASSERT_EQ(node.Commands(), (Sequence{{"CLIENT", "SETNAME", "flowguard"}}));
    node.Send("+OK\r\n");
    Turn();
  }
  void MakeCluster(const std::string& boundary) {
    Options options = *ParseUrl("redis-cluster://" + server.endpoint() + "?protocol=2");
    client = std::move(MakeCommander(*loop, options, metrics, 1)).value();
    Welcome(server);
    ASSERT_EQ(server.Commands(), (Sequence{{"CLUSTER", "SLOTS"}}));
    server.Send(Slots(boundary));
    Welcome(other);
    Turn();
  }
  FakeServer other{*loop};
};

TEST_F(ClusterTest, SendsEachKeyToTheMasterOfItsSlot) {
  MakeCluster("8191");
  ASSERT_GT(SlotOf("foo"), 8191);
  ASSERT_LE(SlotOf("bar"), 8191);
  Run(1, std::chrono::seconds(1), "foo");
  Run(2, std::chrono::seconds(1), "bar");
  Turn();
  EXPECT_EQ(other.Commands(), Sequence{Evalsha("foo")});
  EXPECT_EQ(server.Commands(), Sequence{Evalsha("bar")});
  EXPECT_EQ(client->PlaceOf("foo"), SlotOf("foo") + 1U);
}

TEST_F(ClusterTest, FollowsMovedAndAsksForTheTableOnce) {
  MakeCluster("16382");
  const std::string slot = std::to_string(SlotOf("foo"));
  Run(1, std::chrono::seconds(1), "foo");
  Run(2, std::chrono::seconds(1), "foo");
  Turn();
  EXPECT_EQ(server.Commands(), (Sequence{Evalsha("foo"), Evalsha("foo")}));
  const std::string moved = "-MOVED " + slot + " :" + Port(other) + "\r\n";
  server.Send(moved + moved);
  Turn();
  EXPECT_EQ(other.Commands(), (Sequence{Evalsha("foo"), Evalsha("foo")}));
  other.Send(":1\r\n:2\r\n");
  Advance(std::chrono::milliseconds(100));
  EXPECT_EQ(log.TextOf(1), "1");
  EXPECT_EQ(log.TextOf(2), "2");
  Sequence asked = server.Commands();
  const Sequence more = other.Commands();
  asked.insert(asked.end(), more.begin(), more.end());
  EXPECT_EQ(asked, (Sequence{{"CLUSTER", "SLOTS"}}));
  Run(3, std::chrono::seconds(1), "foo");
  Turn();
  EXPECT_EQ(other.Commands(), Sequence{Evalsha("foo")}) << "learned from MOVED";
}

TEST_F(ClusterTest, FollowsAskWithAskingAndLoadsTheScriptThereToo) {
  MakeCluster("16382");
  const std::string ask =
      "-ASK " + std::to_string(SlotOf("foo")) + " 127.0.0.1:" + Port(other) + "\r\n";
  Run(1, std::chrono::seconds(1), "foo");
  Turn();
  server.Commands();
  server.Send(ask);
  Turn();
  EXPECT_EQ(other.Commands(), (Sequence{{"ASKING"}, Evalsha("foo")}));
  other.Send("+OK\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n");
  Turn();
  EXPECT_EQ(other.Commands(), (Sequence{{"ASKING"}, Eval("foo")}));
  other.Send("+OK\r\n:7\r\n");
  Turn();
  EXPECT_EQ(log.TextOf(1), "7");
  Run(2, std::chrono::seconds(1), "foo");
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha("foo")}) << "ASK is for one command";
}

TEST_F(ClusterTest, RedirectionsInACircleEnd) {
  MakeCluster("16382");
  const std::string slot = std::to_string(SlotOf("foo"));
  Run(1, std::chrono::seconds(1), "foo");
  size_t sent = 0;
  for (int i = 0; i < 20 && !log.Has(1); ++i) {
    Turn();
    for (FakeServer* node : {&server, &other}) {
      for (const Words& words : node->Commands()) {
        if (words != Evalsha("foo")) continue;
        ++sent;
        node->Send("-MOVED " + slot + " 127.0.0.1:" + Port(node == &server ? other : server) +
                   "\r\n");
      }
    }
  }
  EXPECT_EQ(log.FailureOf(1), Failure::kLoading);
  EXPECT_EQ(sent, 1U + base::kRedisRedirectsMax);
}

TEST_F(ClusterTest, ATableThatIsNoTableChangesNothing) {
  MakeCluster("16382");
  for (const char* const reply :
       {"*0\r\n", "+OK\r\n", "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:70000\r\n", "*1\r\n*1\r\n:0\r\n",
        "-ERR no\r\n"}) {
    Advance(std::chrono::seconds(30));
    const bool first = server.Commands() == Sequence{{"CLUSTER", "SLOTS"}};
    FakeServer& asked = first ? server : other;
    EXPECT_NE(first, other.Commands() == (Sequence{{"CLUSTER", "SLOTS"}}));
    asked.Send(reply);
    Turn();
  }
  Run(1, std::chrono::seconds(1), "foo");
  Turn();
  EXPECT_EQ(server.Commands(), Sequence{Evalsha("foo")});
}

}  // namespace
}  // namespace flowguard::quota::redis
