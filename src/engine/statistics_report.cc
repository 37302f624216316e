// SPDX-License-Identifier: Apache-2.0
#include "engine/statistics_report.h"

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/engine_impl.h"

namespace flowguard::engine {
namespace {

constexpr size_t kSecondView = 0;
constexpr size_t kMinuteView = 1;

Traffic TrafficOf(const stats::ResourceStats& stats, Instant now) {
  Traffic traffic;
  traffic.resource = stats.Resource();
  traffic.origin = stats.Origin();
  traffic.inflight = stats.InProgress();
  traffic.second = stats.Counted().Window(kSecondView, now);
  traffic.minute = stats.Counted().Window(kMinuteView, now);
  if (stats.Latency() != nullptr) {
    const stats::LatencySketch times = stats.Latency()->Window(now);
    traffic.rt_p50 = times.Quantile(0.5);
    traffic.rt_p90 = times.Quantile(0.9);
    traffic.rt_p99 = times.Quantile(0.99);
  }
  return traffic;
}

// How much came in the last minute: what the busiest are chosen by.
struct Candidate {
  stats::StatsRef stats;
  int64_t requests = 0;
};

bool IsBusier(const Candidate& a, const Candidate& b) {
  if (a.requests != b.requests) return a.requests > b.requests;
  if (a.stats->Resource() != b.stats->Resource()) return a.stats->Resource() < b.stats->Resource();
  return a.stats->Origin() < b.stats->Origin();
}

std::vector<Candidate> CandidatesFor(const stats::StatsTable& table, const StatisticsQuery& query,
                                     Instant now) {
  std::vector<Candidate> candidates;
  for (stats::StatsRef& stats : table.All()) {
    const bool asked =
        query.resource.empty() ? stats->Origin().empty() : stats->Resource() == query.resource;
    if (!asked) continue;
    const stats::Counts minute = stats->Counted().Window(kMinuteView, now);
    candidates.push_back({std::move(stats), minute.passed + minute.blocked});
  }
  std::sort(candidates.begin(), candidates.end(), IsBusier);
  return candidates;
}

}  // namespace

StatisticsReport Engine::ReportStatistics(const StatisticsQuery& query, Instant now) const {
  const Statistics& statistics = *impl_->statistics;
  StatisticsReport report;
  report.entrance = TrafficOf(statistics.entrance(), now);
  report.system = impl_->gate.Reading();
  const stats::StatsTable* const table = statistics.table();
  if (table == nullptr) return report;
  report.resources_counted = true;
  report.table = table->Counted();
  if (report.table.others > 0) report.others = TrafficOf(table->Others(), now);
  if (query.most == 0) return report;
  const std::vector<Candidate> candidates = CandidatesFor(*table, query, now);
  const size_t told = std::min(candidates.size(), query.most);
  report.resources.reserve(told);
  for (size_t i = 0; i < told; ++i)
    report.resources.push_back(TrafficOf(*candidates[i].stats, now));
  report.left_out = candidates.size() - told;
  return report;
}

}  // namespace flowguard::engine
