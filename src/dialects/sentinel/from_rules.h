// SPDX-License-Identifier: Apache-2.0
//
// FlowGuard's rules as Sentinel's: the way back from ToRules.  Sentinel's rules say less,
// so much is left out or changed; the report tells all of it.
#pragma once

#include <vector>

#include "flowguard/rule.h"

#include "dialects/sentinel/differences.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

struct FromRulesResult {
  std::vector<RuleList> lists;  // one for each kind that there are rules of, in Kind's order
  std::vector<Difference> differences;
};

// Every rule that is written is valid for Sentinel.
// Threads: any.
// Cost:    n log n in the number of rules.
[[nodiscard]] FromRulesResult FromRules(const RuleSet& set);

}  // namespace flowguard::dialects::sentinel
