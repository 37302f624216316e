// SPDX-License-Identifier: Apache-2.0
//
// The store of one worker's shared rules: a Redis client on the worker's loop, and what
// turns takes into calls on it.
//
//   gateway, decision API ─► SharedStore ─► RedisCells ─► Commander ─► Redis
//                                 └─► RedisNodes (the first worker's counts the nodes)
//
// Life: Create, Open, Close when the doors are drained, gone when quiet.
#pragma once

#include <memory>
#include <string>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "engine/engine.h"
#include "net/loop.h"
#include "quota/net_store_loop.h"
#include "quota/redis/commander.h"
#include "quota/redis/metrics.h"
#include "quota/redis/options.h"
#include "quota/redis_cells.h"
#include "quota/redis_nodes.h"
#include "quota/shared_store.h"

namespace flowguard::app {

struct StoreSettings {
  quota::redis::Options redis;
  Duration deadline = std::chrono::milliseconds(20);
  int nodes = 0;          // until the store has counted them; 0: not known
  std::string node_name;  // of this process, distinct from all others
};

// A name for this process that no other has: host, and a random number.
[[nodiscard]] std::string MakeNodeName();

// Threads: the loop's, save metrics() and status(), which any may read.
class WorkerStore {
 public:
  // Begins to connect when the loop turns.  `loop` and `engine` must outlive this.
  // Errors: files of TLS that cannot be used.
  static Result<std::unique_ptr<WorkerStore>> Create(net::Loop& loop, engine::Engine& engine,
                                                     const StoreSettings& settings, int worker);
  ~WorkerStore();
  WorkerStore(const WorkerStore&) = delete;
  WorkerStore& operator=(const WorkerStore&) = delete;

  [[nodiscard]] engine::QuotaStore& store() noexcept { return *store_; }

  // Begins to count nodes.
  void Open() noexcept { store_->Open(); }
  // Returns what was taken ahead.  Takes fail from here on.
  void Close() noexcept { store_->Close(); }
  [[nodiscard]] bool quiet() const noexcept { return store_->quiet(); }

  [[nodiscard]] const quota::redis::Metrics& metrics() const noexcept { return metrics_; }
  [[nodiscard]] quota::StoreStatus status() const noexcept { return store_->status(); }

 private:
  explicit WorkerStore(net::Loop& loop) noexcept : store_loop_(loop) {}

  quota::redis::Metrics metrics_;
  quota::NetStoreLoop store_loop_;
  std::unique_ptr<quota::redis::Commander> commander_;
  std::unique_ptr<quota::RedisCells> cells_;
  std::unique_ptr<quota::RedisNodes> nodes_;
  std::unique_ptr<quota::SharedStore> store_;
};

}  // namespace flowguard::app
