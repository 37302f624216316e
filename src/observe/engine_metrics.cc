// SPDX-License-Identifier: Apache-2.0
#include "observe/engine_metrics.h"

#include <array>

namespace flowguard::observe {
namespace {

using engine::RuleCounters;

// Why a rule of this kind refuses.
std::string_view ReasonOf(const RuleCounters& rule) noexcept {
  if (rule.rule == kOtherRules) return "any";
  switch (rule.kind) {
    case RuleKind::kConcurrency:
      return "concurrency";
    case RuleKind::kAccess:
      return "access";
    case RuleKind::kBreaker:
      return "breaker";
    case RuleKind::kSystem:
      return "system";
    case RuleKind::kLimit:
      break;
  }
  return "limit";
}

void WriteRequests(std::span<const RuleCounters> shown, MetricsWriter& out) {
  out.Family("flowguard_rule_requests", MetricType::kCounter,
             "Requests that a rule decided, by decision and the reason of a refusal.");
  for (const RuleCounters& rule : shown) {
    const std::string_view reason = ReasonOf(rule);
    out.Sample({{"rule", rule.rule}, {"decision", "allow"}, {"reason", "none"}}, rule.passed);
    out.Sample({{"rule", rule.rule}, {"decision", "refuse"}, {"reason", reason}}, rule.refused);
    out.Sample({{"rule", rule.rule}, {"decision", "shadow_refuse"}, {"reason", reason}},
               rule.shadow_refused);
  }
}

}  // namespace

void EngineMetrics::Collect(MetricsWriter& out) {
  const engine::EngineCounters counters = engine_.Counters();
  WriteEngineMetrics(counters, out);
  WriteRuleMetrics(series_.Select(counters.rules, clock_.Now()), out);
  out.Family("flowguard_series_dropped", MetricType::kCounter,
             "Rules that are summed up under rule=\"__other__\".");
  out.Sample(std::span<const Label>(), uint64_t{series_.dropped()});
}

void WriteRuleMetrics(std::span<const RuleCounters> shown, MetricsWriter& out) {
  WriteRequests(shown, out);
  out.Family("flowguard_rule_degraded", MetricType::kCounter,
             "Requests over a degrade rule's limit that got the cheaper answer.");
  for (const RuleCounters& rule : shown)
    out.Sample({{"rule", rule.rule}}, rule.degraded);
  out.Family("flowguard_queue_wait_seconds", MetricType::kSummary,
             "Waits that rules handed out before a request may go.");
  for (const RuleCounters& rule : shown) {
    const std::array<Label, 1> labels = {Label{"rule", rule.rule}};
    out.SampleSummary(labels, rule.waited, rule.wait_ns);
  }
  out.Family("flowguard_failed_after_admission", MetricType::kCounter,
             "Calls that a rule let through and that failed afterwards.");
  for (const RuleCounters& rule : shown)
    out.Sample({{"rule", rule.rule}}, rule.failed_after);
  out.Family("flowguard_inflight", MetricType::kGauge,
             "Calls in progress under a concurrency rule.");
  for (const RuleCounters& rule : shown) {
    if (rule.kind == RuleKind::kConcurrency) out.Sample({{"rule", rule.rule}}, rule.inflight);
  }
  out.Family("flowguard_breaker_opened", MetricType::kCounter,
             "How often a breaker of a rule opened.");
  for (const RuleCounters& rule : shown) {
    if (rule.kind == RuleKind::kBreaker || rule.breaker_opened > 0)
      out.Sample({{"rule", rule.rule}}, rule.breaker_opened);
  }
  out.Family("flowguard_breakers", MetricType::kGauge,
             "Breakers of a rule that are open (refuse) or half-open (probe).");
  for (const RuleCounters& rule : shown) {
    if (rule.kind != RuleKind::kBreaker || rule.rule == kOtherRules) continue;
    out.Sample({{"rule", rule.rule}, {"state", "open"}}, uint64_t{rule.breakers_open});
    out.Sample({{"rule", rule.rule}, {"state", "half_open"}}, uint64_t{rule.breakers_half_open});
  }
}

void WriteEngineMetrics(const engine::EngineCounters& counters, MetricsWriter& out) {
  const auto counter = [&](std::string_view name, std::string_view help, uint64_t value) {
    out.Family(name, MetricType::kCounter, help);
    out.Sample(std::span<const Label>(), value);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, uint64_t value) {
    out.Family(name, MetricType::kGauge, help);
    out.Sample(std::span<const Label>(), value);
  };
  counter("flowguard_decisions", "Requests that were decided.", counters.decisions);
  counter("flowguard_unmatched", "Requests that no rule matched.", counters.unmatched);
  counter("flowguard_clock_backward", "Decisions whose time lay before an earlier one's.",
          counters.clock_backward);
  gauge("flowguard_rules_generation", "Generation of the rule set in force.", counters.generation);
  gauge("flowguard_cells", "Cells in use (approximate).", uint64_t{counters.cells});
  gauge("flowguard_cells_capacity", "Live cells that are never forgotten.",
        uint64_t{counters.cells_capacity});
  gauge("flowguard_cells_bytes", "Memory of the cell table.", uint64_t{counters.cells_bytes});
  counter("flowguard_cell_evictions", "Cells given up because the table was full.",
          counters.cell_evictions);
  gauge("flowguard_state_bytes", "Memory of states larger than a word.",
        uint64_t{counters.state_bytes});
  counter("flowguard_state_evictions", "Larger states given up because their room was full.",
          counters.state_evictions);
}

}  // namespace flowguard::observe
