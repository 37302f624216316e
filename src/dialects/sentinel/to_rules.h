// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's rules as FlowGuard's: the same meaning where both have it, and an entry in
// the report for everything else.  docs/sentinel.md has the mapping as a table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/rule.h"

#include "dialects/sentinel/differences.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// The dimensions that converted rules use.  An application gives their values by these
// names; at a server they can be declared with a source.
inline constexpr std::string_view kOriginDimension = "origin";    // Sentinel's limitApp
inline constexpr std::string_view kContextDimension = "context";  // the entrance of a call chain
inline constexpr std::string_view kArgumentDimension = "arg";     // arg0, arg1, ...: paramIdx

// The context of calls that name none.
inline constexpr std::string_view kDefaultContext = "sentinel_default_context";

// QPS up to here is counted call by call, above in kFlowBuckets parts of a second.
inline constexpr int64_t kFlowLogMax = 1'000;
inline constexpr int kFlowBuckets = 60;

struct RuleFile {
  std::string name;  // for the places of rules
  RuleList rules;
};

struct ToRulesResult {
  RuleSet rules;  // names are made from what the rules are about, and stay the same
  std::vector<Difference> differences;
};

// The rules of all files as one set: the meaning of `other`, of default breakers and of
// API groups depends on rules that may stand in another file.  `compat` becomes the set's;
// what counts alike by that is no difference.
// Requires: the rules are valid, as those that were read are.  Whether FlowGuard takes
//           every rule is for rules::Compile to say: of a pattern, a name that is too long.
// Threads:  any.
// Cost:     n log n in the number of rules.
[[nodiscard]] ToRulesResult ToRules(std::span<const RuleFile> files, Compat compat = Compat::kNone);

[[nodiscard]] ToRulesResult ToRules(const RuleList& rules, std::string_view file_name,
                                    Compat compat = Compat::kNone);

}  // namespace flowguard::dialects::sentinel
