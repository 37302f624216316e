// SPDX-License-Identifier: Apache-2.0
#include "observe/statistics_metrics.h"

#include <cstdint>
#include <optional>
#include <span>

namespace flowguard::observe {
namespace {

constexpr std::span<const Label> kNoLabels;

// A part of one, or a load: the writer of seconds keeps nine places.
void WriteReading(std::string_view name, std::string_view help, const std::optional<double>& value,
                  MetricsWriter& out) {
  if (!value.has_value()) return;
  constexpr double kPlaces = 1e9;
  out.Family(name, MetricType::kGauge, help);
  out.SampleSeconds(kNoLabels, static_cast<uint64_t>(*value * kPlaces));
}

}  // namespace

void StatisticsMetrics::Collect(MetricsWriter& out) {
  WriteStatisticsMetrics(engine_.ReportStatistics({.resource = {}, .most = 0}, clock_.Now()), out);
}

void WriteStatisticsMetrics(const engine::StatisticsReport& report, MetricsWriter& out) {
  WriteReading("flowguard_system_cpu", "Busy part of the processors that the process may use.",
               report.system.cpu, out);
  WriteReading("flowguard_system_load", "Load average of the machine over a minute.",
               report.system.load, out);
  if (!report.resources_counted) return;
  const stats::Counts& minute = report.entrance.minute;
  out.Family("flowguard_inbound_last_minute", MetricType::kGauge,
             "Requests of the last minute, by what came of them.");
  out.Sample({{"event", "passed"}}, minute.passed);
  out.Sample({{"event", "blocked"}}, minute.blocked);
  out.Sample({{"event", "succeeded"}}, minute.succeeded);
  out.Sample({{"event", "failed"}}, minute.failed);
  out.Family("flowguard_inbound_inflight", MetricType::kGauge, "Calls in progress.");
  out.Sample(kNoLabels, report.entrance.inflight);
  if (const std::optional<Duration> mean = minute.AverageRt(); mean.has_value()) {
    out.Family("flowguard_inbound_rt_seconds", MetricType::kGauge,
               "Mean response time of the calls that ended in the last minute.");
    out.SampleSeconds(kNoLabels, static_cast<uint64_t>(mean->count()));
  }
  out.Family("flowguard_statistics_entries", MetricType::kGauge,
             "Resources and callers that are counted apart.");
  out.Sample(kNoLabels, uint64_t{report.table.stats});
  out.Family("flowguard_statistics_forgotten", MetricType::kCounter,
             "Resources and callers that were forgotten to make room for others.");
  out.Sample(kNoLabels, report.table.forgotten);
  out.Family("flowguard_statistics_others", MetricType::kCounter,
             "Look-ups that found no room, and were counted together.");
  out.Sample(kNoLabels, report.table.others);
}

}  // namespace flowguard::observe
