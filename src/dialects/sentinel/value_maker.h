// SPDX-License-Identifier: Apache-2.0
//
// Param-flow and gateway-flow rules: limits by the value of an argument, or of a part of an
// HTTP request.
#pragma once

#include <map>
#include <string>

#include "dialects/sentinel/rule_maker.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// API groups of a gateway by their names.
using ApiGroups = std::map<std::string, const ApiDefinition*, std::less<>>;

void MakeParamFlowRule(const RuleAt& at, const ParamFlowRule& from, RuleMaker& maker);
void MakeGatewayFlowRule(const RuleAt& at, const GatewayFlowRule& from, const ApiGroups& groups,
                         RuleMaker& maker);

}  // namespace flowguard::dialects::sentinel
