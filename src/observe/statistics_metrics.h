// SPDX-License-Identifier: Apache-2.0
//
// Statistics and the readings of the system as metrics: of the whole process, and no series
// for a resource or a caller, whose number and names requests choose.
#pragma once

#include "flowguard/clock.h"

#include "engine/engine.h"
#include "observe/metrics_writer.h"

namespace flowguard::observe {

class StatisticsMetrics final : public MetricsSource {
 public:
  // Both must outlive this.
  StatisticsMetrics(const engine::Engine& engine, const Clock& clock)
      : engine_(engine), clock_(clock) {}

  void Collect(MetricsWriter& out) override;

 private:
  const engine::Engine& engine_;
  const Clock& clock_;
};

// The families of a given report.
void WriteStatisticsMetrics(const engine::StatisticsReport& report, MetricsWriter& out);

}  // namespace flowguard::observe
