// SPDX-License-Identifier: Apache-2.0
//
// What token servers answered this process's cluster rules, summed over the workers.
#pragma once

#include <utility>
#include <vector>

#include "observe/metrics_writer.h"
#include "quota/token/token_store.h"

namespace flowguard::app {

// Threads: Collect reads relaxed counters of running workers.
class ClusterMetrics final : public observe::MetricsSource {
 public:
  // At least one; all must outlive this.
  explicit ClusterMetrics(std::vector<const quota::token::TokenStore*> stores)
      : stores_(std::move(stores)) {}

  void Collect(observe::MetricsWriter& out) override;

 private:
  std::vector<const quota::token::TokenStore*> stores_;
};

}  // namespace flowguard::app
