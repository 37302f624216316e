// SPDX-License-Identifier: Apache-2.0
#include "app/rule_split.h"

#include <utility>

namespace flowguard::app {

SplitRules SplitTokenRules(const RuleSet& rules) {
  SplitRules split;
  split.others = rules;
  std::vector<Rule> all = std::exchange(split.others.rules, {});
  split.tokens = split.others;
  for (Rule& rule : all) {
    RuleSet& owner = rule.scope == Scope::kCluster ? split.tokens : split.others;
    owner.rules.push_back(std::move(rule));
  }
  return split;
}

std::vector<std::string> TokenWarnings(const SplitRules& split, bool tokens_alone) {
  std::vector<std::string> warnings;
  if (split.tokens.rules.empty()) {
    warnings.emplace_back(
        "the token server has no rule: no rule has scope: cluster, and every question is answered "
        "that there is none");
  }
  if (!tokens_alone) return warnings;
  for (const Rule& rule : split.others.rules) {
    if (!rule.enabled) continue;
    warnings.push_back((rule.origin.empty() ? "" : rule.origin + ": ") + "rule \"" + rule.name +
                       "\": scope: nobody asks it, for no door is open but the token server, whose "
                       "rules have scope: cluster");
  }
  return warnings;
}

}  // namespace flowguard::app
