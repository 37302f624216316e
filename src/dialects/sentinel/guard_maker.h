// SPDX-License-Identifier: Apache-2.0
//
// Degrade, authority and system rules: those that count no units.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "dialects/sentinel/rule_maker.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// Sentinel's name for all resources that have no breaker of their own.
inline constexpr std::string_view kEveryResource = "*";

// The resources that have degrade rules of their own.
struct OwnBreakers {
  std::set<std::string, std::less<>> resources;
  bool regex = false;  // some by a pattern
};
void CollectOwnBreakers(const std::vector<Listed<DegradeRule>>& rules, OwnBreakers& own);

void MakeBreaker(const RuleAt& at, const DegradeRule& from, const OwnBreakers& own,
                 RuleMaker& maker);
void MakeAccess(const RuleAt& at, const AuthorityRule& from, RuleMaker& maker);
void MakeSystem(const RuleAt& at, const SystemRule& from, RuleMaker& maker);

}  // namespace flowguard::dialects::sentinel
