// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/sentinel_client.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "quota/redis/endpoint.h"

namespace flowguard::quota::redis {
namespace {

constexpr std::string_view kSwitchChannel = "+switch-master";

ConnectionOptions SentinelOptions(const ClientParts& parts) {
  ConnectionOptions options = parts.connection;
  options.greeting.user = parts.options.sentinel_user;
  options.greeting.password = parts.options.sentinel_password;
  options.greeting.database = 0;
  options.greeting.require_master = false;
  return options;
}

ConnectionOptions ListenerOptions(ConnectionOptions options) {
  options.channel = kSwitchChannel;
  return options;
}

// The new master's address out of "name old-ip old-port new-ip new-port"; empty for another
// name, or another text.
std::string SwitchedTo(std::string_view text, std::string_view name, std::string_view sentinel) {
  std::array<std::string_view, 5> words;
  for (std::string_view& word : words) {
    const size_t end = std::min(text.find(' '), text.size());
    word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (words[0] != name || words[3].empty() || words[4].empty()) return {};
  return MakeEndpoint(words[3], words[4], sentinel);
}

}  // namespace

SentinelClient::SentinelClient(std::unique_ptr<ClientParts> parts)
    : parts_(std::move(parts)),
      sentinel_options_(SentinelOptions(*parts_)),
      listener_options_(ListenerOptions(sentinel_options_)),
      sentinel_(parts_->loop, sentinel_options_, *this, parts_->refusals, sentinel_metrics_,
                ++parts_->seed),
      listener_(parts_->loop, listener_options_, *this, parts_->refusals, sentinel_metrics_,
                ++parts_->seed),
      node_(*parts_, *this),
      ask_([](void* self) noexcept { static_cast<SentinelClient*>(self)->Ask(); }, this) {
  parts_->connection.greeting.require_master = true;
  Start(parts_->options.hosts.front());
}

void SentinelClient::Start(const std::string& sentinel) {
  sentinel_.Start(sentinel);
  listener_.Start(sentinel);
}

void SentinelClient::Run(const Script& script, std::span<const std::string_view> keys,
                         const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
                         ReplySink* sink) noexcept {
  node_.Choose().Run(script, keys, args, deadline, ticket, sink);
}

void SentinelClient::Command(std::string_view /*key*/, std::span<const std::string_view> words,
                             Instant deadline, uint64_t ticket, ReplySink* sink) noexcept {
  node_.Choose().Command(words, deadline, ticket, sink);
}

void SentinelClient::Ask() noexcept {
  parts_->loop.ArmAfter(ask_, kAskEvery);
  if (asking_) return;
  Start(parts_->options.hosts[current_ % parts_->options.hosts.size()]);
  if (!sentinel_.ready()) return;
  asking_ = true;
  const std::array<std::string_view, 3> words{"SENTINEL", "get-master-addr-by-name",
                                              parts_->options.master_name};
  sentinel_.Command(words, parts_->loop.Now() + kAskEvery, 0, this);
}

void SentinelClient::AskSoon() noexcept {
  const Instant soon = parts_->loop.Now() + kAskSoon;
  if (!ask_.armed() || ask_.deadline() > soon) parts_->loop.Arm(ask_, soon);
}

void SentinelClient::Turn() noexcept {
  ++current_;
  AskSoon();
}

void SentinelClient::OnReply(uint64_t /*ticket*/, const CommandReply& reply) noexcept {
  asking_ = false;
  const bool told = reply.value != nullptr && reply.value->items.size() == 2;
  if (!told) {
    base::Log(base::LogLevel::kWarn,
              "redis sentinel " + sentinel_.endpoint() + ": " +
                  (reply.value != nullptr ? "knows no master " + parts_->options.master_name
                                          : std::string(reply.error)));
    return Turn();
  }
  Follow(
      MakeEndpoint(reply.value->items[0].text, reply.value->items[1].text, sentinel_.endpoint()));
}

void SentinelClient::OnMessage(Connection& /*connection*/,
                               const wire::resp::Value& message) noexcept {
  if (message.type == wire::resp::Value::Type::kError) {
    base::Log(base::LogLevel::kWarn, "redis sentinel " + listener_.endpoint() + ": " +
                                         std::string(message.text) + "; it is only asked");
    return;
  }
  if (message.items.size() != 3 || message.items[0].text != "message") return;
  const std::string master =
      SwitchedTo(message.items[2].text, parts_->options.master_name, listener_.endpoint());
  if (!master.empty()) Follow(master);
}

void SentinelClient::Follow(const std::string& master) {
  if (master == node_.endpoint()) return;
  parts_->metrics.topology_refreshes.Add(1);
  base::Log(base::LogLevel::kInfo, "redis master " + parts_->options.master_name + ": " + master);
  node_.Start(master);
}

bool SentinelClient::OnRedirect(Connection& /*from*/, const PendingCommand& /*command*/,
                                std::string_view /*bytes*/, const ErrorReply& /*reply*/) noexcept {
  return false;
}

void SentinelClient::OnUp(Connection& connection) noexcept {
  if (&connection == &sentinel_ || &connection == &listener_) return Ask();
  if (!std::exchange(up_, true))
    base::Log(base::LogLevel::kInfo, "redis " + connection.endpoint() + ": connected again");
}

void SentinelClient::OnDown(Connection& connection, std::string_view problem) noexcept {
  if (&connection == &listener_) return;  // it comes back by itself
  if (&connection == &sentinel_) return Turn();
  if (std::exchange(up_, false)) {
    base::Log(base::LogLevel::kWarn,
              "redis " + connection.endpoint() + ": " + std::string(problem) + "; trying again");
  }
  AskSoon();
}

void SentinelClient::OnDoubt(Connection& /*connection*/, Failure /*failure*/) noexcept {
  AskSoon();
}

}  // namespace flowguard::quota::redis
