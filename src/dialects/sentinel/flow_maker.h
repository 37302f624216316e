// SPDX-License-Identifier: Apache-2.0
//
// Flow rules as limits and bounds of concurrency.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "dialects/sentinel/rule_maker.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// The origins that flow rules of a resource name: the others are `other`.
using OriginsOfResources = std::map<std::string, std::set<std::string>, std::less<>>;
void CollectOrigins(const std::vector<Listed<FlowRule>>& rules, OriginsOfResources& origins);

void MakeFlowRule(const RuleAt& at, const FlowRule& from, const OriginsOfResources& origins,
                  RuleMaker& maker);

}  // namespace flowguard::dialects::sentinel
