// SPDX-License-Identifier: Apache-2.0
//
// Whether java.util.regex would compile a pattern, as far as its brackets, quantifiers
// and escapes tell: Sentinel drops a rule whose pattern does not compile.  What passes
// here may still have the name of an unknown class, or a look-behind of any length.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace flowguard::dialects::sentinel {

struct RegexFault {
  size_t offset = 0;  // byte of the pattern
  std::string what;
};

// The first fault of the pattern, or none.
// Threads: any.  Cost: linear.
[[nodiscard]] std::optional<RegexFault> FindRegexFault(std::string_view pattern);

}  // namespace flowguard::dialects::sentinel
