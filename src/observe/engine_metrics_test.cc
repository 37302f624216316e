// SPDX-License-Identifier: Apache-2.0
#include "observe/engine_metrics.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/process_metrics.h"

namespace flowguard::observe {
namespace {

using engine::RuleCounters;
using ::testing::HasSubstr;
using ::testing::Not;

RuleCounters PerClient() {
  RuleCounters rule;
  rule.rule = "per-client";
  rule.loaded = true;
  rule.passed = 101;
  rule.refused = 7;
  rule.shadow_refused = 3;
  rule.degraded = 2;
  rule.waited = 4;
  rule.wait_ns = 250'000'000;
  rule.failed_after = 5;
  return rule;
}

RuleCounters StockDb() {
  RuleCounters rule;
  rule.rule = "stock-db";
  rule.kind = RuleKind::kConcurrency;
  rule.loaded = true;
  rule.refused = 9;
  rule.inflight = 12;
  return rule;
}

std::string Rules(std::vector<RuleCounters> shown,
                  MetricsFormat format = MetricsFormat::kPrometheus) {
  std::string text;
  MetricsWriter out(format, text);
  WriteRuleMetrics(shown, out);
  return text;
}

TEST(EngineMetricsTest, ARuleTellsWhatPassedAndWasRefusedAndWhy) {
  const std::string text = Rules({PerClient(), StockDb()});

  EXPECT_THAT(text, HasSubstr("flowguard_rule_requests_total{rule=\"per-client\","
                              "decision=\"allow\",reason=\"none\"} 101\n"));
  EXPECT_THAT(text, HasSubstr("{rule=\"per-client\",decision=\"refuse\",reason=\"limit\"} 7\n"));
  EXPECT_THAT(text,
              HasSubstr("{rule=\"per-client\",decision=\"shadow_refuse\",reason=\"limit\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("{rule=\"stock-db\",decision=\"refuse\",reason=\"concurrency\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_rule_degraded_total{rule=\"per-client\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("flowguard_queue_wait_seconds_sum{rule=\"per-client\"} 0.250000000\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_queue_wait_seconds_count{rule=\"per-client\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_failed_after_admission_total{rule=\"per-client\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_inflight{rule=\"stock-db\"} 12\n"));
}

TEST(EngineMetricsTest, OnlyConcurrencyRulesHaveCallsInProgress) {
  EXPECT_THAT(Rules({PerClient()}), Not(HasSubstr("flowguard_inflight{rule=\"per-client\"}")));
}

TEST(EngineMetricsTest, TheEngineTellsItsRulesAndCells) {
  engine::EngineCounters counters;
  counters.decisions = 1'000;
  counters.generation = 3;
  counters.cells = 17;
  counters.cell_evictions = 4;
  std::string text;
  MetricsWriter out(MetricsFormat::kPrometheus, text);

  WriteEngineMetrics(counters, out);

  EXPECT_THAT(text, HasSubstr("\nflowguard_decisions_total 1000\n"));
  EXPECT_THAT(text, HasSubstr("\nflowguard_rules_generation 3\n"));
  EXPECT_THAT(text, HasSubstr("\nflowguard_cells 17\n"));
  EXPECT_THAT(text, HasSubstr("\nflowguard_cell_evictions_total 4\n"));
}

TEST(EngineMetricsTest, TheProcessTellsItsBuildMemoryAndDescriptors) {
  std::string text;
  MetricsWriter out(MetricsFormat::kPrometheus, text);

  ProcessMetrics("1.2.3").Collect(out);

  EXPECT_THAT(text, HasSubstr("flowguard_build_info{version=\"1.2.3\",compiler=\""));
  EXPECT_THAT(text, HasSubstr("\nprocess_resident_memory_bytes "));
  EXPECT_THAT(text, HasSubstr("\nprocess_open_fds "));
  EXPECT_THAT(text, HasSubstr("\nprocess_start_time_seconds "));
  EXPECT_THAT(text, Not(HasSubstr("process_resident_memory_bytes 0\n")));
}

}  // namespace
}  // namespace flowguard::observe
