// SPDX-License-Identifier: Apache-2.0
#include "quota/redis_store.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "base/hash.h"
#include "base/try.h"
#include "quota/redis/client.h"

namespace flowguard::quota {
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

Result<std::unique_ptr<RedisStore>> RedisStore::Create(net::Loop& loop, RedisStoreOptions options) {
  std::unique_ptr<RedisStore> made(new RedisStore(loop));
  FG_ASSIGN_OR_RETURN(made->commander_, redis::MakeCommander(loop, options.redis, made->metrics_,
                                                             base::RandomSeed()));
  made->cells_ = std::make_unique<RedisCells>(*made->commander_);
  SharedStoreOptions with;
  with.owner = std::move(options.owner);
  with.deadline = options.deadline;
  with.nodes = options.nodes;
  with.seed = base::RandomSeed();
  if (options.on_nodes) {
    made->nodes_ = std::make_unique<RedisNodes>(*made->commander_, kNodeGroup);
    with.node_register = made->nodes_.get();
    with.on_nodes = std::move(options.on_nodes);
  }
  made->store_ = std::make_unique<SharedStore>(std::move(with), made->store_loop_, *made->cells_);
  made->store_loop_.Drive(*made->store_);
  return made;
}

// What is out is not answered any more once the client is gone.
RedisStore::~RedisStore() {
  commander_ = nullptr;
}

}  // namespace flowguard::quota
