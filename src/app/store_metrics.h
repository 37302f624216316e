// SPDX-License-Identifier: Apache-2.0
//
// Counters of the shared limits' store, summed over the workers.
#pragma once

#include <vector>

#include "observe/metrics_writer.h"
#include "quota/redis_store.h"

namespace flowguard::app {

// Threads: Collect reads relaxed counters of running workers.
class StoreMetrics final : public observe::MetricsSource {
 public:
  // All must outlive this.
  explicit StoreMetrics(std::vector<const quota::RedisStore*> stores)
      : stores_(std::move(stores)) {}

  void Collect(observe::MetricsWriter& out) override;

 private:
  void CollectTakes(observe::MetricsWriter& out) const;
  void CollectRedis(observe::MetricsWriter& out) const;

  std::vector<const quota::RedisStore*> stores_;
};

}  // namespace flowguard::app
