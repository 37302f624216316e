// SPDX-License-Identifier: Apache-2.0
#include "serve/rate_headers.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "flowguard/rule.h"

#include "wire/http1.h"

namespace flowguard::serve {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kStructuredIntegerMax = 999'999'999'999'999;  // RFC 9651 3.3.1

char Lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

int64_t Clamped(int64_t value) noexcept {
  return std::clamp<int64_t>(value, 0, kStructuredIntegerMax);
}

// Seconds until more can be had: the wait of a refusal, else the reset.  -1: not known.
int64_t SecondsToMore(const Decision& decision) noexcept {
  if (!decision.allowed()) {
    if (decision.retry_after == kNever) return -1;
    return std::max<int64_t>(1, CeilSeconds(decision.retry_after));
  }
  if (decision.reset_after <= Duration::zero() || decision.reset_after == kNever) return -1;
  return CeilSeconds(decision.reset_after);
}

void AppendDraft(const Decision& decision, std::string& out) {
  const RuleInfo& rule = *decision.rule;
  const bool concurrency = rule.kind == RuleKind::kConcurrency;
  out += "RateLimit-Policy: ";
  AppendStructuredString(rule.name, out);
  out += ";q=";
  AppendDecimal(Clamped(decision.limit), out);
  if (concurrency) out += ";qu=\"concurrent-requests\"";
  if (const int64_t window = CeilSeconds(decision.window); window > 0) {
    out += ";w=";
    AppendDecimal(window, out);
  }
  out += "\r\nRateLimit: ";
  AppendStructuredString(rule.name, out);
  out += ";r=";
  AppendDecimal(Clamped(decision.remaining), out);
  if (const int64_t seconds = SecondsToMore(decision); seconds >= 0) {
    out += ";t=";
    AppendDecimal(seconds, out);
  }
  out += "\r\n";
}

void AppendLegacy(const Decision& decision, std::string& out) {
  out += "X-RateLimit-Limit: ";
  AppendDecimal(Clamped(decision.limit), out);
  out += "\r\nX-RateLimit-Remaining: ";
  AppendDecimal(Clamped(decision.remaining), out);
  out += "\r\n";
  if (decision.reset_after == kNever) return;
  int64_t reset = CeilSeconds(decision.reset_after);
  if (!decision.allowed() && decision.retry_after != kNever) {
    reset = std::max({reset, CeilSeconds(decision.retry_after), int64_t{1}});
  }
  out += "X-RateLimit-Reset: ";
  AppendDecimal(reset, out);
  out += "\r\n";
}

}  // namespace

bool IsRateHeader(std::string_view name) noexcept {
  if (name.empty() || (Lower(name[0]) != 'r' && Lower(name[0]) != 'x')) return false;
  return std::any_of(
      kRateHeaderNames.begin(), kRateHeaderNames.end(),
      [name](std::string_view known) { return wire::EqualsIgnoreCase(name, known); });
}

void AppendRateHeaders(const Decision& decision, const RateHeaderOptions& options,
                       std::string& out) {
  if (decision.rule == nullptr || !CountsUnits(decision.rule->kind)) return;
  if (options.draft) AppendDraft(decision, out);
  if (options.legacy) AppendLegacy(decision, out);
}

void AppendStructuredString(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else {
      out += (c < 0x20 || c >= 0x7f) ? '?' : c;
    }
  }
  out += '"';
}

void AppendDecimal(int64_t value, std::string& out) {
  char digits[std::numeric_limits<int64_t>::digits10 + 3];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value);
  out.append(std::begin(digits), end.ptr);
}

int64_t CeilSeconds(Duration d) noexcept {
  const int64_t ns = d.count();
  if (ns <= 0) return 0;
  return ns / kSecondNs + (ns % kSecondNs != 0 ? 1 : 0);
}

}  // namespace flowguard::serve
