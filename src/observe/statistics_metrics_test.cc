// SPDX-License-Identifier: Apache-2.0
#include "observe/statistics_metrics.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::observe {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Written(const engine::StatisticsReport& report) {
  std::string text;
  MetricsWriter out(MetricsFormat::kPrometheus, text);
  WriteStatisticsMetrics(report, out);
  return text;
}

engine::StatisticsReport Busy() {
  engine::StatisticsReport report;
  report.resources_counted = true;
  report.entrance.inflight = 4;
  report.entrance.minute.passed = 100;
  report.entrance.minute.blocked = 7;
  report.entrance.minute.succeeded = 90;
  report.entrance.minute.failed = 2;
  report.entrance.minute.rt_sum = 90 * 25ms;
  report.table.stats = 12;
  report.table.forgotten = 3;
  report.table.others = 1;
  report.system = {.cpu = 0.42, .load = 1.5};
  engine::Traffic& one = report.resources.emplace_back();
  one.resource = "order:create";
  return report;
}

TEST(StatisticsMetricsTest, TheEntranceIsToldByWhatCameOfRequests) {
  const std::string text = Written(Busy());
  EXPECT_THAT(text, HasSubstr("flowguard_inbound_last_minute{event=\"passed\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_inbound_last_minute{event=\"blocked\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_inbound_last_minute{event=\"succeeded\"} 90\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_inbound_last_minute{event=\"failed\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_inbound_inflight 4\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_inbound_rt_seconds 0.025000000\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_statistics_entries 12\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_statistics_forgotten_total 3\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_statistics_others_total 1\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_system_cpu 0.420000000\n"));
  EXPECT_THAT(text, HasSubstr("flowguard_system_load 1.500000000\n"));
}

// Fault ruled out: names that requests choose become series.
TEST(StatisticsMetricsTest, NoResourceHasASeries) {
  EXPECT_THAT(Written(Busy()), Not(HasSubstr("order:create")));
}

TEST(StatisticsMetricsTest, WhatIsNotKnownHasNoSample) {
  EXPECT_EQ(Written({}), "");
}

}  // namespace
}  // namespace flowguard::observe
