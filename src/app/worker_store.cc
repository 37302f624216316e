// SPDX-License-Identifier: Apache-2.0
#include "app/worker_store.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "base/hash.h"
#include "base/try.h"
#include "quota/redis/client.h"

namespace flowguard::app {
namespace {

// Nodes of one group share limits; keys of cells are their own names in any case.
constexpr std::string_view kNodeGroup = "flowguard";
constexpr size_t kHostBytesMax = 20;

}  // namespace

std::string MakeNodeName() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::array<char, 17> number{};
  (void)std::snprintf(number.data(), number.size(), "%016llx",
                      static_cast<unsigned long long>(base::RandomSeed()));
  return std::string(host.data()).substr(0, kHostBytesMax) + "-" + number.data();
}

Result<std::unique_ptr<WorkerStore>> WorkerStore::Create(net::Loop& loop, engine::Engine& engine,
                                                         const StoreSettings& settings,
                                                         int worker) {
  std::unique_ptr<WorkerStore> made(new WorkerStore(loop));
  FG_ASSIGN_OR_RETURN(
      made->commander_,
      quota::redis::MakeCommander(loop, settings.redis, made->metrics_, base::RandomSeed()));
  made->cells_ = std::make_unique<quota::RedisCells>(*made->commander_);
  quota::SharedStoreOptions options;
  options.owner = settings.node_name + "-" + std::to_string(worker);
  options.deadline = settings.deadline;
  options.nodes = settings.nodes;
  options.seed = base::RandomSeed();
  if (worker == 0) {
    made->nodes_ = std::make_unique<quota::RedisNodes>(*made->commander_, kNodeGroup);
    options.node_register = made->nodes_.get();
    options.on_nodes = [&engine](int nodes) { engine.SetFallbackNodes(nodes); };
  }
  made->store_ =
      std::make_unique<quota::SharedStore>(std::move(options), made->store_loop_, *made->cells_);
  made->store_loop_.Drive(*made->store_);
  return made;
}

// What is out is not answered any more once the client is gone.
WorkerStore::~WorkerStore() {
  commander_ = nullptr;
}

}  // namespace flowguard::app
