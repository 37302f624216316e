// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's rules as the JSON that Sentinel itself writes: strict, one line, members in
// the order of the alphabet, nothing that is null, a point in every double.  It reads
// back as the same rules.
#pragma once

#include <string>
#include <string_view>

#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// The list as a document.  Requires: every double is finite, as those that were read are.
// Threads: any.  Cost: linear.
[[nodiscard]] std::string WriteRules(const RuleList& rules);

// The list as Sentinel's dashboard stores it for the application `app`: with app and id (by
// the place in the list) beside the members; authority and param-flow rules within, under
// rule; intervalSec of gateway-flow rules as interval and its largest unit.
[[nodiscard]] std::string WriteEntities(const RuleList& rules, std::string_view app);

[[nodiscard]] std::string WriteRule(const FlowRule& rule);
[[nodiscard]] std::string WriteRule(const DegradeRule& rule);
[[nodiscard]] std::string WriteRule(const SystemRule& rule);
[[nodiscard]] std::string WriteRule(const AuthorityRule& rule);
[[nodiscard]] std::string WriteRule(const ParamFlowRule& rule);
[[nodiscard]] std::string WriteRule(const GatewayFlowRule& rule);
[[nodiscard]] std::string WriteRule(const ApiDefinition& definition);

}  // namespace flowguard::dialects::sentinel
