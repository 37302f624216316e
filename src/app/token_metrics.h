// SPDX-License-Identifier: Apache-2.0
//
// What the token server decided, and how its connections fare, summed over the workers.
#pragma once

#include <utility>
#include <vector>

#include "observe/metrics_writer.h"
#include "serve/token_counters.h"
#include "serve/token_service.h"

namespace flowguard::app {

// Threads: Collect reads relaxed counters of running workers.
class TokenMetrics final : public observe::MetricsSource {
 public:
  // All must outlive this.
  TokenMetrics(const serve::TokenService& service,
               std::vector<const serve::TokenServerCounters*> workers)
      : service_(service), workers_(std::move(workers)) {}

  void Collect(observe::MetricsWriter& out) override;

 private:
  void CollectDecisions(observe::MetricsWriter& out) const;
  void CollectConnections(observe::MetricsWriter& out) const;
  void CollectFrames(observe::MetricsWriter& out) const;
  void CollectStore(observe::MetricsWriter& out) const;

  const serve::TokenService& service_;
  std::vector<const serve::TokenServerCounters*> workers_;
};

}  // namespace flowguard::app
