// SPDX-License-Identifier: Apache-2.0
#include "serve/refusal.h"

#include <algorithm>

#include "base/check.h"
#include "rules/compiled_rule.h"
#include "text/json_writer.h"
#include "wire/http1.h"
#include "wire/http1_writer.h"

namespace flowguard::serve {
namespace {

constexpr int64_t kMillisecondNs = 1'000'000;
constexpr std::string_view kQuotaExceeded =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
constexpr std::string_view kReducedCapacity =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

int KindStatus(const Decision& decision) noexcept {
  switch (decision.reason) {
    case Reason::kConcurrency:
    case Reason::kStoreFailure:
    case Reason::kOverload:
    case Reason::kBreaker:
    case Reason::kSystem:
      return 503;
    case Reason::kAccess:
    case Reason::kMissingDimension:
      return 403;
    case Reason::kNone:
    case Reason::kLimit:
    case Reason::kInvalidCost:
      break;
  }
  return 429;
}

int RuleDefaultStatus(RuleKind kind) noexcept {
  switch (kind) {
    case RuleKind::kConcurrency:
    case RuleKind::kBreaker:
    case RuleKind::kSystem:
      return 503;
    case RuleKind::kAccess:
      return 403;
    case RuleKind::kLimit:
      break;
  }
  return 429;
}

std::string_view DefaultMessage(Reason reason) noexcept {
  switch (reason) {
    case Reason::kConcurrency:
      return "Too many requests in progress, please retry shortly";
    case Reason::kAccess:
      return "Access denied";
    case Reason::kStoreFailure:
      return "The limit cannot be checked now, please retry shortly";
    case Reason::kMissingDimension:
      return "The request lacks a value that this limit needs";
    case Reason::kInvalidCost:
      return "The request costs more than its limit can ever grant";
    case Reason::kOverload:
      return "Too many requests are waiting, please retry shortly";
    case Reason::kBreaker:
    case Reason::kSystem:
      return "Temporarily unavailable, please retry shortly";
    case Reason::kNone:
    case Reason::kLimit:
      break;
  }
  return "Too many requests, please retry later";
}

// The wait that a client is told: never below the true one; kNever: none.
Duration ToldWait(const Decision& decision, const RefusalOptions& options, uint64_t draw) noexcept {
  if (decision.retry_after == kNever) return kNever;
  if (decision.reason == Reason::kAccess || decision.reason == Reason::kMissingDimension) {
    return kNever;
  }
  const int64_t wait = std::max<int64_t>(1, decision.retry_after.count());
  const int64_t room = std::max<int64_t>(0, options.jitter.count()) +
                       wait / 100 * std::clamp(options.jitter_percent, 0, 100);
  if (room == 0) return Duration(wait);
  const auto extra = static_cast<int64_t>(draw % (static_cast<uint64_t>(room) + 1));
  return Duration(wait > kNever.count() - 1 - extra ? kNever.count() - 1 : wait + extra);
}

// Does the rule itself set this field?
bool RuleSets(const RuleInfo* rule, std::string_view name) noexcept {
  if (rule == nullptr) return false;
  return std::any_of(
      rule->refuse.headers.begin(), rule->refuse.headers.end(),
      [name](const auto& header) { return wire::EqualsIgnoreCase(header.first, name); });
}

// Framing belongs to the answer, and rate fields to the limiter: a rule that names
// them must not produce a second one.
bool RuleMaySet(std::string_view name) noexcept {
  constexpr std::string_view kOurs[] = {"content-length", "transfer-encoding", "connection", "date",
                                        "trailer",        "upgrade",           "keep-alive"};
  return !name.empty() && !IsRateHeader(name) &&
         std::none_of(std::begin(kOurs), std::end(kOurs),
                      [name](std::string_view ours) { return wire::EqualsIgnoreCase(name, ours); });
}

void AppendFieldText(std::string_view text, std::string& out) {
  for (const char c : text)
    out += (c == '\r' || c == '\n' || c == '\0') ? ' ' : c;
}

void AppendRuleHeaders(const RuleInfo* rule, std::string& out) {
  if (rule == nullptr) return;
  for (const auto& [name, value] : rule->refuse.headers) {
    if (!RuleMaySet(name)) continue;
    AppendFieldText(name, out);
    out += ": ";
    AppendFieldText(value, out);
    out += "\r\n";
  }
}

void AppendStatusLine(int status, std::string& out) {
  out += "HTTP/1.1 ";
  AppendDecimal(status, out);
  out += ' ';
  out += wire::ReasonPhrase(status);
  out += "\r\n";
}

std::string_view ContentType(RefuseBody body) noexcept {
  switch (body) {
    case RefuseBody::kProblem:
      return "application/problem+json";
    case RefuseBody::kUnified:
      return "application/json";
    case RefuseBody::kText:
      break;
  }
  return "text/plain; charset=utf-8";
}

void AppendProblem(const Decision& decision, int status, std::string_view message, Duration wait,
                   std::string& out) {
  const std::string_view type = status == 429   ? kQuotaExceeded
                                : status == 503 ? kReducedCapacity
                                                : std::string_view("about:blank");
  out += "{\"type\":\"";
  out += type;
  out += "\",\"title\":";
  const std::string_view title = wire::ReasonPhrase(status);
  text::AppendJsonString(out, title.empty() ? std::string_view("Refused") : title);
  out += ",\"status\":";
  AppendDecimal(status, out);
  out += ",\"detail\":";
  text::AppendJsonString(out, message);
  if (decision.rule != nullptr) {
    out += ",\"violated-policies\":[";
    text::AppendJsonString(out, decision.rule->name);
    out += ']';
  }
  if (wait != kNever) {
    out += ",\"retry_after_ms\":";
    AppendDecimal(wait.count() / kMillisecondNs + (wait.count() % kMillisecondNs != 0 ? 1 : 0),
                  out);
  }
  out += '}';
}

void AppendBody(const Decision& decision, RefuseBody form, int status, Duration wait,
                std::string& out) {
  const bool own = decision.rule != nullptr && !decision.rule->refuse.message.empty();
  const std::string_view message =
      own ? std::string_view(decision.rule->refuse.message) : DefaultMessage(decision.reason);
  switch (form) {
    case RefuseBody::kProblem:
      AppendProblem(decision, status, message, wait, out);
      return;
    case RefuseBody::kUnified:
      out += "{\"code\":";
      AppendDecimal(status, out);
      out += ",\"message\":";
      text::AppendJsonString(out, message);
      out += ",\"success\":false}";
      return;
    case RefuseBody::kText:
      out += message;
      out += '\n';
      return;
  }
}

// Writes "Content-Length: N", the end of the head, and what `body` appends, unless
// only the head was asked for.
template <typename Body>
void AppendLengthAndBody(bool head, Body body, std::string& out) {
  // The length stands before a body that is written once and in place: room for it
  // is left, and closed up afterwards.
  constexpr std::string_view kRoom = "Content-Length: 000000000000\r\n\r\n";
  constexpr size_t kDigitsBegin = 16;
  constexpr size_t kDigitsEnd = 28;
  const size_t field = out.size();
  out += kRoom;
  const size_t start = out.size();
  body(out);
  size_t length = out.size() - start;
  if (head) out.resize(start);
  size_t at = kDigitsEnd;
  do {
    out[field + --at] = static_cast<char>('0' + length % 10);
    length /= 10;
  } while (length > 0 && at > kDigitsBegin);
  out.erase(field + kDigitsBegin, at - kDigitsBegin);
}

}  // namespace

int RefusalStatus(const Decision& decision) noexcept {
  const int by_reason = KindStatus(decision);
  if (decision.rule == nullptr) return by_reason;
  const int by_rule = decision.rule->refuse.status;
  // A status that the rule does not write is filled in by its kind; the reason may
  // know better (a limit whose store fails closed is a 503).
  return by_rule == 0 || by_rule == RuleDefaultStatus(decision.rule->kind) ? by_reason : by_rule;
}

void AppendRefusal(const Decision& decision, const RefusalOptions& options,
                   const RefusalRequest& request, std::string& out) {
  FG_DCHECK(decision.verdict == Verdict::kRefuse);
  const int status = request.status != 0 ? request.status : RefusalStatus(decision);
  const Duration wait = ToldWait(decision, options, request.draw);
  const RefuseBody form = decision.rule != nullptr && decision.rule->refuse.body
                              ? *decision.rule->refuse.body
                              : options.body;
  AppendStatusLine(status, out);
  out += request.date;
  if (!RuleSets(decision.rule, "content-type")) {
    out += "Content-Type: ";
    out += ContentType(form);
    out += "\r\n";
  }
  if (!RuleSets(decision.rule, "cache-control")) out += "Cache-Control: no-store\r\n";
  if (wait != kNever && !RuleSets(decision.rule, "retry-after")) {
    out += "Retry-After: ";
    AppendDecimal(std::max<int64_t>(1, CeilSeconds(wait)), out);
    out += "\r\n";
  }
  AppendRateHeaders(decision, options.rate_headers, out);
  AppendRuleHeaders(decision.rule, out);
  if (options.decided_at) AppendDecidedAt(request.decided_at, request.store_time_us, out);
  if (request.close) out += "Connection: close\r\n";
  AppendLengthAndBody(
      request.head, [&](std::string& body) { AppendBody(decision, form, status, wait, body); },
      out);
}

void AppendDecidedAt(Instant decided_at, int64_t store_time_us, std::string& out) {
  out += "FlowGuard-Decided-At: ";
  AppendDecimal(decided_at.time_since_epoch().count(), out);
  out += "\r\n";
  if (store_time_us <= 0) return;
  out += "FlowGuard-Store-Decided-At: ";
  AppendDecimal(store_time_us, out);
  out += "\r\n";
}

bool AnswersDegraded(const Decision& decision) noexcept {
  return decision.degraded && decision.rule != nullptr && decision.rule->degrade.status != 0;
}

void AppendDegraded(const Decision& decision, const RefusalOptions& options,
                    const RefusalRequest& request, std::string& out) {
  FG_DCHECK(AnswersDegraded(decision));
  const Degrade& degrade = decision.rule->degrade;
  AppendStatusLine(degrade.status, out);
  out += request.date;
  const bool bodyless = degrade.status == 204 || degrade.status == 304;
  if (!bodyless) {
    out += "Content-Type: ";
    AppendFieldText(degrade.content_type.empty() ? std::string_view("text/plain; charset=utf-8")
                                                 : std::string_view(degrade.content_type),
                    out);
    out += "\r\n";
  }
  out += "Cache-Control: no-store\r\n";
  if (options.rate_headers.on_success) AppendRateHeaders(decision, options.rate_headers, out);
  if (request.close) out += "Connection: close\r\n";
  if (bodyless) {
    out += "\r\n";
    return;
  }
  AppendLengthAndBody(
      request.head, [&](std::string& body) { body += degrade.body; }, out);
}

void AppendDegradeMark(const Decision& decision, std::string& out) {
  FG_DCHECK(decision.degraded);
  if (decision.rule == nullptr) return;
  AppendFieldText(rules::MarkOf(decision.rule->degrade), out);
  out += "\r\n";
}

std::string_view ReasonWord(Reason reason) noexcept {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kLimit:
      return "limit";
    case Reason::kConcurrency:
      return "concurrency";
    case Reason::kAccess:
      return "access";
    case Reason::kStoreFailure:
      return "store_failure";
    case Reason::kMissingDimension:
      return "missing_dimension";
    case Reason::kInvalidCost:
      return "invalid_cost";
    case Reason::kOverload:
      return "overload";
    case Reason::kBreaker:
      return "breaker";
    case Reason::kSystem:
      return "system";
  }
  return "none";
}

}  // namespace flowguard::serve
