// SPDX-License-Identifier: Apache-2.0
#include "observe/metrics_writer.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::observe {
namespace {

std::string Written(MetricsFormat format) {
  std::string text;
  MetricsWriter out(format, text);
  out.Family("flowguard_requests", MetricType::kCounter, "Requests.");
  out.Sample({{"rule", "a"}, {"decision", "allow"}}, uint64_t{7});
  out.Family("flowguard_inflight", MetricType::kGauge, "Calls.");
  out.Sample({{"rule", "a"}}, int64_t{-1});
  out.Family("flowguard_queue_wait_seconds", MetricType::kSummary, "Waits.");
  const std::array<Label, 1> labels = {Label{"rule", "a"}};
  out.SampleSummary(labels, 2, 1'500'000'001);
  out.End();
  return text;
}

TEST(MetricsWriterTest, PrometheusTextLiterally) {
  EXPECT_EQ(Written(MetricsFormat::kPrometheus),
            "# HELP flowguard_requests_total Requests.\n"
            "# TYPE flowguard_requests_total counter\n"
            "flowguard_requests_total{rule=\"a\",decision=\"allow\"} 7\n"
            "# HELP flowguard_inflight Calls.\n"
            "# TYPE flowguard_inflight gauge\n"
            "flowguard_inflight{rule=\"a\"} -1\n"
            "# HELP flowguard_queue_wait_seconds Waits.\n"
            "# TYPE flowguard_queue_wait_seconds summary\n"
            "flowguard_queue_wait_seconds_sum{rule=\"a\"} 1.500000001\n"
            "flowguard_queue_wait_seconds_count{rule=\"a\"} 2\n");
}

TEST(MetricsWriterTest, OpenMetricsNamesTheCounterWithoutTotalAndEndsWithEof) {
  EXPECT_EQ(Written(MetricsFormat::kOpenMetrics),
            "# HELP flowguard_requests Requests.\n"
            "# TYPE flowguard_requests counter\n"
            "flowguard_requests_total{rule=\"a\",decision=\"allow\"} 7\n"
            "# HELP flowguard_inflight Calls.\n"
            "# TYPE flowguard_inflight gauge\n"
            "flowguard_inflight{rule=\"a\"} -1\n"
            "# HELP flowguard_queue_wait_seconds Waits.\n"
            "# TYPE flowguard_queue_wait_seconds summary\n"
            "flowguard_queue_wait_seconds_sum{rule=\"a\"} 1.500000001\n"
            "flowguard_queue_wait_seconds_count{rule=\"a\"} 2\n"
            "# EOF\n");
}

TEST(MetricsWriterTest, ALabelValueCannotBreakOutOfItsQuotes) {
  std::string text;
  MetricsWriter out(MetricsFormat::kPrometheus, text);
  out.Family("x", MetricType::kGauge, "a\\b\nc");
  out.Sample({{"rule", "a\"} 1\nevil \\"}}, uint64_t{1});

  EXPECT_EQ(text,
            "# HELP x a\\\\b\\nc\n"
            "# TYPE x gauge\n"
            "x{rule=\"a\\\"} 1\\nevil \\\\\"} 1\n");
}

TEST(MetricsWriterTest, OpenMetricsOnlyForThoseWhoAskForIt) {
  EXPECT_EQ(FormatFor(""), MetricsFormat::kPrometheus);
  EXPECT_EQ(FormatFor("*/*"), MetricsFormat::kPrometheus);
  EXPECT_EQ(FormatFor("text/plain;version=0.0.4"), MetricsFormat::kPrometheus);
  EXPECT_EQ(FormatFor("application/openmetrics-text"), MetricsFormat::kOpenMetrics);
  EXPECT_EQ(FormatFor("application/openmetrics-text;version=1.0.0;q=0.5,"
                      "application/openmetrics-text;version=0.0.1;q=0.4,"
                      "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"),
            MetricsFormat::kOpenMetrics);
  EXPECT_EQ(FormatFor("text/plain, application/openmetrics-text;q=0.4"),
            MetricsFormat::kPrometheus);
  EXPECT_EQ(FormatFor("application/openmetrics-text;q=0"), MetricsFormat::kPrometheus);
  EXPECT_EQ(FormatFor("application/openmetrics-text; version=2.0.0"), MetricsFormat::kPrometheus);
}

TEST(MetricsWriterTest, ContentTypesLiterally) {
  EXPECT_EQ(ContentTypeOf(MetricsFormat::kPrometheus), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(ContentTypeOf(MetricsFormat::kOpenMetrics),
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

}  // namespace
}  // namespace flowguard::observe
