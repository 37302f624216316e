// SPDX-License-Identifier: Apache-2.0
//
// Short forms for tests that convert Sentinel's rules.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dialects/sentinel/reader.h"
#include "dialects/sentinel/to_rules.h"

namespace flowguard::dialects::sentinel {

// The file is called "f".
inline RuleFile FileOf(Kind kind, std::string_view json) {
  auto read = ReadRules(json, "f", {kind, Profile::kDefault});
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
  return {"f", read.ok() ? std::move(read->rules) : RuleList()};
}

inline ToRulesResult Convert(Kind kind, std::string_view json) {
  const RuleFile file = FileOf(kind, json);
  return ToRules({&file, 1});
}

// Of the resource "r" with these members.
inline std::string OnR(std::string_view members) {
  return "[{\"resource\":\"r\"," + std::string(members) + "}]";
}

inline Rule OnlyRule(const ToRulesResult& made) {
  EXPECT_EQ(made.rules.rules.size(), 1u);
  return made.rules.rules.empty() ? Rule() : made.rules.rules.front();
}

using Names = std::vector<std::string>;

inline Target On(std::string resource, std::string route = {}, std::string regex = {}) {
  Target on;
  on.resource = std::move(resource);
  on.route = std::move(route);
  on.resource_regex = std::move(regex);
  return on;
}

inline DimensionSpec DimensionOf(const RuleSet& set, std::string_view name) {
  const auto found = std::find_if(set.dimensions.begin(), set.dimensions.end(),
                                  [name](const DimensionSpec& spec) { return spec.name == name; });
  EXPECT_NE(found, set.dimensions.end()) << name;
  return found == set.dimensions.end() ? DimensionSpec() : *found;
}

// The lines of the report that begin with this field, a line each without their rule.
inline std::string Told(const std::vector<Difference>& differences, std::string_view field) {
  std::string lines;
  for (const Difference& one : differences) {
    if (one.field != field) continue;
    lines += lines.empty() ? "" : "\n";
    lines += one.left_out ? "left out: " : "";
    lines += one.sentinel + "; " + one.flowguard;
  }
  return lines;
}

}  // namespace flowguard::dialects::sentinel
