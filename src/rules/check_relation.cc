// SPDX-License-Identifier: Apache-2.0
//
// Rules that count the calls of another resource: what they can be, and what of a rule
// means nothing when the requests that it refuses take nothing of it.
#include <string>

#include "rules/check_rule.h"
#include "rules/route.h"

namespace flowguard::rules {
namespace {

void CheckResource(const Rule& rule, FaultsAt& faults) {
  const auto pattern = ParseResource(rule.relate_to);
  if (!pattern.ok()) {
    faults.Error("relate_to", pattern.error().message);
  } else if (pattern->prefix) {
    faults.Error("relate_to", "found \"" + rule.relate_to + "\"; it names one resource, no prefix");
  }
  const Target& on = rule.on;
  if (on.resource == rule.relate_to && on.resource_regex.empty() && on.route.empty()) {
    faults.Error("relate_to",
                 "found the resource that the rule is on, so that it refuses nothing; "
                 "without relate_to it counts and refuses the same calls");
  }
}

}  // namespace

void CheckRelation(const Rule& rule, FaultsAt& faults) {
  if (rule.relate_to.empty()) return;
  if (!CountsUnits(rule.kind)) {
    faults.Misplaced("relate_to", "rules of kind limit or concurrency");
    return;
  }
  CheckResource(rule, faults);
  const Rule defaults;
  const auto beside = [&](std::string_view field, bool found, std::string_view why) {
    if (found) faults.Error(field, "found beside relate_to; " + std::string(why));
  };
  beside("scope", rule.scope != Scope::kLocal, "its cell is local");
  beside("by", !rule.by.empty(), "all calls of the resource count in one cell");
  if (rule.kind != RuleKind::kLimit) return;
  beside("wait", rule.wait != defaults.wait,
         "a request that takes nothing has no turn to wait for");
  beside("borrow", rule.borrow != defaults.borrow,
         "a request that takes nothing has nothing to borrow");
  beside("count_refused", rule.count_refused, "refused requests are not what it counts");
  beside("cost", rule.cost != defaults.cost, "a call counts as the cost that it is made with");
  const bool pays_forward =
      rule.algorithm == Algorithm::kSmoothBursty || rule.algorithm == Algorithm::kWarmUp;
  beside("algorithm", pays_forward,
         std::string(NameOf(rule.algorithm)) +
             " lets every call go at the cost of the next, and is never used up");
}

}  // namespace flowguard::rules
