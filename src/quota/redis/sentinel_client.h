// SPDX-License-Identifier: Apache-2.0
//
// A Commander on the master that sentinels name.  One sentinel at a time is listened to,
// which tells of a switch at once, and asked: every second, when the master is in doubt,
// and after anything that may have kept it from being heard.  A server counts as the master
// when it says so itself (ROLE).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/timer.h"
#include "quota/redis/commander.h"
#include "quota/redis/metrics.h"
#include "quota/redis/node.h"

namespace flowguard::quota::redis {

class SentinelClient final : public Commander, private ConnectionOwner, private ReplySink {
 public:
  explicit SentinelClient(std::unique_ptr<ClientParts> parts);

  void Run(const Script& script, std::span<const std::string_view> keys,
           const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
           ReplySink* sink) noexcept override;
  void Command(std::string_view key, std::span<const std::string_view> words, Instant deadline,
               uint64_t ticket, ReplySink* sink) noexcept override;
  [[nodiscard]] uint32_t PlaceOf(std::string_view /*key*/) const noexcept override { return 0; }

 private:
  static constexpr Duration kAskEvery = std::chrono::seconds(1);
  static constexpr Duration kAskSoon = std::chrono::milliseconds(100);

  bool OnRedirect(Connection& from, const PendingCommand& command, std::string_view bytes,
                  const ErrorReply& reply) noexcept override;
  void OnUp(Connection& connection) noexcept override;
  void OnDown(Connection& connection, std::string_view problem) noexcept override;
  void OnDoubt(Connection& connection, Failure failure) noexcept override;
  void OnMessage(Connection& connection, const wire::resp::Value& message) noexcept override;
  void OnReply(uint64_t ticket, const CommandReply& reply) noexcept override;

  void Start(const std::string& sentinel);
  void Follow(const std::string& master);
  void Ask() noexcept;
  void AskSoon() noexcept;
  // Another sentinel from now on.
  void Turn() noexcept;

  const std::unique_ptr<ClientParts> parts_;
  // Apart: what is told of a client is about the servers that have the cells.
  Metrics sentinel_metrics_;
  ConnectionOptions sentinel_options_;
  ConnectionOptions listener_options_;
  Connection sentinel_;
  Connection listener_;
  Node node_;
  net::Timer ask_;
  size_t current_ = 0;  // of the sentinels
  bool asking_ = false;
  bool up_ = true;  // as was logged last
};

}  // namespace flowguard::quota::redis
