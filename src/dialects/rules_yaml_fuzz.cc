// SPDX-License-Identifier: Apache-2.0
//
// Whatever the bytes: reading rules ends with a set or with an error that says where,
// and a set that was read is written so that it reads back the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "flowguard/rules_text.h"

#include "base/check.h"
#include "dialects/config_yaml.h"
#include "dialects/rules_writer.h"
#include "dialects/same_rules.h"
#include "dialects/sentinel/rule_text.h"
#include "rules/compile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = flowguard::ParseRules(text, "f");
  // Lists of Sentinel's have names and numbers that no rule of FlowGuard's can; what checks
  // a set tells them.
  const bool brought = flowguard::dialects::sentinel::IsRuleList(text);
  if (brought && parsed.ok() && !flowguard::rules::Compile(parsed->rules, {}).ok()) return 0;
  if (parsed.ok()) {
    const std::string written = flowguard::dialects::WriteRules(parsed->rules);
    const auto again = flowguard::ParseRules(written, "g");
    FG_CHECK(again.ok());
    FG_CHECK(flowguard::dialects::SameRules(parsed->rules, again->rules));
    FG_CHECK(flowguard::dialects::WriteRules(again->rules) == written);
  } else {
    FG_CHECK(parsed.error().message.substr(0, 2) == "f:");
  }
  static_cast<void>(flowguard::dialects::ParseConfig(text, "f"));
  static_cast<void>(flowguard::ParseLimit(text));
  return 0;
}
