// SPDX-License-Identifier: Apache-2.0
//
// Which rules Sentinel takes, and which of those do not do what they seem to say.
// Sentinel drops a rule that is not valid with a line in its log.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// `member`: the name, or names with points between them ("clusterConfig.flowId").
struct Reason {
  std::string member;
  std::string what;  // what was found; what is allowed
};

// Why the rule is not valid: all reasons, or none.
[[nodiscard]] std::vector<Reason> ReasonsAgainst(const FlowRule& rule);
[[nodiscard]] std::vector<Reason> ReasonsAgainst(const DegradeRule& rule);
[[nodiscard]] std::vector<Reason> ReasonsAgainst(const SystemRule& rule);
[[nodiscard]] std::vector<Reason> ReasonsAgainst(const AuthorityRule& rule);
[[nodiscard]] std::vector<Reason> ReasonsAgainst(const ParamFlowRule& rule);
[[nodiscard]] std::vector<Reason> ReasonsAgainst(const GatewayFlowRule& rule);
[[nodiscard]] std::vector<Reason> ReasonsAgainst(const ApiDefinition& definition);

// Why the item is skipped although its rule is valid, or nothing.
[[nodiscard]] std::optional<Reason> ReasonAgainst(const ParamFlowItem& item);

// What a valid rule says that Sentinel does not do.
[[nodiscard]] std::vector<Reason> Surprises(const FlowRule& rule);
[[nodiscard]] std::vector<Reason> Surprises(const AuthorityRule& rule);
[[nodiscard]] std::vector<Reason> Surprises(const ParamFlowRule& rule);
[[nodiscard]] std::vector<Reason> Surprises(const GatewayFlowRule& rule);
[[nodiscard]] std::vector<Reason> Surprises(const ApiDefinition& definition);
[[nodiscard]] inline std::vector<Reason> Surprises(const DegradeRule& /*rule*/) {
  return {};
}
[[nodiscard]] inline std::vector<Reason> Surprises(const SystemRule& /*rule*/) {
  return {};
}

}  // namespace flowguard::dialects::sentinel
