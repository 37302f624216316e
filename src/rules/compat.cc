// SPDX-License-Identifier: Apache-2.0
#include "rules/compat.h"

#include <string>

namespace flowguard::rules {

Algorithm AlgorithmOf(const Rule& rule, Compat compat) noexcept {
  const bool local_limit = rule.kind == RuleKind::kLimit && rule.scope == Scope::kLocal;
  if (compat == Compat::kNone || !local_limit) return rule.algorithm;
  switch (rule.algorithm) {
    case Algorithm::kSlidingLog:
    case Algorithm::kSlidingBuckets:
      return Algorithm::kLeapArray;
    case Algorithm::kTokenBucket:
      return Algorithm::kStepBucket;
    default:
      return rule.algorithm;
  }
}

void CheckCompat(const Rule& rule, Compat compat, FaultsAt& faults) {
  if (compat == Compat::kNone) return;
  if (rule.kind == RuleKind::kBreaker && rule.breaker.probes > 1) {
    faults.Error("breaker.probes", "found " + std::to_string(rule.breaker.probes) +
                                       "; with compat sentinel a breaker has 1");
  }
  const bool steps = rule.kind == RuleKind::kLimit && rule.scope == Scope::kLocal &&
                     rule.algorithm == Algorithm::kTokenBucket;
  if (steps && rule.wait != Duration{}) {
    faults.Error("wait",
                 "found with algorithm token_bucket, which with compat sentinel lets nobody wait; "
                 "algorithm leaky_bucket does");
  }
  if (steps && rule.borrow != Duration{}) {
    faults.Error("borrow",
                 "found with algorithm token_bucket, which with compat sentinel lends nothing; "
                 "algorithm sliding_log does");
  }
}

}  // namespace flowguard::rules
