// SPDX-License-Identifier: Apache-2.0
#include "admin/admin_api.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "admin/resources_json.h"
#include "base/try.h"
#include "text/json_writer.h"
#include "text/node.h"
#include "text/yaml.h"
#include "wire/http1.h"

namespace flowguard::admin {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kNoStore = "Cache-Control: no-store\r\n";
constexpr std::string_view kIndex =
    "FlowGuard\n\n/metrics  /healthz  /readyz  /rules  /config  /v1/resources\n";

std::string_view Accept(const wire::RequestHead& head) noexcept {
  for (const wire::Header& line : head.headers.all()) {
    if (wire::EqualsIgnoreCase(line.name, "accept")) return line.value;
  }
  return {};
}

// A number of JSON's grammar, in the few forms that rules have: -12, 0.5.
bool IsJsonNumber(std::string_view text) noexcept {
  if (text.starts_with('-')) text.remove_prefix(1);
  const size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const auto digits = [](std::string_view part) {
    return !part.empty() &&
           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (!digits(whole) || (whole.size() > 1 && whole.front() == '0')) return false;
  return point == std::string_view::npos || digits(text.substr(point + 1));
}

void WriteScalar(const text::Node& node, std::string& out) {
  const std::string& scalar = node.scalar;
  if (!node.quoted && (scalar == "true" || scalar == "false" || IsJsonNumber(scalar))) {
    out += scalar;
  } else {
    text::AppendJsonString(out, scalar);
  }
}

// Depth is bounded by the reader (text::kTextDepthMax).
void WriteNode(const text::Node& node, std::string& out) {  // NOLINT(misc-no-recursion)
  char before = '[';
  switch (node.kind) {
    case text::Kind::kNull:
      out += "null";
      return;
    case text::Kind::kScalar:
      WriteScalar(node, out);
      return;
    case text::Kind::kSequence:
      if (node.items.empty()) out += '[';
      for (const text::Node& item : node.items) {
        out += std::exchange(before, ',');
        WriteNode(item, out);
      }
      out += ']';
      return;
    case text::Kind::kMap:
      before = '{';
      if (node.members.empty()) out += '{';
      for (const text::Member& member : node.members) {
        out += std::exchange(before, ',');
        text::AppendJsonString(out, member.key);
        out += ':';
        WriteNode(member.value, out);
      }
      out += '}';
      return;
  }
}

}  // namespace

void AdminApi::Handle(const wire::RequestHead& head, std::string_view /*body*/,
                      const http::PeerInfo& /*peer*/, http::Responder& responder) noexcept {
  if (head.method != wire::Method::kGet && head.method != wire::Method::kHead) {
    return responder.Send(405, kText, "expected GET\n", "Allow: GET, HEAD\r\n");
  }
  const std::string_view path = head.target.substr(0, head.target.find('?'));
  if (path == "/metrics") return Metrics(head, responder);
  if (path == "/healthz") return responder.Send(200, kText, "ok\n", kNoStore);
  if (path == "/readyz") return Ready(responder);
  if (path == "/rules") return Rules(head, responder);
  if (path == "/config") return Config(responder);
  if (path == "/v1/resources") {
    const size_t question = head.target.find('?');
    return Resources(question == std::string_view::npos ? "" : head.target.substr(question + 1),
                     responder);
  }
  if (path == "/") return responder.Send(200, kText, kIndex);
  responder.Send(404, kText, kIndex);
}

void AdminApi::Metrics(const wire::RequestHead& head, http::Responder& responder) {
  const observe::MetricsFormat format = observe::FormatFor(Accept(head));
  text_.clear();
  observe::MetricsWriter out(format, text_);
  for (observe::MetricsSource* source : sources_)
    source->Collect(out);
  out.End();
  responder.Send(200, observe::ContentTypeOf(format), text_, kNoStore);
}

void AdminApi::Ready(http::Responder& responder) {
  const Readiness readiness = subject_.CheckReadiness();
  text_.clear();
  text::JsonWriter json(text_);
  json.BeginObject().Key("ready").Bool(readiness.ready).Key("checks").BeginObject();
  for (const auto& [name, state] : readiness.checks)
    json.Key(name).String(state);
  json.EndObject().EndObject();
  responder.Send(readiness.ready ? 200 : 503, kJson, text_, kNoStore);
}

void AdminApi::Rules(const wire::RequestHead& head, http::Responder& responder) {
  const std::string yaml = subject_.RulesAsYaml();
  if (Accept(head).find(kJson) == std::string_view::npos) {
    return responder.Send(200, "application/yaml", yaml, kNoStore);
  }
  const Result<std::string> json = YamlToJson(yaml);
  if (!json.ok()) return responder.Send(500, kText, json.error().message, kNoStore);
  responder.Send(200, kJson, *json, kNoStore);
}

void AdminApi::Config(http::Responder& responder) {
  const ConfigReport report = subject_.ReportConfig();
  text_.clear();
  text::JsonWriter json(text_);
  json.BeginObject();
  json.Key("version").String(report.version);
  json.Key("generation").Uint(report.generation);
  json.Key("source").String(report.source);
  json.Key("loaded_at").String(FormatUtc(report.loaded_at));
  json.Key("last_error");
  if (report.last_error.empty()) {
    json.Null();
  } else {
    json.String(report.last_error);
  }
  json.EndObject();
  responder.Send(200, kJson, text_, kNoStore);
}

void AdminApi::Resources(std::string_view query, http::Responder& responder) {
  const Result<engine::StatisticsQuery> asked = ParseResourcesQuery(query);
  if (!asked.ok()) {
    return responder.Send(400, kText, asked.error().message + "\n", kNoStore);
  }
  text_.clear();
  AppendResources(subject_.ReportStatistics(*asked), text_);
  responder.Send(200, kJson, text_, kNoStore);
}

Result<std::string> YamlToJson(std::string_view yaml) {
  FG_ASSIGN_OR_RETURN(const text::Node root, text::ParseYaml(yaml, "rules"));
  std::string json;
  WriteNode(root, json);
  return json;
}

std::string FormatUtc(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  char text[40];
  const int size = std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()));
  return {text, static_cast<size_t>(size)};
}

}  // namespace flowguard::admin
