// SPDX-License-Identifier: Apache-2.0
//
// Rules for tests, with the fields that they are about.
#pragma once

#include <string>
#include <utility>

#include "flowguard/rule.h"

namespace flowguard::testing {

inline Rule LimitRule(std::string name, int64_t limit, Duration window) {
  Rule rule;
  rule.name = std::move(name);
  rule.rate = {limit, window};
  return rule;
}

inline Rule ConcurrencyRule(std::string name, int64_t limit) {
  Rule rule;
  rule.name = std::move(name);
  rule.kind = RuleKind::kConcurrency;
  rule.concurrency = limit;
  return rule;
}

inline Rule SharedRule(std::string name, int64_t limit, Duration window,
                       StoreFailurePolicy policy = StoreFailurePolicy::kClosed) {
  Rule rule = LimitRule(std::move(name), limit, window);
  rule.scope = Scope::kShared;
  rule.on_store_failure = policy;
  return rule;
}

}  // namespace flowguard::testing
