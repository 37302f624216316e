// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/sentinel_client.h"

#include <array>
#include <string>
#include <utility>

#include "base/log.h"
#include "quota/redis/endpoint.h"

namespace flowguard::quota::redis {
namespace {

ConnectionOptions SentinelOptions(const ClientParts& parts) {
  ConnectionOptions options = parts.connection;
  options.greeting.user = parts.options.sentinel_user;
  options.greeting.password = parts.options.sentinel_password;
  options.greeting.database = 0;
  options.greeting.require_master = false;
  return options;
}

}  // namespace

SentinelClient::SentinelClient(std::unique_ptr<ClientParts> parts)
    : parts_(std::move(parts)),
      sentinel_options_(SentinelOptions(*parts_)),
      sentinel_(parts_->loop, sentinel_options_, *this, parts_->refusals, parts_->metrics,
                ++parts_->seed),
      node_(*parts_, *this),
      ask_([](void* self) noexcept { static_cast<SentinelClient*>(self)->Ask(); }, this) {
  parts_->connection.greeting.require_master = true;
  sentinel_.Start(parts_->options.hosts.front());
}

void SentinelClient::Run(const Script& script, std::span<const std::string_view> keys,
                         std::span<const std::string_view> args, Instant deadline, uint64_t ticket,
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
  sentinel_.Start(parts_->options.hosts[current_ % parts_->options.hosts.size()]);
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
  const std::string master =
      MakeEndpoint(reply.value->items[0].text, reply.value->items[1].text, sentinel_.endpoint());
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
  if (&connection == &sentinel_) return Ask();
  if (!std::exchange(up_, true))
    base::Log(base::LogLevel::kInfo, "redis " + connection.endpoint() + ": connected again");
}

void SentinelClient::OnDown(Connection& connection, std::string_view problem) noexcept {
  if (&connection == &sentinel_) return Turn();
  if (std::exchange(up_, false))
    base::Log(base::LogLevel::kWarn,
              "redis " + connection.endpoint() + ": " + std::string(problem) + "; trying again");
  AskSoon();
}

void SentinelClient::OnDoubt(Connection& /*connection*/, Failure /*failure*/) noexcept {
  AskSoon();
}

}  // namespace flowguard::quota::redis
