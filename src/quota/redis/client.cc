// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/client.h"

#include <utility>

#include "base/try.h"
#include "quota/redis/cluster_client.h"
#include "quota/redis/sentinel_client.h"
#include "quota/redis/single_client.h"

namespace flowguard::quota::redis {

Result<std::unique_ptr<Commander>> MakeCommander(net::Loop& loop, const Options& options,
                                                 Metrics& metrics, uint64_t seed) {
  FG_ASSIGN_OR_RETURN(std::unique_ptr<ClientParts> parts,
                      ClientParts::Create(loop, options, metrics, seed));
  std::unique_ptr<Commander> client;
  switch (options.topology) {
    case Topology::kSingle:
      client = std::make_unique<SingleClient>(std::move(parts));
      break;
    case Topology::kSentinel:
      client = std::make_unique<SentinelClient>(std::move(parts));
      break;
    case Topology::kCluster:
      client = std::make_unique<ClusterClient>(std::move(parts));
      break;
  }
  return client;
}

}  // namespace flowguard::quota::redis
