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
#include "engine/statistics.h"
#include "rules/compiled_rule.h"
#include "stats/stats_table.h"

namespace flowguard::engine {

// A rule of the set beside what of it outlives the set.
struct LoadedRule {
  const rules::CompiledRule* compiled = nullptr;
  const LiveRule* live = nullptr;
  const LiveSpec* spec = nullptr;
  BreakerTable* breakers = nullptr;  // breaker rules
  // What statistics call requests that ask for the rule's own resource, or meet its route.
  std::string_view counted_as;
  bool by_name_alone = false;  // only calls of the resource `counted_as` meet it
  stats::StatsRef stats;
  std::unordered_map<const rules::Quota*, const LiveSpec*> overrides;

  // The numbers of `quota`, which is the rule's own or that of an override.
  [[nodiscard]] const LiveSpec* SpecFor(const rules::Quota& quota) const noexcept {
    if (&quota == &compiled->quota) [[likely]] {
      return spec;
    }
    return overrides.find(&quota)->second;
  }
};

// What the enabled system rules of a set look at.
struct SystemLooks {
  bool any = false;
  bool calls = false;     // the calls in progress
  bool requests = false;  // the requests of the last second
  bool looks = false;     // what the statistics of the entrance say
  bool cpu = false;
  bool load = false;

  // Every request is counted for them.
  [[nodiscard]] bool counts() const noexcept { return calls || requests; }
};

class Snapshot {
 public:
  // Of no rules.
  explicit Snapshot(const Statistics& statistics);

  // Errors: those of Registry.
  static Result<std::unique_ptr<const Snapshot>> Make(const RuleSet& set, rules::RuleTable table,
                                                      Registry& registry,
                                                      const Statistics& statistics, Instant now);

  RuleSet set;  // as loaded
  rules::RuleTable table;
  std::vector<LoadedRule> rules;  // in the order of the set
  SystemLooks systems;
  bool counts;                                      // requests are counted in statistics
  const rules::Dimension* origin = &GivenOrigin();  // names the caller
  std::vector<std::string> marks;  // names of headers that mark degraded requests, in lower case
};

}  // namespace flowguard::engine
