// SPDX-License-Identifier: Apache-2.0
#include "observe/metrics_writer.h"

#include <charconv>
#include <cstdlib>
#include <iterator>

namespace flowguard::observe {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

template <typename T>
void AppendNumber(T value, std::string& out) {
  char digits[24];
  out.append(std::begin(digits), std::to_chars(std::begin(digits), std::end(digits), value).ptr);
}

void AppendEscaped(std::string_view text, bool quotes, std::string& out) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

std::string_view TypeWord(MetricType type) noexcept {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kSummary:
      return "summary";
    case MetricType::kGauge:
      break;
  }
  return "gauge";
}

std::string_view Trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

// Cuts the part before `separator` off the front of `rest`.
std::string_view NextPart(std::string_view& rest, char separator) noexcept {
  const size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return Trim(part);
}

// "0.5" in thousandths; 1000 for anything that is no number.
int Quality(std::string_view text) noexcept {
  if (text.starts_with("1")) return 1000;
  if (!text.starts_with("0")) return 1000;
  int value = 0;
  int scale = 100;
  for (size_t i = 2; i < text.size() && scale > 0; ++i, scale /= 10) {
    if (text[i] < '0' || text[i] > '9') break;
    value += (text[i] - '0') * scale;
  }
  return value;
}

struct MediaRange {
  std::string_view type;
  std::string_view version;
  int quality = 1000;
};

MediaRange ParseRange(std::string_view text) noexcept {
  MediaRange range;
  range.type = NextPart(text, ';');
  while (!text.empty()) {
    const std::string_view parameter = NextPart(text, ';');
    if (parameter.starts_with("q=")) range.quality = Quality(parameter.substr(2));
    if (parameter.starts_with("version=")) range.version = parameter.substr(8);
  }
  return range;
}

}  // namespace

MetricsFormat FormatFor(std::string_view accept) noexcept {
  int open_metrics = 0;
  int text = 0;
  while (!accept.empty()) {
    const MediaRange range = ParseRange(NextPart(accept, ','));
    if (range.type == "application/openmetrics-text") {
      const bool known =
          range.version.empty() || range.version == "1.0.0" || range.version == "0.0.1";
      if (known && range.quality > open_metrics) open_metrics = range.quality;
    } else if (range.type == "text/plain" || range.type == "text/*" || range.type == "*/*") {
      if (range.quality > text) text = range.quality;
    }
  }
  return open_metrics > 0 && open_metrics >= text ? MetricsFormat::kOpenMetrics
                                                  : MetricsFormat::kPrometheus;
}

std::string_view ContentTypeOf(MetricsFormat format) noexcept {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

void MetricsWriter::Family(std::string_view name, MetricType type, std::string_view help) {
  name_ = name;
  type_ = type;
  const bool total = type == MetricType::kCounter && format_ == MetricsFormat::kPrometheus;
  const auto head = [&](std::string_view word) {
    out_ += "# ";
    out_ += word;
    out_ += ' ';
    out_ += name_;
    if (total) out_ += "_total";
    out_ += ' ';
  };
  head("HELP");
  AppendEscaped(help, format_ == MetricsFormat::kOpenMetrics, out_);
  out_ += '\n';
  head("TYPE");
  out_ += TypeWord(type);
  out_ += '\n';
}

void MetricsWriter::Name(std::string_view suffix, std::span<const Label> labels) {
  out_ += name_;
  out_ += suffix;
  if (!labels.empty()) {
    char before = '{';
    for (const Label& label : labels) {
      out_ += before;
      before = ',';
      out_ += label.name;
      out_ += "=\"";
      AppendEscaped(label.value, true, out_);
      out_ += '"';
    }
    out_ += '}';
  }
  out_ += ' ';
}

void MetricsWriter::Sample(std::span<const Label> labels, uint64_t value) {
  Name(type_ == MetricType::kCounter ? "_total" : "", labels);
  AppendNumber(value, out_);
  out_ += '\n';
}

void MetricsWriter::Sample(std::span<const Label> labels, int64_t value) {
  Name(type_ == MetricType::kCounter ? "_total" : "", labels);
  AppendNumber(value, out_);
  out_ += '\n';
}

void MetricsWriter::SampleSeconds(std::span<const Label> labels, uint64_t nanoseconds) {
  Name(type_ == MetricType::kCounter ? "_total" : "", labels);
  Seconds(nanoseconds);
}

void MetricsWriter::SampleSummary(std::span<const Label> labels, uint64_t count,
                                  uint64_t sum_nanoseconds) {
  Name("_sum", labels);
  Seconds(sum_nanoseconds);
  Name("_count", labels);
  AppendNumber(count, out_);
  out_ += '\n';
}

void MetricsWriter::Seconds(uint64_t nanoseconds) {
  AppendNumber(nanoseconds / kSecondNs, out_);
  char fraction[] = ".000000000";
  uint64_t rest = nanoseconds % kSecondNs;
  for (size_t at = 9; at >= 1; --at, rest /= 10) {
    fraction[at] = static_cast<char>('0' + rest % 10);
  }
  out_ += fraction;
  out_ += '\n';
}

void MetricsWriter::End() {
  if (format_ == MetricsFormat::kOpenMetrics) out_ += "# EOF\n";
}

}  // namespace flowguard::observe
