// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/bounds.h"
#include "rules/check_rule.h"
#include "rules/dimension_table.h"

namespace flowguard::rules {

namespace {

// Headers that frame a message or belong to one connection: the server's own.
constexpr std::string_view kFraming[] = {
    "connection",        "content-length", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",        "host",
};

// Fields that every answer, or every refusal, has from the server.
constexpr std::string_view kAnswered[] = {
    "date",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
};

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), AsciiLower);
  return lower;
}

// Visible characters, spaces and tabs, and bytes above ASCII.
bool IsHeaderValue(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\t';
  });
}

bool IsBody(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= 0x20 && byte != 0x7f) || c == '\t' || c == '\n' || c == '\r';
  });
}

void CheckHeader(std::string_view field, std::string_view name, std::string_view value,
                 FaultsAt& faults) {
  if (!IsToken(name)) {
    faults.Error(field, "found a header name that HTTP does not allow; letters, digits and '-'");
    return;
  }
  const std::string lower = Lower(name);
  if (IsOneOf(lower, kFraming))
    faults.Error(field, "found header " + lower + ", which the server sets itself");
  if (!IsHeaderValue(value)) {
    faults.Error(field,
                 "header " + lower +
                     ": found a line break or control character in its value; none is allowed");
  }
  if (value.size() > base::kRefuseBytesMax) {
    faults.Error(field, "header " + lower + ": longer than " +
                            std::to_string(base::kRefuseBytesMax) + " bytes");
  }
}

void CheckText(std::string_view field, std::string_view text, FaultsAt& faults) {
  if (text.size() > base::kRefuseBytesMax) {
    faults.Error(field, "found " + std::to_string(text.size()) + " bytes; at most " +
                            std::to_string(base::kRefuseBytesMax) + " are allowed");
  }
  if (!IsBody(text)) faults.Error(field, "found a control character; none is allowed");
}

void CheckRefuse(const Refuse& refuse, FaultsAt& faults) {
  if (refuse.status != 0 && (refuse.status < 400 || refuse.status > 599)) {
    faults.Error("refuse.status",
                 "found " + std::to_string(refuse.status) + "; allowed 400 to 599");
  } else if (refuse.status != 0 && refuse.status != 403 && refuse.status != 429 &&
             refuse.status != 503) {
    faults.Warning("refuse.status", std::to_string(refuse.status) +
                                        " is unusual; clients know 429, 503 and 403 as refusals");
  }
  CheckText("refuse.message", refuse.message, faults);
  if (refuse.headers.size() > base::kRefuseHeadersMax) {
    faults.Error("refuse.headers", "found " + std::to_string(refuse.headers.size()) + "; at most " +
                                       std::to_string(base::kRefuseHeadersMax) + " are allowed");
  }
  for (const auto& [name, value] : refuse.headers) {
    CheckHeader("refuse.headers", name, value, faults);
    if (const std::string lower = Lower(name); IsOneOf(lower, kAnswered)) {
      faults.Error("refuse.headers", "found header " + lower +
                                         ", which the server sets itself; responses."
                                         "ratelimit_headers chooses the fields of the limit");
    }
  }
}

void CheckDegrade(const Rule& rule, FaultsAt& faults) {
  const Degrade& degrade = rule.degrade;
  if (!degrade.enabled) {
    if (degrade != Degrade{}) faults.Error("degrade", "found its fields, but it is not enabled");
    return;
  }
  if (rule.kind == RuleKind::kAccess) {
    faults.Misplaced("degrade", "rules of kind limit, concurrency, breaker or system");
    return;
  }
  if (rule.refuse != Refuse{} && rule.wait == Duration{})
    faults.Error("refuse", "found beside degrade, by which the rule never refuses; leave one away");
  if (!degrade.header.empty() && degrade.status != 0)
    faults.Error("degrade.header",
                 "found beside status; such a request goes to no upstream that could read it");
  if (!degrade.header.empty()) {
    const size_t colon = degrade.header.find(':');
    if (colon == std::string::npos) {
      faults.Error("degrade.header", "found \"" + degrade.header + "\"; write \"name: value\"");
    } else {
      CheckHeader("degrade.header", std::string_view(degrade.header).substr(0, colon),
                  std::string_view(degrade.header).substr(colon + 1), faults);
    }
  }
  if (degrade.status == 0) {
    if (!degrade.body.empty() || !degrade.content_type.empty()) {
      faults.Error("degrade.status",
                   "missing beside body or content_type; name it to answer at once, or leave these "
                   "away to pass the request on");
    }
    return;
  }
  if (degrade.status < 200 || degrade.status > 599) {
    faults.Error("degrade.status",
                 "found " + std::to_string(degrade.status) + "; allowed 200 to 599, or 0");
  }
  if (!degrade.body.empty() && (degrade.status == 204 || degrade.status == 304)) {
    faults.Error("degrade.body",
                 "found beside status " + std::to_string(degrade.status) + ", which has no body");
  }
  CheckText("degrade.body", degrade.body, faults);
  CheckHeader("degrade.content_type", "content-type", degrade.content_type, faults);
}

}  // namespace

void CheckAnswer(const Rule& rule, FaultsAt& faults) {
  CheckRefuse(rule.refuse, faults);
  CheckDegrade(rule, faults);
}

}  // namespace flowguard::rules
