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

SystemLooks LooksOf(const RuleSet& set) {
  SystemLooks looks;
  for (const Rule& rule : set.rules) {
    if (!rule.enabled || rule.kind != RuleKind::kSystem) continue;
    const SystemRule& system = rule.system;
    looks.any = true;
    looks.calls |= system.inflight.has_value();
    looks.requests |= system.qps.has_value();
    looks.looks |= system.avg_rt.has_value() || system.load.has_value();
    looks.cpu |= system.cpu.has_value();
    looks.load |= system.load.has_value();
  }
  return looks;
}

// Requests of a rule that names what it protects need no look-up.  Kept places cannot be
// taken by newcomers: at most half of them are, and none of those that others share.
void KeepStatistics(const Statistics& statistics, Instant now, size_t& kept, LoadedRule& loaded) {
  const Rule& rule = loaded.compiled->rule;
  const bool named = !rule.on.resource.empty() && !rule.on.resource.ends_with('*');
  loaded.counted_as = named ? rule.on.resource : rule.on.route;
  loaded.by_name_alone =
      named && rule.on.route.empty() && rule.on.resource_regex.empty() && rule.relate_to.empty();
  if (statistics.table() == nullptr || loaded.counted_as.empty() || !rule.enabled) return;
  if (kept >= statistics.table()->Max() / 2) return;
  stats::StatsRef place = statistics.table()->Get(loaded.counted_as, {}, now);
  if (place.get() == &statistics.table()->Others()) return;
  loaded.stats = std::move(place);
  ++kept;
}

}  // namespace

Snapshot::Snapshot(const Statistics& statistics) : counts(statistics.table() != nullptr) {}

Result<std::unique_ptr<const Snapshot>> Snapshot::Make(const RuleSet& set, rules::RuleTable table,
                                                       Registry& registry,
                                                       const Statistics& statistics, Instant now) {
  registry.BeginLoad();
  auto snapshot = std::make_unique<Snapshot>(statistics);
  snapshot->set = set;
  snapshot->systems = LooksOf(set);
  snapshot->counts = snapshot->counts || snapshot->systems.any;
  snapshot->marks = MarksOf(set);
  snapshot->table = std::move(table);
  snapshot->rules.resize(snapshot->table.rules.size());
  size_t kept = 0;
  for (size_t i = 0; i < snapshot->rules.size(); ++i) {
    FG_RETURN_IF_ERROR(LoadOne(snapshot->table.rules[i], registry, now, snapshot->rules[i]));
    snapshot->table.rules[i].info = &snapshot->rules[i].live->info;
    KeepStatistics(statistics, now, kept, snapshot->rules[i]);
  }
  for (const rules::Dimension& dimension : snapshot->table.dimensions) {
    if (dimension.name == kOriginDimension) snapshot->origin = &dimension;
  }
  return std::unique_ptr<const Snapshot>(std::move(snapshot));
}

}  // namespace flowguard::engine
