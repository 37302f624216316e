// SPDX-License-Identifier: Apache-2.0
//
// The judge of names, types and form is Prometheus' own linter.  The build makes this
// test where promtool is installed (Debian package prometheus), which CI must have.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "observe/engine_metrics.h"
#include "observe/process_metrics.h"
#include "observe/statistics_metrics.h"

namespace flowguard::observe {
namespace {

TEST(PromtoolTest, FindsNothingToSay) {
  std::vector<engine::RuleCounters> rules(2);
  rules[0].rule = "per-client \"quoted\"";
  rules[0].waited = 3;
  rules[0].wait_ns = 1'500'000'000;
  rules[1].rule = "stock-db";
  rules[1].kind = RuleKind::kConcurrency;
  std::string text;
  MetricsWriter out(MetricsFormat::kPrometheus, text);
  WriteEngineMetrics({}, out);
  WriteRuleMetrics(rules, out);
  engine::StatisticsReport statistics;
  statistics.resources_counted = true;
  statistics.entrance.minute.succeeded = 1;
  statistics.system = {.cpu = 0.5, .load = 2};
  WriteStatisticsMetrics(statistics, out);
  ProcessMetrics("1.2.3").Collect(out);
  const std::string path = ::testing::TempDir() + "/flowguard_promtool_test.txt";
  std::ofstream(path) << text;

  const int status = std::system(("promtool check metrics <" + path).c_str());

  EXPECT_EQ(status, 0) << text;
  std::remove(path.c_str());
}

}  // namespace
}  // namespace flowguard::observe
