// SPDX-License-Identifier: Apache-2.0
//
// A cluster of three real masters.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "quota/redis/real_server_test.h"
#include "quota/redis/slot.h"

namespace flowguard::quota::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::RedisServer;

constexpr size_t kMasters = 3;

struct ClusterServerTest : RealServerTest {
  static RedisServer::Setup Member() {
    RedisServer::Setup setup;
    setup.arguments = {"--cluster-enabled",      "yes",
                       "--cluster-port",         std::to_string(testing::FreePort()),
                       "--cluster-node-timeout", "2000"};
    return setup;
  }
  void SetUp() override {
    for (size_t i = 0; i < kMasters; ++i) {
      const RedisServer::Setup setup = Member();
      masters[i] = std::make_unique<RedisServer>(setup);
      ids[i] = Bulk(masters[i]->Ask({"CLUSTER", "MYID"}));
      const size_t first = kSlots * i / kMasters;
      const size_t next = kSlots * (i + 1) / kMasters;
      masters[i]->Ask(
          {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(next - 1)});
      masters[i]->Ask({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
      if (i == 0) continue;
      masters[0]->Ask(
          {"CLUSTER", "MEET", "127.0.0.1", std::to_string(masters[i]->port()), setup.arguments[3]});
    }
    ASSERT_TRUE(testing::WaitFor([&] {
      for (const auto& master : masters) {
        const std::string info = master->Ask({"CLUSTER", "INFO"});
        if (info.find("cluster_state:ok") == std::string::npos ||
            info.find("cluster_known_nodes:3") == std::string::npos)
          return false;
      }
      return true;
    }));
  }
  static std::string Bulk(const std::string& reply) {
    const size_t from = reply.find("\r\n") + 2;
    return reply.substr(from, reply.size() - from - 2);
  }
  // How far its stream of writes is.
  static int64_t OffsetOf(const RedisServer& server, const std::string& field) {
    const std::string info = server.Ask({"INFO", "replication"});
    const size_t at = info.find(field);
    return at == std::string::npos ? -1 : std::stoll(info.substr(at + field.size()));
  }
  [[nodiscard]] std::string Url() const {
    return "redis-cluster://" + masters[0]->endpoint() + "," + masters[1]->endpoint();
  }
  void MakeAndWait() {
    Make(Url());
    ASSERT_TRUE(WaitUntil([&] { return metrics->topology_refreshes.value() != 0; }));
  }
  [[nodiscard]] static size_t MasterOf(const std::string& key) {
    return SlotOf(key) * kMasters / kSlots;
  }

  std::array<std::unique_ptr<RedisServer>, kMasters> masters;
  std::array<std::string, kMasters> ids;
};

TEST_F(ClusterServerTest, EveryKeyGoesToItsMaster) {
  MakeAndWait();
  for (uint64_t i = 0; i < 3000; ++i)
    Run(i, seconds(10), "{k" + std::to_string(i) + "}");
  ASSERT_TRUE(WaitUntil([&] { return log.replies.size() == 3000; }));
  EXPECT_EQ(log.Count(Failure::kNone), 3000U);
  EXPECT_EQ(metrics->redirects.value(), 0U) << "the table was known";
  for (const auto& master : masters) {
    const int keys = std::stoi(master->Ask({"DBSIZE"}).substr(1));
    EXPECT_NEAR(keys, 1000, 100);
  }
  EXPECT_EQ(client->PlaceOf("{a}1"), client->PlaceOf("{a}2"));
  EXPECT_NE(client->PlaceOf("a"), client->PlaceOf("b"));
  EXPECT_NE(client->PlaceOf(""), 0U);
}

TEST_F(ClusterServerTest, WithoutTheTableTheServersSendItOn) {
  Make(Url());
  for (uint64_t i = 0; i < 30; ++i)
    Run(i, seconds(10), "k" + std::to_string(i));
  ASSERT_TRUE(WaitUntil([&] { return log.replies.size() == 30; }));
  EXPECT_EQ(log.Count(Failure::kNone), 30U) << log.TextOf(0);
}

// One slot moves, key by key, while its counter is used: every command is run once.
TEST_F(ClusterServerTest, ASlotMovesUnderLoad) {
  MakeAndWait();
  const std::string tag = "{foo}";
  const std::string slot = std::to_string(SlotOf(tag));
  const size_t from = MasterOf("foo");
  const size_t to = (from + 1) % kMasters;
  const uint32_t place = client->PlaceOf(tag);
  const uint32_t server = client->ServerOf(place);
  EXPECT_NE(server, 0U);
  constexpr int kKeys = 20;
  uint64_t ticket = 0;
  const auto load = [&] {
    for (int key = 0; key < kKeys; ++key)
      Run(++ticket, seconds(10), tag + std::to_string(key));
    loop->RunOnce(milliseconds(1));
  };
  load();
  ASSERT_TRUE(WaitUntil([&] { return log.replies.size() == ticket; }));
  masters[to]->Ask({"CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]});
  masters[from]->Ask({"CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]});
  for (int key = 0; key < kKeys; ++key) {
    load();
    EXPECT_EQ(masters[from]->Ask({"MIGRATE", "127.0.0.1", std::to_string(masters[to]->port()),
                                  tag + std::to_string(key), "0", "5000"}),
              "+OK\r\n");
    load();
    // A key that exists nowhere yet is asked for at the new place.
    Run(++ticket, seconds(10), tag + "new" + std::to_string(key));
  }
  ASSERT_TRUE(WaitUntil([&] { return log.replies.size() == ticket; }));
  EXPECT_GT(metrics->redirects.value(), 0U);
  for (const size_t at : {to, from, (to + 1) % kMasters})
    masters[at]->Ask({"CLUSTER", "SETSLOT", slot, "NODE", ids[to]});
  for (int round = 0; round < 20; ++round)
    load();
  ASSERT_TRUE(WaitUntil([&] { return log.replies.size() == ticket; }));
  EXPECT_EQ(log.Count(Failure::kNone), ticket);
  ASSERT_TRUE(WaitUntil([&] { return metrics->topology_refreshes.value() >= 2; }));
  EXPECT_NE(client->ServerOf(place), server);
  const std::string all = std::to_string(1 + 2 * kKeys + 20);
  for (int key = 0; key < kKeys; ++key)
    EXPECT_EQ(Ask({"GET", tag + std::to_string(key)}, tag), "'" + all + "'");
}

TEST_F(ClusterServerTest, AMasterThatIsGoneTakesItsSlotsAloneAndIsFoundAgain) {
  Make(Url());
  masters[0]->Ask({"CONFIG", "SET", "cluster-require-full-coverage", "no"});
  masters[2]->Ask({"CONFIG", "SET", "cluster-require-full-coverage", "no"});
  ASSERT_TRUE(WaitUntil([&] { return metrics->topology_refreshes.value() != 0; }));
  std::array<std::string, kMasters> keys;
  for (int i = 0; keys[0].empty() || keys[1].empty() || keys[2].empty(); ++i)
    keys[MasterOf(std::to_string(i))] = std::to_string(i);
  for (const std::string& key : keys)
    ASSERT_TRUE(WaitUntil([&] { return Works(key); }));
  masters[1]->Kill();
  EXPECT_FALSE(Works(keys[1]));
  EXPECT_TRUE(Works(keys[0]));
  EXPECT_TRUE(Works(keys[2]));
  masters[1]->Start();
  ASSERT_TRUE(WaitUntil([&] { return Works(keys[1]); }));
}

// The other masters elect it, and the client finds it by what they say.
TEST_F(ClusterServerTest, AReplicaThatIsPromotedGoesOnWhereItsMasterWas) {
  const RedisServer::Setup setup = Member();
  RedisServer replica(setup);
  masters[0]->Ask(
      {"CLUSTER", "MEET", "127.0.0.1", std::to_string(replica.port()), setup.arguments[3]});
  ASSERT_TRUE(testing::WaitFor([&] {
    return replica.Ask({"CLUSTER", "NODES"}).find(ids[1]) != std::string::npos;
  }));
  ASSERT_TRUE(testing::WaitFor([&] {
    return replica.Ask({"CLUSTER", "REPLICATE", ids[1]}) == "+OK\r\n";
  }));
  ASSERT_TRUE(testing::WaitFor([&] {
    return masters[1]->Ask({"INFO", "replication"}).find("state=online") != std::string::npos &&
           masters[2]->Ask({"CLUSTER", "NODES"}).find("slave " + ids[1]) != std::string::npos;
  }));
  MakeAndWait();
  std::string key = "0";
  for (int i = 1; MasterOf(key) != 1; ++i)
    key = std::to_string(i);
  constexpr int kBefore = 20;
  for (int i = 0; i < kBefore; ++i)
    ASSERT_TRUE(WaitUntil([&] { return Works(key); }));
  const std::string before = masters[1]->Ask({"GET", key});
  ASSERT_TRUE(testing::WaitFor([&] {
    return replica.Ask({"DBSIZE"}) == masters[1]->Ask({"DBSIZE"}) &&
           OffsetOf(replica, "slave_repl_offset:") >= OffsetOf(*masters[1], "master_repl_offset:");
  })) << "the replica has it all";

  masters[1]->Kill();

  EXPECT_FALSE(Works(key));
  ASSERT_TRUE(WaitUntil([&] { return Works(key); }, seconds(60)));
  EXPECT_NE(replica.Ask({"ROLE"}).find("master"), std::string::npos);
  const std::string after = Bulk(replica.Ask({"GET", key}));
  EXPECT_GT(std::stoi(after), std::stoi(Bulk(before))) << "counted on, not anew";
}

}  // namespace
}  // namespace flowguard::quota::redis
