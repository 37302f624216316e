// SPDX-License-Identifier: Apache-2.0
//
// The model back to FlowGuard YAML, in one fixed order of fields, leaving out what
// equals its default.  Reading what was written gives an equal set (origins apart).
// Reading is flowguard/rules_text.h.
#pragma once

#include <string>

#include "flowguard/rule.h"

namespace flowguard::dialects {

// A whole file: match, rules, dimensions.  An empty set is written as `rules: []`.
[[nodiscard]] std::string WriteRules(const RuleSet& rules);

// One rule, as an item of the list under `rules`: its lines begin with "  - name: ".
[[nodiscard]] std::string RuleToYaml(const Rule& rule);

}  // namespace flowguard::dialects
