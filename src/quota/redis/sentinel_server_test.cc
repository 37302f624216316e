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

}  // namespace
}  // namespace flowguard::quota::redis
