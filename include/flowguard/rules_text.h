// SPDX-License-Identifier: Apache-2.0
//
// Rules as text: the FlowGuard YAML of docs/rules.md, or a list of Sentinel's rules in
// JSON (docs/sentinel.md).  Part of FlowGuard::text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flowguard/regex.h"
#include "flowguard/result.h"
#include "flowguard/rule.h"

namespace flowguard {

struct ParsedRules {
  RuleSet rules;
  std::vector<std::string> warnings;  // "rules.yaml:3:5: ..."
};

// A text that is a list at its top, [...], is read as Sentinel's rules, of the kind that the
// file's name and the members tell; what FlowGuard does otherwise is told by warnings.
// Errors:  kInvalidArgument, one line per fault, each "file:line:column: what was
//          found; what is allowed", with "did you mean" for a misspelt word.
// Threads: any.
// Cost:    n log n in the size of the text.
Result<ParsedRules> ParseRules(std::string_view text, std::string_view file_name);

// The regular expressions of RE2 (UTF-8, https://github.com/google/re2/wiki/Syntax), for
// RuleSet::regex: ParseRules sets it.  Lives as long as the program.
// Their bounds: a pattern of 1024 bytes, a program of 5000 instructions, 1 MiB of memory.
[[nodiscard]] const RegexEngine& Re2();

// One rule from the short form of the command line:
//   N/unit [burst B] [per DIMENSION[,DIMENSION]] [algorithm NAME] [on "METHOD /route"]
Result<Rule> ParseLimit(std::string_view text);

}  // namespace flowguard
