// SPDX-License-Identifier: Apache-2.0
#include "serve/status.h"

#include <algorithm>

#include "http/fields.h"
#include "rules/compiled_rule.h"
#include "serve/rate_headers.h"
#include "text/json_writer.h"
#include "wire/http1_writer.h"

namespace flowguard::serve {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;

std::string_view KindWord(RuleKind kind) noexcept {
  return kind == RuleKind::kConcurrency ? "concurrency" : "limit";
}

void AppendMilliseconds(Duration d, std::string& out) {
  if (d == kNever) {
    out += "null";
    return;
  }
  const int64_t ns = d.count() > 0 ? d.count() : 0;
  AppendDecimal(ns / kMillisecondNs + (ns % kMillisecondNs != 0 ? 1 : 0), out);
}

// The query of a raw target.
std::string_view QueryOf(std::string_view target) noexcept {
  const size_t at = target.find('?');
  return at == std::string_view::npos ? std::string_view() : target.substr(at + 1);
}

}  // namespace

void StatusAnswer::Heard(std::span<const engine::RemoteTake> takes,
                         std::span<const engine::TakeOutcome> outcomes) {
  for (size_t i = 0; i < std::min(takes.size(), outcomes.size()); ++i) {
    if (outcomes[i].status == engine::TakeOutcome::Status::kFailed) continue;
    const std::string_view name = takes[i].rule->rule.name;
    const auto row = std::find_if(rows_.begin(), rows_.end(),
                                  [name](const Row& one) { return one.rule == name; });
    if (row == rows_.end()) continue;
    const limit::Numbers& numbers = outcomes[i].numbers;
    row->known = true;
    row->allowed = numbers.remaining > 0;
    row->numbers.limit = numbers.limit;
    row->numbers.remaining = numbers.remaining;
    row->numbers.reset_after = numbers.reset_after;
    row->numbers.retry_after = row->allowed ? Duration::zero() : numbers.reset_after;
  }
}

void StatusAnswer::Write(std::string& body) const {
  body += "{\"path\":";
  text::AppendJsonString(body, path_);
  body += ",\"method\":";
  text::AppendJsonString(body, method_);
  body += ",\"rules\":[";
  for (const Row& row : rows_) {
    if (&row != rows_.data()) body += ',';
    body += "{\"rule\":";
    text::AppendJsonString(body, row.rule);
    body += ",\"kind\":\"";
    body += KindWord(row.kind);
    body += "\",\"allowed\":";
    if (row.known) {
      body += row.allowed ? "true," : "false,";
      AppendNumbers(row.numbers, body);
    } else {
      body += "null,\"limit\":";
      AppendDecimal(row.numbers.limit, body);
      body += ",\"remaining\":null,\"reset_after_ms\":null,\"retry_after_ms\":null";
    }
    body += '}';
  }
  body += "]}";
}

int StatusPage::Read(const wire::RequestHead& head, const http::IpAddress& peer, Instant now,
                     engine::Attempt& attempt, StatusAnswer& answer, std::string& body) {
  std::array<char, 64> method_room;
  const std::string_view query = QueryOf(head.target);
  const http::FieldValue path = http::FindQueryParameter(query, "path", path_);
  const http::FieldValue method = http::FindQueryParameter(query, "method", method_room);
  const auto bad = [&](int status, std::string_view detail) {
    AppendProblemDocument(status, detail, body);
    return status;
  };
  if (path.status == http::FieldStatus::kTooLong) return bad(414, "path is too long");
  if (path.status == http::FieldStatus::kAmbiguous) return bad(400, "path is given twice");
  if (path.status == http::FieldStatus::kFound && !path.value.starts_with('/')) {
    return bad(400, "path must begin with '/'");
  }
  const bool named = method.status != http::FieldStatus::kAbsent;
  if (named && (method.status != http::FieldStatus::kFound || !wire::IsToken(method.value) ||
                IsMiscasedMethod(method.value))) {
    return bad(400, "method must be an HTTP method, in upper case");
  }
  const std::string_view asked_path = path.status == http::FieldStatus::kFound ? path.value : "/";
  const std::string_view asked_method = named ? method.value : std::string_view("GET");
  if (const int status = view_.Assign(head, peer, asked_method, asked_path); status != 0) {
    return bad(status, "path cannot be read as the path of a request");
  }
  // What is left, and what the next request would be told.
  const auto rules = engine_.Explain(view_, now);
  view_.cost = 1;
  const auto next = engine_.Explain(view_, now);
  if (view_.ambiguous()) return bad(400, view_.ambiguity());

  answer.path_ = view_.path;
  answer.method_ = asked_method;
  answer.rows_.clear();
  bool shared = false;
  // Rules that were loaded in between are told of the next time.
  for (size_t i = 0; i < std::min(rules.size(), next.size()); ++i) {
    const engine::Explanation& rule = rules[i];
    const RuleInfo* info = rule.decision.rule;
    if (info == nullptr || info->shadow || !CountsUnits(info->kind)) continue;
    shared = shared || rule.shared;
    StatusAnswer::Row& row = answer.rows_.emplace_back();
    row.rule = rule.rule;
    row.kind = info->kind;
    row.known = !rule.shared;
    row.allowed = next[i].decision.allowed();
    row.numbers = rule.decision;
    row.numbers.retry_after = next[i].decision.retry_after;
  }
  if (shared) static_cast<void>(engine_.Begin(attempt, view_, engine::Mode::kPeek, now));
  return 200;
}

void AppendNumbers(const Decision& decision, std::string& out) {
  out += "\"limit\":";
  AppendDecimal(decision.limit, out);
  out += ",\"remaining\":";
  AppendDecimal(decision.remaining, out);
  out += ",\"reset_after_ms\":";
  AppendMilliseconds(decision.reset_after, out);
  out += ",\"retry_after_ms\":";
  AppendMilliseconds(decision.retry_after, out);
}

void AppendProblemDocument(int status, std::string_view detail, std::string& out) {
  const std::string_view title = wire::ReasonPhrase(status);
  out += "{\"type\":\"about:blank\",\"title\":";
  text::AppendJsonString(out, title.empty() ? std::string_view("Error") : title);
  out += ",\"status\":";
  AppendDecimal(status, out);
  out += ",\"detail\":";
  text::AppendJsonString(out, detail);
  out += '}';
}

}  // namespace flowguard::serve
