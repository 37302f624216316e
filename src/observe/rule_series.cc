// SPDX-License-Identifier: Apache-2.0
#include "observe/rule_series.h"

#include <algorithm>

namespace flowguard::observe {
namespace {

uint64_t Traffic(const engine::RuleCounters& rule) noexcept {
  return rule.passed + rule.refused + rule.shadow_refused;
}

void AddTo(engine::RuleCounters& sum, const engine::RuleCounters& rule) noexcept {
  sum.passed += rule.passed;
  sum.refused += rule.refused;
  sum.shadow_refused += rule.shadow_refused;
  sum.degraded += rule.degraded;
  sum.waited += rule.waited;
  sum.wait_ns += rule.wait_ns;
  sum.failed_after += rule.failed_after;
  sum.inflight += rule.inflight;
  sum.breaker_opened += rule.breaker_opened;
}

}  // namespace

std::vector<engine::RuleCounters> RuleSeries::Select(std::span<const engine::RuleCounters> rules,
                                                     Instant now) {
  Expire(rules, now);
  Admit(rules);
  std::vector<engine::RuleCounters> shown;
  engine::RuleCounters others;
  others.rule = kOtherRules;
  for (const engine::RuleCounters& rule : rules) {
    if (own_.contains(rule.rule)) {
      shown.push_back(rule);
    } else if (others_.contains(rule.rule)) {
      AddTo(others, rule);
    }
  }
  if (!others_.empty()) shown.push_back(std::move(others));
  return shown;
}

void RuleSeries::Expire(std::span<const engine::RuleCounters> rules, Instant now) {
  for (const engine::RuleCounters& rule : rules) {
    const auto found = own_.find(rule.rule);
    if (found == own_.end()) continue;
    if (rule.loaded) {
      found->second.reset();
    } else if (!found->second) {
      found->second = now;
    } else if (now - *found->second >= kRuleSeriesGrace) {
      expired_.insert(found->first);
      own_.erase(found);
    }
  }
}

void RuleSeries::Admit(std::span<const engine::RuleCounters> rules) {
  std::vector<const engine::RuleCounters*> fresh;
  for (const engine::RuleCounters& rule : rules) {
    if (rule.loaded) expired_.erase(rule.rule);
    if (!own_.contains(rule.rule) && !others_.contains(rule.rule) &&
        !expired_.contains(rule.rule)) {
      fresh.push_back(&rule);
    }
  }
  std::stable_sort(fresh.begin(), fresh.end(),
                   [](const auto* a, const auto* b) { return Traffic(*a) > Traffic(*b); });
  for (const engine::RuleCounters* rule : fresh) {
    if (own_.size() < series_max_) {
      own_.emplace(rule->rule, std::nullopt);
    } else {
      others_.insert(rule->rule);
    }
  }
}

}  // namespace flowguard::observe
