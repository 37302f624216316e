// SPDX-License-Identifier: Apache-2.0
#include "app/rule_split.h"

#include <string_view>
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

std::vector<serve::TokenNamespace> TokenNamespaces(const RuleSet& tokens,
                                                   int64_t questions_per_second) {
  RuleSet empty = tokens;
  const std::vector<Rule> all = std::exchange(empty.rules, {});
  std::vector<serve::TokenNamespace> spaces;
  const auto space_of = [&](std::string_view name) -> serve::TokenNamespace& {
    for (serve::TokenNamespace& space : spaces) {
      if (space.name == name) return space;
    }
    return spaces.emplace_back(serve::TokenNamespace{
        .name = std::string(name), .rules = empty, .questions_per_second = questions_per_second});
  };
  space_of(serve::kDefaultNamespace);
  for (const Rule& rule : all) {
    const std::string& name = rule.cluster.name_space;
    space_of(name.empty() ? serve::kDefaultNamespace : name).rules.rules.push_back(rule);
  }
  return spaces;
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
