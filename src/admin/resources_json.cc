// SPDX-License-Identifier: Apache-2.0
#include "admin/resources_json.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "base/bounds.h"
#include "http/fields.h"
#include "text/json_writer.h"

namespace flowguard::admin {
namespace {

using engine::Traffic;
using text::JsonWriter;

void AppendDecimal(double value, int places, JsonWriter& json) {
  std::array<char, 64> text;
  const int size = std::snprintf(text.data(), text.size(), "%.*f", places, value);
  json.Number({text.data(), static_cast<size_t>(size)});
}

void AppendTime(std::string_view key, const std::optional<Duration>& time, JsonWriter& json) {
  json.Key(key);
  if (!time.has_value()) {
    json.Null();
    return;
  }
  constexpr double kMillisecondNs = 1e6;
  AppendDecimal(static_cast<double>(time->count()) / kMillisecondNs, 3, json);
}

void AppendCounts(std::string_view key, const stats::Counts& counts, JsonWriter& json) {
  json.Key(key).BeginObject();
  json.Key("passed").Int(counts.passed);
  json.Key("blocked").Int(counts.blocked);
  json.Key("succeeded").Int(counts.succeeded);
  json.Key("failed").Int(counts.failed);
  AppendTime("rt_avg_ms", counts.AverageRt(), json);
  AppendTime("rt_min_ms", counts.rt_min, json);
  json.Key("inflight_max").Int(counts.inflight_max);
  json.EndObject();
}

void AppendTraffic(const Traffic& traffic, JsonWriter& json) {
  json.BeginObject();
  json.Key("resource").String(traffic.resource);
  if (!traffic.origin.empty()) json.Key("origin").String(traffic.origin);
  json.Key("inflight").Int(traffic.inflight);
  AppendCounts("last_second", traffic.second, json);
  AppendCounts("last_minute", traffic.minute, json);
  if (traffic.origin.empty()) {
    json.Key("rt_ms").BeginObject();
    AppendTime("p50", traffic.rt_p50, json);
    AppendTime("p90", traffic.rt_p90, json);
    AppendTime("p99", traffic.rt_p99, json);
    json.EndObject();
  }
  json.EndObject();
}

void AppendReading(std::string_view key, const std::optional<double>& value, JsonWriter& json) {
  json.Key(key);
  if (value.has_value()) {
    AppendDecimal(*value, 4, json);
  } else {
    json.Null();
  }
}

void AppendTable(const stats::StatsTableCounts& table, JsonWriter& json) {
  json.Key("table").BeginObject();
  json.Key("entries").Uint(table.stats);
  json.Key("forgotten").Uint(table.forgotten);
  json.Key("forgotten_live").Uint(table.forgotten_live);
  json.Key("counted_as_others").Uint(table.others);
  json.EndObject();
}

}  // namespace

Result<engine::StatisticsQuery> ParseResourcesQuery(std::string_view query) {
  engine::StatisticsQuery asked;
  std::array<char, base::kResourceBytesMax> room;
  const http::FieldValue name = http::FindQueryParameter(query, "resource", room);
  if (name.status == http::FieldStatus::kAmbiguous) {
    return Error::InvalidArgument("resource: given twice; once is allowed");
  }
  if (name.status == http::FieldStatus::kTooLong || name.value.size() > base::kResourceBytesMax) {
    return Error::InvalidArgument("resource: at most " + std::to_string(base::kResourceBytesMax) +
                                  " bytes are allowed");
  }
  asked.resource = name.value;
  std::array<char, 32> digits;
  const http::FieldValue limit = http::FindQueryParameter(query, "limit", digits);
  if (limit.status == http::FieldStatus::kAbsent) {
    if (!asked.resource.empty()) asked.most = kResourcesToldMax;
    return asked;
  }
  const char* const end = limit.value.data() + limit.value.size();
  const auto [stop, error] = std::from_chars(limit.value.data(), end, asked.most);
  if (limit.status != http::FieldStatus::kFound || error != std::errc() || stop != end ||
      asked.most < 1 || asked.most > kResourcesToldMax) {
    return Error::InvalidArgument("limit: found \"" + std::string(limit.value) +
                                  "\"; allowed 1 to " + std::to_string(kResourcesToldMax));
  }
  return asked;
}

void AppendResources(const engine::StatisticsReport& report, std::string& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Key("statistics").String(report.resources_counted ? "on" : "off");
  json.Key("system").BeginObject();
  AppendReading("cpu", report.system.cpu, json);
  AppendReading("load", report.system.load, json);
  json.EndObject();
  json.Key("entrance");
  AppendTraffic(report.entrance, json);
  json.Key("resources").BeginArray();
  for (const Traffic& traffic : report.resources)
    AppendTraffic(traffic, json);
  json.EndArray();
  json.Key("left_out").Uint(report.left_out);
  json.Key("others");
  if (report.others.has_value()) {
    AppendTraffic(*report.others, json);
  } else {
    json.Null();
  }
  AppendTable(report.table, json);
  json.EndObject();
}

}  // namespace flowguard::admin
