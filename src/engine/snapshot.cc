// SPDX-License-Identifier: Apache-2.0
#include "engine/snapshot.h"

#include <algorithm>
#include <utility>

#include "base/try.h"
#include "rules/dimension.h"

namespace flowguard::engine {
namespace {

Result<void> LoadOne(const rules::CompiledRule& compiled, Registry& registry, Instant now,
                     LoadedRule& loaded) {
  loaded.compiled = &compiled;
  FG_ASSIGN_OR_RETURN(loaded.live, registry.Intern(compiled));
  if (compiled.rule.kind == RuleKind::kBreaker) {
    FG_ASSIGN_OR_RETURN(loaded.breakers, registry.BreakersOf(compiled));
  }
  if (!CountsUnits(compiled.rule.kind)) return {};
  FG_ASSIGN_OR_RETURN(loaded.spec, registry.InternSpec(compiled, compiled.quota, now));
  loaded.overrides.reserve(compiled.overrides.size());
  for (const rules::Quota& quota : compiled.overrides) {
    FG_ASSIGN_OR_RETURN(loaded.overrides[&quota], registry.InternSpec(compiled, quota, now));
  }
  return {};
}

std::vector<std::string> MarksOf(const RuleSet& set) {
  std::vector<std::string> names;
  for (const Rule& rule : set.rules) {
    if (!rule.enabled || !rule.degrade.enabled || rule.degrade.status != 0) continue;
    const std::string_view line = rules::MarkOf(rule.degrade);
    std::string name(line.substr(0, line.find(':')));
    std::transform(name.begin(), name.end(), name.begin(), rules::AsciiLower);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<const Snapshot>> Snapshot::Make(const RuleSet& set, rules::RuleTable table,
                                                       Registry& registry, Instant now) {
  registry.BeginLoad();
  auto snapshot = std::make_unique<Snapshot>();
  snapshot->set = set;
  snapshot->marks = MarksOf(set);
  snapshot->table = std::move(table);
  snapshot->rules.resize(snapshot->table.rules.size());
  for (size_t i = 0; i < snapshot->rules.size(); ++i) {
    FG_RETURN_IF_ERROR(LoadOne(snapshot->table.rules[i], registry, now, snapshot->rules[i]));
    snapshot->table.rules[i].info = &snapshot->rules[i].live->info;
  }
  return std::unique_ptr<const Snapshot>(std::move(snapshot));
}

}  // namespace flowguard::engine
