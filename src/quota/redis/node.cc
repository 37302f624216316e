// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/node.h"

#include <utility>

#include "base/try.h"

namespace flowguard::quota::redis {

Result<std::unique_ptr<ClientParts>> ClientParts::Create(net::Loop& loop, const Options& options,
                                                         Metrics& metrics, uint64_t seed) {
  auto parts = std::make_unique<ClientParts>(loop, options, metrics, seed);
  ConnectionOptions& connection = parts->connection;
  connection.greeting.user = options.user;
  connection.greeting.password = options.password;
  connection.greeting.client_name = options.client_name;
  connection.greeting.database = options.database;
  connection.greeting.protocol = options.protocol;
  connection.connect_timeout = options.connect_timeout;
  connection.break_after = options.break_after;
  if (options.tls) {
    FG_ASSIGN_OR_RETURN(connection.tls, net::TlsContext::Create(options.tls_options));
  }
  return parts;
}

Node::Node(ClientParts& parts, ConnectionOwner& owner) {
  for (int i = 0; i < parts.options.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>(
        parts.loop, parts.connection, owner, parts.refusals, parts.metrics, ++parts.seed));
  }
}

void Node::Start(const std::string& endpoint) {
  for (const std::unique_ptr<Connection>& connection : connections_)
    connection->Start(endpoint);
}

Connection& Node::ChooseOfMany() noexcept {
  Connection* best = nullptr;
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (!connection->Accepts()) continue;
    // One that is still being established only when there is no other.
    if (best == nullptr || connection->ready() > best->ready() ||
        (connection->ready() == best->ready() && connection->pending() < best->pending()))
      best = connection.get();
  }
  return best != nullptr ? *best : *connections_.front();
}

bool Node::ready() const noexcept {
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection->ready()) return true;
  }
  return false;
}

size_t Node::pending() const noexcept {
  size_t pending = 0;
  for (const std::unique_ptr<Connection>& connection : connections_)
    pending += connection->pending();
  return pending;
}

}  // namespace flowguard::quota::redis
