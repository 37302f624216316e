// SPDX-License-Identifier: Apache-2.0
//
// Counters of the front doors, summed over the workers.
#pragma once

#include <string_view>
#include <vector>

#include "http/server.h"
#include "observe/metrics_writer.h"
#include "serve/gateway.h"
#include "serve/open_entries.h"

namespace flowguard::app {

// Threads: Collect reads relaxed counters of running workers.
class DoorMetrics final : public observe::MetricsSource {
 public:
  struct Door {
    std::string_view name;  // "gateway", "decisions"
    std::vector<const http::ServerCounters*> workers;
  };

  // All must outlive this.
  DoorMetrics(std::vector<Door> doors, std::vector<const serve::GatewayCounters*> gateways,
              const serve::OpenEntries* entries)
      : doors_(std::move(doors)), gateways_(std::move(gateways)), entries_(entries) {}

  void Collect(observe::MetricsWriter& out) override;

 private:
  void CollectDoors(observe::MetricsWriter& out) const;
  void CollectGateways(observe::MetricsWriter& out) const;
  void CollectEntries(observe::MetricsWriter& out) const;

  std::vector<Door> doors_;
  std::vector<const serve::GatewayCounters*> gateways_;
  const serve::OpenEntries* entries_;  // null: no decision API
};

}  // namespace flowguard::app
