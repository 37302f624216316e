// SPDX-License-Identifier: Apache-2.0
//
// A store of shared rules with its Redis client, on one loop.
//
//   gateway, decision API, ThreadedStore ─► SharedStore ─► RedisCells ─► Commander ─► Redis
//                                               └─► RedisNodes
//
// Life: Create, Open, Close when nobody asks any more, gone when quiet.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "net/loop.h"
#include "quota/net_store_loop.h"
#include "quota/redis/commander.h"
#include "quota/redis/metrics.h"
#include "quota/redis/options.h"
#include "quota/redis_cells.h"
#include "quota/redis_nodes.h"
#include "quota/shared_store.h"

namespace flowguard::quota {

struct RedisStoreOptions {
  redis::Options redis;
  std::string owner;  // distinct among all stores; at most kOwnerNameBytesMax
  Duration deadline = std::chrono::milliseconds(20);  // of calls that no request waits for
  int nodes = 0;  // that share the limits until the store has counted them; 0: not known
  // Told of each new count, on the loop's thread; null: this store counts no nodes, for
  // another one of the process does.
  std::function<void(int nodes)> on_nodes;
};

// A name for this process that no other has: host, and a random number.
[[nodiscard]] std::string MakeNodeName();

// Threads: the loop's, save metrics() and status(), which any may read.
class RedisStore {
 public:
  // Begins to connect when the loop turns.  `loop` must outlive this.
  // Errors: files of TLS that cannot be used.
  static Result<std::unique_ptr<RedisStore>> Create(net::Loop& loop, RedisStoreOptions options);
  ~RedisStore();
  RedisStore(const RedisStore&) = delete;
  RedisStore& operator=(const RedisStore&) = delete;

  [[nodiscard]] engine::QuotaStore& store() noexcept { return *store_; }

  // Begins to count nodes.
  void Open() noexcept { store_->Open(); }
  // Returns what was taken ahead.  Takes fail from here on.
  void Close() noexcept { store_->Close(); }
  [[nodiscard]] bool quiet() const noexcept { return store_->quiet(); }

  [[nodiscard]] const redis::Metrics& metrics() const noexcept { return metrics_; }
  [[nodiscard]] StoreStatus status() const noexcept { return store_->status(); }

 private:
  explicit RedisStore(net::Loop& loop) noexcept : store_loop_(loop) {}

  redis::Metrics metrics_;
  NetStoreLoop store_loop_;
  std::unique_ptr<redis::Commander> commander_;
  std::unique_ptr<RedisCells> cells_;
  std::unique_ptr<RedisNodes> nodes_;
  std::unique_ptr<SharedStore> store_;
};

}  // namespace flowguard::quota
