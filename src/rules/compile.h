// SPDX-License-Identifier: Apache-2.0
//
// From the plain rule model to the table that requests are decided by.  Here every
// rule is checked, whether it came from a file or from a program.
#pragma once

#include "flowguard/result.h"
#include "flowguard/rule.h"

#include "rules/compiled_rule.h"

namespace flowguard::rules {

struct CompileOptions {
  bool remote_allowed = false;   // a store for rules with scope shared exists
  bool cluster_allowed = false;  // token servers for rules with scope cluster are known
};

// Errors: kInvalidArgument with everything that is wrong, a line for each:
// `ORIGIN: rule "NAME": FIELD: what was found; what is allowed` (without ORIGIN for
// rules that have none).
[[nodiscard]] Result<RuleTable> Compile(const RuleSet& set, const CompileOptions& options);

}  // namespace flowguard::rules
