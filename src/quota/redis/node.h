// SPDX-License-Identifier: Apache-2.0
//
// One server: its connections, and the choice among them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/loop.h"
#include "quota/redis/connection.h"
#include "quota/redis/metrics.h"
#include "quota/redis/options.h"
#include "quota/redis/refusals.h"

namespace flowguard::quota::redis {

// What every client is made of, whatever its topology.
// Threads: the loop's.
struct ClientParts {
  // Errors: kInvalidArgument, for the files of TLS.
  static Result<std::unique_ptr<ClientParts>> Create(net::Loop& loop, const Options& options,
                                                     Metrics& metrics, uint64_t seed);
  ClientParts(net::Loop& on, const Options& of, Metrics& to, uint64_t from)
      : loop(on), options(of), metrics(to), seed(from), refusals(on, to) {}

  net::Loop& loop;
  const Options options;
  Metrics& metrics;
  uint64_t seed;  // of the waits before connecting again
  Refusals refusals;
  ConnectionOptions connection;  // to a server that has the cells
};

class Node {
 public:
  // `parts` and `owner` must outlive it.
  Node(ClientParts& parts, ConnectionOwner& owner);

  // As Connection::Start, for all.
  void Start(const std::string& endpoint);
  [[nodiscard]] const std::string& endpoint() const noexcept {
    return connections_.front()->endpoint();
  }
  // The one for the next command: of those that take commands the one with the fewest
  // pending; if none does, one that will tell why.
  [[nodiscard]] Connection& Choose() noexcept {
    return connections_.size() == 1 ? *connections_.front() : ChooseOfMany();
  }
  [[nodiscard]] bool ready() const noexcept;
  [[nodiscard]] size_t pending() const noexcept;

 private:
  [[nodiscard]] Connection& ChooseOfMany() noexcept;

  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace flowguard::quota::redis
