// SPDX-License-Identifier: Apache-2.0
#include "quota/redis_nodes.h"

#include <gtest/gtest.h>

#include "wire/resp_text_test.h"

namespace flowguard::quota {
namespace {

using std::chrono::milliseconds;

// Keeps the last command, and answers it when told.
class FakeCommander final : public redis::Commander {
 public:
  void Run(const redis::Script& script, std::span<const std::string_view> keys,
           const wire::resp::EncodedWords& args, Instant /*deadline*/, uint64_t ticket,
           redis::ReplySink* sink) noexcept override {
    EXPECT_EQ(script.sha1.size(), 40u);
    key_ = keys[0];
    args_ = WordsOf(args);
    asked_.push_back({ticket, sink});
  }
  void Command(std::string_view, std::span<const std::string_view>, Instant, uint64_t,
               redis::ReplySink*) noexcept override {}
  [[nodiscard]] uint32_t PlaceOf(std::string_view) const noexcept override { return 0; }

  void Answer(const redis::CommandReply& reply) {
    const auto [ticket, sink] = asked_.front();
    asked_.erase(asked_.begin());
    sink->OnReply(ticket, reply);
  }
  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] const std::vector<std::string>& args() const { return args_; }

 private:
  std::string key_;
  std::vector<std::string> args_;
  std::vector<std::pair<uint64_t, redis::ReplySink*>> asked_;
};

class NodesLog final : public NodeSink {
 public:
  void OnNodes(uint64_t ticket, int nodes) noexcept override { told.emplace_back(ticket, nodes); }
  std::vector<std::pair<uint64_t, int>> told;
};

TEST(RedisNodesTest, ABeatIsAScriptThatReturnsTheCount) {
  FakeCommander commander;
  RedisNodes nodes(commander, "shop");
  NodesLog log;
  nodes.Beat("node-a", milliseconds(1500), Instant(), 7, &log);
  EXPECT_EQ(commander.key(), "rl:{nodes}:shop");
  EXPECT_EQ(commander.args(), (std::vector<std::string>{"node-a", "1500"}));
  nodes.Beat("node-b", Duration(1), Instant(), 8, &log);
  EXPECT_EQ(commander.args()[1], "1") << "rounded up: 0 would leave";

  wire::resp::Value three;
  three.type = wire::resp::Value::Type::kInteger;
  three.integer = 3;
  commander.Answer({.failure = redis::Failure::kNone, .error = {}, .value = &three});
  commander.Answer({.failure = redis::Failure::kTimeout, .error = "late", .value = nullptr});
  EXPECT_EQ(log.told, (std::vector<std::pair<uint64_t, int>>{{7, 3}, {8, 0}}));
}

}  // namespace
}  // namespace flowguard::quota
