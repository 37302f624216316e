// SPDX-License-Identifier: Apache-2.0
//
// Rules of Sentinel's token server, as rules of scope cluster.
#pragma once

#include "dialects/sentinel/rule_maker.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// A flow rule that is of a cluster: its client asks for tokens, whatever grade, origin,
// strategy and behaviour say.  `rule` has a name and a target.
// Requires: `from` is valid, and of a cluster.
void MakeClusterFlowRule(const RuleAt& at, const FlowRule& from, Rule rule, RuleMaker& maker);

// The same of a rule by the values of an argument, which `rule` has as its key.
void MakeClusterParamRule(const RuleAt& at, const ParamFlowRule& from, Rule rule, RuleMaker& maker);

}  // namespace flowguard::dialects::sentinel
