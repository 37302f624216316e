// SPDX-License-Identifier: Apache-2.0
//
// Rules of scope cluster, and shared limits, as those of Sentinel's token server.
#pragma once

#include "flowguard/rule.h"

#include "dialects/sentinel/differences.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// What the token server is told of a rule, beside its resource.  False: told, and the rule
// cannot be said.
// Requires: a limit or concurrency rule of scope cluster; of SetClusterParam a limit, by an
//           argument alone.
[[nodiscard]] bool SetClusterFlow(const RuleAt& at, const Rule& rule, FlowRule& flow,
                                  Differences& report);
[[nodiscard]] bool SetClusterParam(const RuleAt& at, const Rule& rule, ParamFlowRule& param,
                                   Differences& report);

// The same of a shared limit, which a token server can count as well: by a number that the
// dashboard holds exactly.
// Requires: the token server can say the rest of it.
void SetSharedFlow(const RuleAt& at, const Rule& rule, FlowRule& flow, Differences& report);

}  // namespace flowguard::dialects::sentinel
