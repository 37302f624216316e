// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/single_client.h"

#include <string>
#include <utility>

#include "base/log.h"

namespace flowguard::quota::redis {

SingleClient::SingleClient(std::unique_ptr<ClientParts> parts)
    : parts_(std::move(parts)), node_(*parts_, *this) {
  node_.Start(parts_->options.hosts.front());
}

void SingleClient::Run(const Script& script, std::span<const std::string_view> keys,
                       const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
                       ReplySink* sink) noexcept {
  node_.Choose().Run(script, keys, args, deadline, ticket, sink);
}

void SingleClient::Command(std::string_view /*key*/, std::span<const std::string_view> words,
                           Instant deadline, uint64_t ticket, ReplySink* sink) noexcept {
  node_.Choose().Command(words, deadline, ticket, sink);
}

bool SingleClient::OnRedirect(Connection& /*from*/, const PendingCommand& /*command*/,
                              std::string_view /*bytes*/, const ErrorReply& /*reply*/) noexcept {
  return false;  // one node of a cluster was configured as a single server: told as it is
}

void SingleClient::OnUp(Connection& connection) noexcept {
  if (!std::exchange(up_, true))
    base::Log(base::LogLevel::kInfo, "redis " + connection.endpoint() + ": connected again");
}

void SingleClient::OnDown(Connection& connection, std::string_view problem) noexcept {
  if (std::exchange(up_, false))
    base::Log(base::LogLevel::kWarn,
              "redis " + connection.endpoint() + ": " + std::string(problem) + "; trying again");
}

void SingleClient::OnDoubt(Connection& /*connection*/, Failure /*failure*/) noexcept {}

}  // namespace flowguard::quota::redis
