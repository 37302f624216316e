// SPDX-License-Identifier: Apache-2.0
//
// Metrics as text: the Prometheus format 0.0.4 and OpenMetrics 1.0.
//
//   MetricsWriter out(format, text);
//   out.Family("flowguard_requests", MetricType::kCounter, "Requests by rule and decision.");
//   out.Sample({{"rule", "per-client"}, {"decision", "allow"}}, uint64_t{7});
//   out.End();
//
// Whoever writes a family knows how many series it has: labels come from rules and
// fixed words, never from what a client sends.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace flowguard::observe {

enum class MetricsFormat : uint8_t { kPrometheus, kOpenMetrics };

// What the reader prefers by its Accept field (empty: none was sent).  OpenMetrics
// only when it is named.
[[nodiscard]] MetricsFormat FormatFor(std::string_view accept) noexcept;
[[nodiscard]] std::string_view ContentTypeOf(MetricsFormat format) noexcept;

enum class MetricType : uint8_t { kCounter, kGauge, kSummary };

struct Label {
  std::string_view name;
  std::string_view value;  // any bytes; escaped here
};

// Threads: one owner.
class MetricsWriter {
 public:
  // `out` must outlive the writer.
  MetricsWriter(MetricsFormat format, std::string& out) noexcept : format_(format), out_(out) {}

  // Begins a family; its samples follow.  The name of a counter comes without
  // "_total".  Requires: every family once.
  void Family(std::string_view name, MetricType type, std::string_view help);

  void Sample(std::span<const Label> labels, uint64_t value);
  void Sample(std::span<const Label> labels, int64_t value);
  void Sample(std::initializer_list<Label> labels, uint64_t value) {
    Sample(std::span<const Label>(labels.begin(), labels.size()), value);
  }
  void Sample(std::initializer_list<Label> labels, int64_t value) {
    Sample(std::span<const Label>(labels.begin(), labels.size()), value);
  }
  // A time, written in seconds.
  void SampleSeconds(std::span<const Label> labels, uint64_t nanoseconds);
  // A summary without quantiles: how often, and how long together.
  void SampleSummary(std::span<const Label> labels, uint64_t count, uint64_t sum_nanoseconds);

  // Ends the text.
  void End();

 private:
  void Name(std::string_view suffix, std::span<const Label> labels);
  void Seconds(uint64_t nanoseconds);

  MetricsFormat format_;
  std::string& out_;
  std::string name_;
  MetricType type_ = MetricType::kGauge;
};

// Something that has metrics to tell.
// Threads: Collect is called on the thread that serves the scrape.
class MetricsSource {
 public:
  virtual ~MetricsSource() = default;
  // Writes whole families.
  virtual void Collect(MetricsWriter& out) = 0;
};

}  // namespace flowguard::observe
