// SPDX-License-Identifier: Apache-2.0
//
// The engine's counters as metrics.  Per rule: what passed and was refused and why,
// waits, calls in progress, failures after admission; of the whole: decisions,
// cells.
#pragma once

#include "flowguard/clock.h"

#include "observe/metrics_writer.h"
#include "observe/rule_series.h"

namespace flowguard::observe {

// Rules with series of their own in one scrape.
inline constexpr size_t kRuleSeriesMax = 500;

class EngineMetrics final : public MetricsSource {
 public:
  // Both must outlive this.
  EngineMetrics(const engine::Engine& engine, const Clock& clock,
                size_t series_max = kRuleSeriesMax)
      : engine_(engine), clock_(clock), series_(series_max) {}

  void Collect(MetricsWriter& out) override;

 private:
  const engine::Engine& engine_;
  const Clock& clock_;
  RuleSeries series_;
};

// The families of given counters; `shown` are the rules with series.
void WriteRuleMetrics(std::span<const engine::RuleCounters> shown, MetricsWriter& out);
void WriteEngineMetrics(const engine::EngineCounters& counters, MetricsWriter& out);

}  // namespace flowguard::observe
