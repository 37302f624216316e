// SPDX-License-Identifier: Apache-2.0
//
// A rule set as requests are decided by it: immutable, replaced whole.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/rule.h"

#include "engine/live_rule.h"
#include "engine/registry.h"
#include "rules/compiled_rule.h"

namespace flowguard::engine {

// A rule of the set beside what of it outlives the set.
struct LoadedRule {
  const rules::CompiledRule* compiled = nullptr;
  const LiveRule* live = nullptr;
  const LiveSpec* spec = nullptr;
  BreakerTable* breakers = nullptr;  // breaker rules
  std::unordered_map<const rules::Quota*, const LiveSpec*> overrides;
};

class Snapshot {
 public:
  // Errors: those of Registry.
  static Result<std::unique_ptr<const Snapshot>> Make(const RuleSet& set, rules::RuleTable table,
                                                      Registry& registry, Instant now);

  RuleSet set;  // as loaded
  rules::RuleTable table;
  std::vector<LoadedRule> rules;   // in the order of the set
  std::vector<std::string> marks;  // names of headers that mark degraded requests, in lower case
};

}  // namespace flowguard::engine
