// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/cluster_client.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "base/log.h"
#include "quota/redis/endpoint.h"

namespace flowguard::quota::redis {

using wire::resp::Value;

ClusterClient::ClusterClient(std::unique_ptr<ClientParts> parts)
    : parts_(std::move(parts)),
      refresh_([](void* self) noexcept { static_cast<ClusterClient*>(self)->Refresh(); }, this) {
  owners_.fill(kNobody);
  for (const std::string& host : parts_->options.hosts)
    static_cast<void>(FindOrAdd(host));
}

uint16_t ClusterClient::FindOrAdd(const std::string& endpoint) {
  size_t free = nodes_.size();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr) {
      free = i;
    } else if (nodes_[i]->endpoint() == endpoint) {
      return static_cast<uint16_t>(i);
    }
  }
  if (free == base::kRedisNodesMax) return kNobody;
  if (free == nodes_.size()) nodes_.emplace_back();
  ConnectionOwner& self = *this;
  nodes_[free] = std::make_unique<Node>(*parts_, self);
  nodes_[free]->Start(endpoint);
  return static_cast<uint16_t>(free);
}

Node& ClusterClient::AnyNode() noexcept {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const size_t at = (turn_ + i) % nodes_.size();
    if (nodes_[at] != nullptr && nodes_[at]->ready()) {
      turn_ = at + 1;
      return *nodes_[at];
    }
  }
  return *nodes_.front();
}

Connection& ClusterClient::ConnectionOf(std::string_view key) noexcept {
  const uint16_t owner = owners_[SlotOf(key)];
  // Whoever it is sends the command on.
  return owner == kNobody ? AnyNode().Choose() : nodes_[owner]->Choose();
}

void ClusterClient::Run(const Script& script, std::span<const std::string_view> keys,
                        const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
                        ReplySink* sink) noexcept {
  Connection& connection = keys.empty() ? AnyNode().Choose() : ConnectionOf(keys.front());
  connection.Run(script, keys, args, deadline, ticket, sink);
}

void ClusterClient::Command(std::string_view key, std::span<const std::string_view> words,
                            Instant deadline, uint64_t ticket, ReplySink* sink) noexcept {
  Connection& connection = key.empty() ? AnyNode().Choose() : ConnectionOf(key);
  connection.Command(words, deadline, ticket, sink);
}

bool ClusterClient::OnRedirect(Connection& from, const PendingCommand& command,
                               std::string_view bytes, const ErrorReply& reply) noexcept {
  const size_t colon = reply.endpoint.rfind(':');
  const uint16_t index = FindOrAdd(MakeEndpoint(reply.endpoint.substr(0, colon),
                                                reply.endpoint.substr(colon + 1), from.endpoint()));
  if (index == kNobody) return false;
  const bool asking = reply.detour == Detour::kAsk;
  if (!asking) {
    owners_[reply.slot] = index;
    RefreshSoon();
  }
  Connection& to = nodes_[index]->Choose();
  // A server that sends us to itself: the bytes are in the buffer that they go to.
  if (&to == &from) return to.Adopt(command, std::string(bytes), asking);
  return to.Adopt(command, bytes, asking);
}

void ClusterClient::OnUp(Connection& /*connection*/) noexcept {
  if (owners_.front() == kNobody) RefreshSoon();
}

void ClusterClient::OnDown(Connection& connection, std::string_view problem) noexcept {
  base::Log(base::LogLevel::kDebug,
            "redis " + connection.endpoint() + ": " + std::string(problem) + "; trying again");
  RefreshSoon();
}

void ClusterClient::OnDoubt(Connection& /*connection*/, Failure /*failure*/) noexcept {
  RefreshSoon();
}

void ClusterClient::RefreshSoon() noexcept {
  if (refreshing_) return;
  const Instant now = parts_->loop.Now();
  const Instant at =
      refreshed_at_ == Instant::min() ? now : std::max(now, refreshed_at_ + kRefreshGap);
  if (!refresh_.armed() || refresh_.deadline() > at) parts_->loop.Arm(refresh_, at);
}

void ClusterClient::Refresh() noexcept {
  parts_->loop.ArmAfter(refresh_, kRefreshEvery);
  if (refreshing_) return;
  refreshed_at_ = parts_->loop.Now();
  DropStrangers();
  Connection& connection = AnyNode().Choose();
  if (!connection.ready()) return RefreshSoon();
  refreshing_ = true;
  asked_ = connection.endpoint();
  const std::array<std::string_view, 2> words{"CLUSTER", "SLOTS"};
  connection.Command(words, parts_->loop.Now() + kRefreshWithin, 0, this);
}

void ClusterClient::OnReply(uint64_t /*ticket*/, const CommandReply& reply) noexcept {
  refreshing_ = false;
  if (reply.value != nullptr && Apply(*reply.value)) {
    parts_->metrics.topology_refreshes.Add(1);
    return;
  }
  base::Log(base::LogLevel::kWarn,
            "redis cluster " + asked_ + ": CLUSTER SLOTS: " +
                (reply.value != nullptr ? "not understood" : std::string(reply.error)));
  RefreshSoon();
}

bool ClusterClient::Apply(const Value& slots) {
  SlotTable table;
  table.fill(kNobody);
  if (slots.type != Value::Type::kArray || slots.items.empty()) return false;
  for (const Value& range : slots.items) {
    if (!ApplyRange(range, table)) return false;
  }
  owners_ = table;
  return true;
}

// [first, last, [host, port, ...], replicas...]
bool ClusterClient::ApplyRange(const Value& range, SlotTable& table) {
  if (range.items.size() < 3 || range.items[2].items.size() < 2) return false;
  const int64_t first = range.items[0].integer;
  const int64_t last = range.items[1].integer;
  if (first < 0 || last < first || last >= static_cast<int64_t>(kSlots)) return false;
  const Value& host = range.items[2].items[0];
  const int64_t port = range.items[2].items[1].integer;
  if (port <= 0 || port > UINT16_MAX) return false;
  const uint16_t index = FindOrAdd(MakeEndpoint(host.text, std::to_string(port), asked_));
  if (index == kNobody) return false;
  std::fill(table.begin() + first, table.begin() + last + 1, index);
  return true;
}

// Nodes that have no slot any more, and no command under way.  Not from inside a
// connection's call.
void ClusterClient::DropStrangers() noexcept {
  for (size_t i = parts_->options.hosts.size(); i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr || nodes_[i]->pending() != 0) continue;
    if (std::find(owners_.begin(), owners_.end(), static_cast<uint16_t>(i)) == owners_.end())
      nodes_[i].reset();
  }
}

}  // namespace flowguard::quota::redis
