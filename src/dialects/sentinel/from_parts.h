// SPDX-License-Identifier: Apache-2.0
//
// What dimensions and conditions of FlowGuard's rules are in Sentinel's, and what a rule
// is converted without.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/rule.h"

#include "dialects/sentinel/differences.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// What a gateway rule counts by, where the dimension is the client's address, the host, a
// header, a URL parameter or a cookie.
[[nodiscard]] std::optional<GatewayParamFlowItem> GatewayItem(const RuleSet& set,
                                                              const std::string& name);

// The index of arg0, arg1, ...; nothing for another name.
[[nodiscard]] std::optional<int32_t> ArgumentIndex(std::string_view name);

// The values under this dimension, or null.
[[nodiscard]] const std::vector<std::string>* ValuesUnder(const std::vector<ValuesOf>& lists,
                                                          std::string_view dimension);

// Units in a second.  Requires: the window is above 0.
[[nodiscard]] double PerSecond(const Rate& rate);

// What no rule of Sentinel's has.
void NoteFields(const RuleAt& at, const Rule& rule, Differences& report);

// What the dimensions that the rule looks at say of requests without them, and how their
// values are compared.
void NoteDimensions(const RuleAt& at, const Rule& rule, const RuleSet& set, Differences& report);

// Of a rule for the others among the origins: which these are is for the other rules of its
// resource to say.
void NoteOthers(const RuleAt& at, const Rule& rule, const RuleSet& set, Differences& report);

// Of a flow rule that refuses at once.
void NoteAlgorithm(const RuleAt& at, const Rule& rule, Differences& report);

}  // namespace flowguard::dialects::sentinel
