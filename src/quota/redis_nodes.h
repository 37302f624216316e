// SPDX-License-Identifier: Apache-2.0
//
// The register of nodes in Redis: a sorted set of their names by the time until which each
// counts, all by the server's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quota/node_register.h"
#include "quota/redis/commander.h"

namespace flowguard::quota {

// Threads: the thread of the commander's loop.
class RedisNodes final : public NodeRegister, private redis::ReplySink {
 public:
  // `commander` must outlive this, and answer what was asked first.  Nodes of one `group`
  // count together.
  RedisNodes(redis::Commander& commander, std::string_view group);

  void Beat(std::string_view owner, Duration ttl, Instant deadline, uint64_t ticket,
            NodeSink* sink) noexcept override;

 private:
  struct Asked {
    uint64_t ticket = 0;
    NodeSink* sink = nullptr;  // null: free
  };

  void OnReply(uint64_t index, const redis::CommandReply& reply) noexcept override;

  redis::Commander& commander_;
  std::string key_;
  std::vector<Asked> asked_;
};

}  // namespace flowguard::quota
