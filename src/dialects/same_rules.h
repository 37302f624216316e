// SPDX-License-Identifier: Apache-2.0
//
// Equality of rule sets, origins apart: what "reads back the same" means to tests and
// fuzzers.  Names every member, so a member that is added to the model does not
// compile here until it is compared.
#pragma once

#include <tuple>

#include "flowguard/rule.h"

namespace flowguard::dialects {

[[nodiscard]] inline bool SameRule(const Rule& a, const Rule& b) {
  const auto members = [](const Rule& rule) {
    const auto& [name, enabled, shadow, kind, on, rate, burst, algorithm, buckets, wait, borrow,
                 warm_up, cold_factor, count_refused, cost, relate_to, concurrency, scope,
                 on_store_failure, tag, lease, shards, prefilter, cluster, by, overrides, allow,
                 deny, breaker, system, refuse, degrade, origin] = rule;
    static_cast<void>(origin);
    return std::tie(name, enabled, shadow, kind, on, rate, burst, algorithm, buckets, wait, borrow,
                    warm_up, cold_factor, count_refused, cost, relate_to, concurrency, scope,
                    on_store_failure, tag, lease, shards, prefilter, cluster, by, overrides, allow,
                    deny, breaker, system, refuse, degrade);
  };
  return members(a) == members(b);
}

[[nodiscard]] inline bool SameRules(const RuleSet& a, const RuleSet& b) {
  if (a.rules.size() != b.rules.size()) return false;
  for (size_t i = 0; i < a.rules.size(); ++i) {
    if (!SameRule(a.rules[i], b.rules[i])) return false;
  }
  return a.dimensions == b.dimensions && a.match == b.match && a.compat == b.compat;
}

}  // namespace flowguard::dialects
