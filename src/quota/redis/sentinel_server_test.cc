// SPDX-License-Identifier: Apache-2.0
//
// Three real sentinels, a master and its replica.
#include <array>
#include <memory>
#include <string>

#include "quota/redis/real_server_test.h"

namespace flowguard::quota::redis {
namespace {

using testing::RedisServer;

struct SentinelServerTest : RealServerTest {
  void SetUp() override {
    replica.Ask({"REPLICAOF", "127.0.0.1", std::to_string(master.port())});
    ASSERT_TRUE(testing::WaitFor([&] {
      return master.Ask({"INFO", "replication"}).find("state=online") != std::string::npos;
    }));
    RedisServer::Setup setup;
    setup.sentinel = true;
    setup.config = "sentinel monitor cells 127.0.0.1 " + std::to_string(master.port()) +
                   " 2\n"
                   "sentinel down-after-milliseconds cells 500\n"
                   "sentinel failover-timeout cells 3000\n";
    std::string hosts;
    for (std::unique_ptr<RedisServer>& sentinel : sentinels) {
      sentinel = std::make_unique<RedisServer>(setup);
      hosts += (hosts.empty() ? "" : ",") + sentinel->endpoint();
    }
    url = "redis-sentinel://" + hosts + "/cells";
    // All of them know each other and the replica.
    ASSERT_TRUE(testing::WaitFor(
        [&] {
          for (const std::unique_ptr<RedisServer>& sentinel : sentinels) {
            const std::string info = sentinel->Ask({"INFO", "sentinel"});
            if (info.find("slaves=1,sentinels=3") == std::string::npos) return false;
          }
          return true;
        },
        40));
  }
  // The number of the server's port, as the client's server tells it.
  std::string Port() {
    const std::string reply = Ask({"CONFIG", "GET", "port"});
    return reply.substr(0, reply.rfind('\'')).substr(reply.rfind('\'', reply.rfind('\'') - 1) + 1);
  }

  RedisServer master;
  RedisServer replica;
  std::array<std::unique_ptr<RedisServer>, 3> sentinels;
  std::string url;
};

TEST_F(SentinelServerTest, FollowsTheMasterThroughAFailover) {
  Make(url);
  ASSERT_TRUE(WaitUntil([&] { return Works(); }));
  EXPECT_EQ(Port(), std::to_string(master.port()));
  sentinels[0]->Kill();  // the one that is asked; two are a majority
  master.Kill();
  ASSERT_TRUE(WaitUntil([&] { return Works(); }, std::chrono::seconds(40)));
  EXPECT_EQ(Port(), std::to_string(replica.port()));
}

// A sentinel that cannot be asked, so that what it announces alone leads to a master.
struct AnnouncementTest : RealServerTest {
  void Announce(const std::string& text) { sentinel.Ask({"PUBLISH", "+switch-master", text}); }
  // As a sentinel would, of a master that was somewhere else.
  [[nodiscard]] static std::string SwitchTo(const RedisServer& server, const std::string& name) {
    return name + " 127.0.0.1 1 127.0.0.1 " + std::to_string(server.port());
  }
  [[nodiscard]] bool Heard() const {
    return sentinel.Ask({"PUBSUB", "NUMSUB", "+switch-master"}).find(":1\r\n") != std::string::npos;
  }

  RedisServer sentinel;
  RedisServer first;
  RedisServer second;
};

TEST_F(AnnouncementTest, ASwitchIsFollowedWhenItIsAnnounced) {
  for (const char* protocol : {"2", "3"}) {
    second.Ask({"FLUSHALL"});
    Make("redis-sentinel://" + sentinel.endpoint() + "/cells?protocol=" + protocol);
    ASSERT_TRUE(WaitUntil([&] { return Heard(); }));
    EXPECT_EQ(metrics->connected.value(), 0U) << "sentinels have no cells";
    Announce(SwitchTo(first, "cells"));
    ASSERT_TRUE(WaitUntil([&] { return Works(); }));
    Announce(SwitchTo(second, "others"));
    Announce("cells 127.0.0.1 1 127.0.0.1");
    Announce("");
    EXPECT_TRUE(Works());
    EXPECT_EQ(second.Ask({"DBSIZE"}), ":0\r\n");
    Announce(SwitchTo(second, "cells"));
    ASSERT_TRUE(WaitUntil([&] { return second.Ask({"DBSIZE"}) == ":1\r\n" || !Works(); }));
    ASSERT_TRUE(WaitUntil([&] { return Works() && second.Ask({"DBSIZE"}) == ":1\r\n"; }));
  }
}

// The channel is subscribed to again after a loss.
TEST_F(AnnouncementTest, AListenerThatWasLostListensAgain) {
  Make("redis-sentinel://" + sentinel.endpoint() + "/cells");
  ASSERT_TRUE(WaitUntil([&] { return Heard(); }));
  sentinel.Ask({"CLIENT", "KILL", "TYPE", "pubsub"});
  ASSERT_TRUE(WaitUntil([&] { return Heard(); }));
  Announce(SwitchTo(first, "cells"));
  EXPECT_TRUE(WaitUntil([&] { return Works(); }));
}

}  // namespace
}  // namespace flowguard::quota::redis
