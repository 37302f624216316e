// SPDX-License-Identifier: Apache-2.0
//
// A list of Sentinel's rules from JSON, as lenient as Sentinel itself: see docs/sentinel.md.
// Both forms are read: the rules themselves, and the entities of its dashboard, which have
// the rule within (authority, param-flow) or say an interval by its unit (gateway-flow).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"

#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// What becomes of what Sentinel would pass over with a line in its log: a rule that is
// not valid, a member that stands twice, a file with nothing in it.
enum class Profile : uint8_t {
  kDefault,  // an error: the list is not taken
  kCompat,   // a warning: the rule is dropped, as Sentinel does
};

struct ReadOptions {
  std::optional<Kind> kind;  // none: as the file's name and the members tell
  Profile profile = Profile::kDefault;
};

struct ReadList {
  RuleList rules;                     // without those that were dropped, and those that repeat
  std::vector<std::string> warnings;  // "flow-rules.json:3:5: flow rule #2: ..."
};

// Errors: kInvalidArgument, one line per fault, each "file:line:column: what was found;
//         what is allowed": text that is no JSON, no list, of an unclear kind, a value
//         that does not fit its member (Sentinel then rejects the whole list), and with
//         kDefault also what Profile says.
// Threads: any.
// Cost:   n log n in the size of the text.
Result<ReadList> ReadRules(std::string_view json, std::string_view file_name,
                           const ReadOptions& options = {});

}  // namespace flowguard::dialects::sentinel
