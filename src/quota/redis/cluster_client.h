// SPDX-License-Identifier: Apache-2.0
//
// A Commander on a Redis cluster: a table of the slots' masters, kept up by CLUSTER
// SLOTS and by the redirections that commands meet.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/timer.h"
#include "quota/redis/commander.h"
#include "quota/redis/node.h"
#include "quota/redis/slot.h"

namespace flowguard::quota::redis {

class ClusterClient final : public Commander, private ConnectionOwner, private ReplySink {
 public:
  explicit ClusterClient(std::unique_ptr<ClientParts> parts);

  void Run(const Script& script, std::span<const std::string_view> keys,
           const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
           ReplySink* sink) noexcept override;
  void Command(std::string_view key, std::span<const std::string_view> words, Instant deadline,
               uint64_t ticket, ReplySink* sink) noexcept override;
  // The slot and one: keys of two slots share no script, even on one node.
  [[nodiscard]] uint32_t PlaceOf(std::string_view key) const noexcept override {
    return uint32_t{SlotOf(key)} + 1;
  }
  // Requires: a place of PlaceOf.
  [[nodiscard]] uint32_t ServerOf(uint32_t place) const noexcept override {
    const uint16_t owner = owners_[place - 1];
    return owner == kNobody ? 0 : uint32_t{owner} + 1;
  }

 private:
  static constexpr Duration kRefreshEvery = std::chrono::seconds(30);
  static constexpr Duration kRefreshGap = std::chrono::milliseconds(100);
  static constexpr Duration kRefreshWithin = std::chrono::seconds(1);
  static constexpr uint16_t kNobody = UINT16_MAX;
  using SlotTable = std::array<uint16_t, kSlots>;  // indices of nodes_

  bool OnRedirect(Connection& from, const PendingCommand& command, std::string_view bytes,
                  const ErrorReply& reply) noexcept override;
  void OnUp(Connection& connection) noexcept override;
  void OnDown(Connection& connection, std::string_view problem) noexcept override;
  void OnDoubt(Connection& connection, Failure failure) noexcept override;
  void OnReply(uint64_t ticket, const CommandReply& reply) noexcept override;

  [[nodiscard]] Connection& ConnectionOf(std::string_view key) noexcept;
  // A node for what no slot decides: a ready one if there is any, in turn.
  [[nodiscard]] Node& AnyNode() noexcept;
  // The node at `endpoint`, made when it is new; kNobody when there are too many.
  [[nodiscard]] uint16_t FindOrAdd(const std::string& endpoint);
  void RefreshSoon() noexcept;
  void Refresh() noexcept;
  [[nodiscard]] bool Apply(const wire::resp::Value& slots);
  [[nodiscard]] bool ApplyRange(const wire::resp::Value& range, SlotTable& table);
  void DropStrangers() noexcept;

  const std::unique_ptr<ClientParts> parts_;
  std::vector<std::unique_ptr<Node>> nodes_;  // null: gone; the first ones are those of the URL
  SlotTable owners_;
  net::Timer refresh_;
  Instant refreshed_at_ = Instant::min();
  bool refreshing_ = false;
  std::string asked_;  // who was asked for the table
  size_t turn_ = 0;    // of AnyNode
};

}  // namespace flowguard::quota::redis
