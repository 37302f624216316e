// SPDX-License-Identifier: Apache-2.0
//
// Values of hot parameters as questions to a token server have them, from the texts of rules.
//
// Threads: plain functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/rule.h"

namespace flowguard::serve {

// Kind and payload of the value that `text` writes: 7 as an int is another value than 7 as a
// long or "7".  Nothing: it writes no value of the type, or one that is out of its range.
// Requires: a type other than kAny.
[[nodiscard]] std::optional<std::string> EncodeTokenValue(ValueType type, std::string_view text);

// The same for all values that an override of the type is for: one, and of kAny those of every
// type that `text` is the canonical text of (rules::CanonicalText), the text itself among
// them.
[[nodiscard]] std::vector<std::string> EncodeTokenValues(ValueType type, std::string_view text);

}  // namespace flowguard::serve
