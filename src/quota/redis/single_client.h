// SPDX-License-Identifier: Apache-2.0
//
// A Commander on one server.
#pragma once

#include <memory>

#include "quota/redis/commander.h"
#include "quota/redis/node.h"

namespace flowguard::quota::redis {

class SingleClient final : public Commander, private ConnectionOwner {
 public:
  explicit SingleClient(std::unique_ptr<ClientParts> parts);

  void Run(const Script& script, std::span<const std::string_view> keys,
           const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
           ReplySink* sink) noexcept override;
  void Command(std::string_view key, std::span<const std::string_view> words, Instant deadline,
               uint64_t ticket, ReplySink* sink) noexcept override;
  [[nodiscard]] uint32_t PlaceOf(std::string_view /*key*/) const noexcept override { return 0; }

 private:
  bool OnRedirect(Connection& from, const PendingCommand& command, std::string_view bytes,
                  const ErrorReply& reply) noexcept override;
  void OnUp(Connection& connection) noexcept override;
  void OnDown(Connection& connection, std::string_view problem) noexcept override;
  void OnDoubt(Connection& connection, Failure failure) noexcept override;

  const std::unique_ptr<ClientParts> parts_;
  Node node_;
  bool up_ = true;  // as was logged last
};

}  // namespace flowguard::quota::redis
