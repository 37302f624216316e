// SPDX-License-Identifier: Apache-2.0
//
// Short forms for tests that read Sentinel's rules.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "dialects/sentinel/reader.h"
#include "dialects/sentinel/writer.h"

namespace flowguard::dialects::sentinel {

// The file is called "f", which tells no kind.
inline Result<ReadList> ReadAs(Kind kind, std::string_view json,
                               Profile profile = Profile::kDefault) {
  return ReadRules(json, "f", {kind, profile});
}

// The rules as they are written, or the error.
inline std::string RulesOf(Kind kind, std::string_view json, Profile profile = Profile::kDefault) {
  const auto read = ReadAs(kind, json, profile);
  return read.ok() ? WriteRules(read->rules) : read.error().message;
}

inline std::string ErrorOf(Kind kind, std::string_view json, Profile profile = Profile::kDefault) {
  const auto read = ReadAs(kind, json, profile);
  return read.ok() ? "ok" : read.error().message;
}

// The warnings, a line each, or the error.
inline std::string WarningsOf(Kind kind, std::string_view json,
                              Profile profile = Profile::kDefault) {
  const auto read = ReadAs(kind, json, profile);
  if (!read.ok()) return read.error().message;
  std::string lines;
  for (const std::string& warning : read->warnings)
    lines += (lines.empty() ? "" : "\n") + warning;
  return lines;
}

// The only rule of the text.
template <typename Rule>
Rule OneRule(Kind kind, std::string_view json) {
  const auto read = ReadAs(kind, json);
  EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().message);
  if (!read.ok()) return {};
  const auto* rules = std::get_if<std::vector<Listed<Rule>>>(&read->rules);
  EXPECT_TRUE(rules != nullptr && rules->size() == 1) << json;
  return rules != nullptr && rules->size() == 1 ? rules->front().rule : Rule();
}

// A flow rule on the resource "r" with these members.
inline FlowRule Flow(const std::string& members) {
  return OneRule<FlowRule>(Kind::kFlow, "[{\"resource\":\"r\"," + members + "}]");
}

inline std::string FlowError(const std::string& members) {
  return ErrorOf(Kind::kFlow, "[{\"resource\":\"r\"," + members + "}]");
}

}  // namespace flowguard::dialects::sentinel
