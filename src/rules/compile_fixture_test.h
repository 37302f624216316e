// SPDX-License-Identifier: Apache-2.0
//
// Rule sets, what they compile to, and what is said of them.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rules/compile.h"

namespace flowguard::rules {

inline Rule Limit(std::string name, int64_t limit = 100,
                  Duration window = std::chrono::seconds(1)) {
  Rule rule;
  rule.name = std::move(name);
  rule.rate = {limit, window};
  return rule;
}

inline RuleSet Set(std::vector<Rule> rules) {
  RuleSet set;
  set.rules = std::move(rules);
  return set;
}

inline DimensionSpec Declared(std::string name, std::string source) {
  DimensionSpec spec;
  spec.name = std::move(name);
  spec.source = std::move(source);
  return spec;
}

inline RuleTable Good(const RuleSet& set, bool remote_allowed = false) {
  auto table = Compile(set, {.remote_allowed = remote_allowed, .cluster_allowed = remote_allowed});
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.ok() ? *std::move(table) : RuleTable();
}

inline std::vector<std::string> Errors(const RuleSet& set, bool remote_allowed = false) {
  auto table = Compile(set, {.remote_allowed = remote_allowed, .cluster_allowed = remote_allowed});
  std::vector<std::string> lines;
  if (table.ok()) return lines;
  EXPECT_EQ(table.error().code, ErrorCode::kInvalidArgument);
  std::string line;
  for (const char c : table.error().message + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    lines.push_back(line);
    line.clear();
  }
  return lines;
}

}  // namespace flowguard::rules
