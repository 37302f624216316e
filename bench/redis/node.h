// SPDX-License-Identifier: Apache-2.0
//
// What decides shared rules in a worker of the gateway, and rules to be decided.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flowguard/clock.h"
#include "flowguard/rule.h"

#include "engine/quota_store.h"
#include "net/loop.h"
#include "quota/net_store_loop.h"
#include "quota/redis/client.h"
#include "quota/redis_cells.h"
#include "quota/shared_store.h"
#include "rules/compile.h"
#include "rules/key.h"

namespace flowguard::bench {

template <typename T>
T ValueOf(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(2);
  }
  return std::move(result).value();
}

// Threads: one.
class Node {
 public:
  explicit Node(std::string_view url)
      : loop(ValueOf(net::Loop::Create(SystemClock()))),
        commander_(ValueOf(
            quota::redis::MakeCommander(*loop, ValueOf(quota::redis::ParseUrl(url)), metrics_, 1))),
        cells(*commander_),
        store_loop_(*loop),
        store({.owner = "bench", .nodes = 1, .on_nodes = {}, .seed = 1}, store_loop_, cells) {
    store_loop_.Drive(store);
    store.Open();
    while (metrics_.connected.value() == 0)
      loop->RunOnce(std::chrono::seconds(1));
  }

 private:
  quota::redis::Metrics metrics_;

 public:
  const std::unique_ptr<net::Loop> loop;

 private:
  const std::unique_ptr<quota::redis::Commander> commander_;

 public:
  quota::RedisCells cells;

 private:
  quota::NetStoreLoop store_loop_;

 public:
  quota::SharedStore store;
};

// A shared token bucket for each user, as takes that an engine would ask for.
class Bucket {
 public:
  Bucket(std::string name, Rate rate, int64_t burst, int64_t overshoot = 0) {
    RuleSet set;
    Rule& rule = set.rules.emplace_back();
    rule.name = std::move(name);
    rule.rate = rate;
    rule.burst = burst;
    rule.by = {"user"};
    rule.scope = Scope::kShared;
    rule.on_store_failure = StoreFailurePolicy::kClosed;
    rule.lease.overshoot = overshoot;
    table_ = ValueOf(rules::Compile(set, {.remote_allowed = true}));
  }
  // The key of user `number`, twelve digits as redis-benchmark writes random ones.
  [[nodiscard]] std::string KeyOf(uint64_t number) const {
    std::array<char, 16> user{};
    (void)std::snprintf(user.data(), user.size(), "%012llu",
                        static_cast<unsigned long long>(number));
    rules::KeyBuilder key;
    key.Start(compiled().quota.identity, rules::kSharedKeySeed);
    key.Add(*compiled().by[0].dimension, user.data());
    return std::string(key.encoded());
  }
  // `key` must outlive the take.
  [[nodiscard]] engine::RemoteTake Take(std::string_view key) const {
    engine::RemoteTake take;
    take.rule = &compiled();
    take.key = key;
    take.config = compiled().quota.config;
    return take;
  }
  [[nodiscard]] const Rate& rate() const { return compiled().rule.rate; }
  [[nodiscard]] int64_t burst() const { return *compiled().rule.burst; }
  [[nodiscard]] int64_t overshoot() const { return compiled().rule.lease.overshoot; }

 private:
  [[nodiscard]] const rules::CompiledRule& compiled() const { return table_.rules.front(); }
  rules::RuleTable table_;
};

}  // namespace flowguard::bench
