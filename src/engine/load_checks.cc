// SPDX-License-Identifier: Apache-2.0
#include "engine/load_checks.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "rules/check_rule.h"
#include "rules/faults.h"

namespace flowguard::engine {
namespace {

using rules::CompiledRule;
using rules::Quota;

// Whether nothing but windows tells the cells of the two apart.
bool AreAlike(const CompiledRule& one, const CompiledRule& other) {
  return one.rule.kind == RuleKind::kLimit && other.rule.kind == RuleKind::kLimit &&
         one.rule.algorithm == other.rule.algorithm && one.rule.scope == other.rule.scope &&
         one.rule.by == other.rule.by && one.rule.relate_to == other.rule.relate_to &&
         rules::IsWindowed(one.rule.algorithm);
}

bool StartsAnew(const CompiledRule& before, const CompiledRule& after) {
  if (before.quota.identity != after.quota.identity) return true;
  for (size_t i = 0; i < after.overrides.size(); ++i) {
    const std::string& value = after.rule.overrides[i].value;
    if (before.QuotaFor(value).identity != after.overrides[i].identity) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> NewCellWarnings(const Snapshot& before, const rules::RuleTable& table) {
  std::unordered_map<std::string_view, const CompiledRule*> by_name;
  for (const CompiledRule& rule : before.table.rules)
    by_name.emplace(rule.rule.name, &rule);
  rules::Faults faults;
  for (const CompiledRule& rule : table.rules) {
    const auto found = by_name.find(rule.rule.name);
    if (found == by_name.end() || !AreAlike(*found->second, rule)) continue;
    if (!StartsAnew(*found->second, rule)) continue;
    rules::FaultsAt(rules::WhereOf(rule.rule, rule.index), faults)
        .Warning("rate",
                 "the window, its buckets or borrow changed; the cells of this rule start anew");
  }
  return std::move(faults.warnings);
}

Result<void> CheckRoom(const store::StateMap& states, const rules::RuleTable& table) {
  std::string errors;
  for (const CompiledRule& rule : table.rules) {
    if (rule.remote()) continue;
    const auto fits = [&](const Quota& quota) {
      return !quota.spec || quota.spec->one_word() || states.Fits(quota.spec->words());
    };
    const bool all_fit =
        fits(rule.quota) && std::all_of(rule.overrides.begin(), rule.overrides.end(), fits);
    if (all_fit) continue;
    if (!errors.empty()) errors += '\n';
    errors += rules::WhereOf(rule.rule, rule.index) +
              ": algorithm: the state of one key is larger than what all states together may "
              "have, " +
              std::to_string(states.Stats().max_bytes) + " bytes";
  }
  if (errors.empty()) return {};
  return Error::InvalidArgument(std::move(errors));
}

}  // namespace flowguard::engine
