// SPDX-License-Identifier: Apache-2.0
//
// A file of Sentinel's rules where a file of FlowGuard's may stand.
#pragma once

#include <string_view>

#include "flowguard/result.h"
#include "flowguard/rules_text.h"

namespace flowguard::dialects::sentinel {

// Whether the text is a list at its top, as Sentinel's rules are; FlowGuard's are a map.
// Only the first character counts, behind white space, comments and a byte order mark.
[[nodiscard]] bool IsRuleList(std::string_view text) noexcept;

// The list as FlowGuard's rules; what changes its meaning is among the warnings.
// Errors:  as ReadRules, by the default profile.
// Threads: any.
Result<ParsedRules> ParseRuleList(std::string_view json, std::string_view file_name);

}  // namespace flowguard::dialects::sentinel
