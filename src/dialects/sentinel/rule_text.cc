// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/rule_text.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/try.h"
#include "dialects/sentinel/reader.h"
#include "dialects/sentinel/to_rules.h"

namespace flowguard::dialects::sentinel {

bool IsRuleList(std::string_view text) noexcept {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty()) {
    size_t end = text.find_first_not_of(" \t\r\n\f\b");
    if (end == 0) {
      if (text.starts_with("//")) {
        end = text.find('\n');
      } else if (text.starts_with("/*")) {
        end = text.find("*/", 2);
        if (end != std::string_view::npos) end += 2;
      } else {
        return text.front() == '[';
      }
    }
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end);
  }
  return false;
}

Result<ParsedRules> ParseRuleList(std::string_view json, std::string_view file_name) {
  FG_ASSIGN_OR_RETURN(ReadList read, ReadRules(json, file_name));
  ToRulesResult made = ToRules(read.rules, file_name);
  ParsedRules parsed{std::move(made.rules), std::move(read.warnings)};
  // Resources without their protection come first, and are all told.
  const auto rest =
      std::stable_partition(made.differences.begin(), made.differences.end(),
                            [](const Difference& difference) { return difference.left_out; });
  for (auto one = made.differences.begin(); one != rest; ++one)
    parsed.warnings.push_back(LineOf(*one));
  size_t untold = 0;
  for (auto one = rest; one != made.differences.end(); ++one) {
    if (parsed.warnings.size() < base::kTextFaultsMax) {
      parsed.warnings.push_back(LineOf(*one));
    } else {
      ++untold;
    }
  }
  if (untold > 0) {
    parsed.warnings.push_back(std::string(file_name) + ": and " + std::to_string(untold) +
                              " more differences, which `flowguard convert` tells");
  }
  return parsed;
}

}  // namespace flowguard::dialects::sentinel
