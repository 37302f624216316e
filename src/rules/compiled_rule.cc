// SPDX-License-Identifier: Apache-2.0
#include "rules/compiled_rule.h"

namespace flowguard::rules {

const Quota& CompiledRule::FindOverride(std::string_view value) const noexcept {
  const std::optional<size_t> found = override_index.Find(value);
  return found ? overrides[*found] : quota;
}

int DefaultStatus(RuleKind kind) noexcept {
  switch (kind) {
    case RuleKind::kLimit:
      return 429;
    case RuleKind::kConcurrency:
    case RuleKind::kBreaker:
    case RuleKind::kSystem:
      return 503;
    case RuleKind::kAccess:
      return 403;
  }
  return 503;
}

std::string_view MarkOf(const Degrade& degrade) noexcept {
  return degrade.header.empty() ? std::string_view("x-degraded: 1")
                                : std::string_view(degrade.header);
}

RuleInfo InfoOf(const Rule& rule) {
  RuleInfo info;
  info.name = rule.name;
  info.kind = rule.kind;
  info.shadow = rule.shadow;
  info.rate = rule.kind == RuleKind::kConcurrency ? Rate{rule.concurrency, Duration{}} : rule.rate;
  info.refuse = rule.refuse;
  if (info.refuse.status == 0) info.refuse.status = DefaultStatus(rule.kind);
  info.degrade = rule.degrade;
  return info;
}

}  // namespace flowguard::rules
