// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/try.h"
#include "engine/attempt.h"
#include "engine/conditions.h"
#include "engine/engine_impl.h"
#include "engine/load_checks.h"
#include "rules/compile.h"

namespace flowguard::engine {
namespace {

// Whether `name` is `lower`, in any case of its letters.
bool IsLowered(std::string_view name, std::string_view lower) noexcept {
  return std::equal(name.begin(), name.end(), lower.begin(), lower.end(),
                    [](char given, char wanted) { return rules::AsciiLower(given) == wanted; });
}

// Out of line, that sets without conditions have no more of it than the branch.
[[gnu::noinline]] void MatchConditional(const Snapshot& snapshot, const RequestView& request,
                                        rules::MatchSet& matches) noexcept {
  const RequestConditions conditions(snapshot, request);
  snapshot.table.matcher.Match(request.resource, request.method, request.path, matches,
                               &conditions);
}

}  // namespace

Attempt::~Attempt() {
  FG_DCHECK(!waiting() && !entered() && !remote_pending());
}

Engine::Impl::Impl(const EngineOptions& with, std::unique_ptr<Cells> owned,
                   std::unique_ptr<Statistics> counted) noexcept
    : options(with),
      cells(std::move(owned)),
      statistics(std::move(counted)),
      nodes(std::clamp(with.fallback_nodes, 0, base::kNodesMax)),
      cluster_nodes(std::clamp(with.cluster_nodes, 0, base::kNodesMax)),
      ground{*cells,
             board,
             gate,
             *statistics,
             nodes,
             cluster_nodes,
             with.hash_seed != 0 ? with.hash_seed : base::RandomSeed()},
      snapshots(std::make_unique<Snapshot>(*statistics)),
      registry(with.breaker_listener) {}

void Engine::Impl::CountLoadFailure() {
  const base::MutexLock lock(report_mutex);
  ++load_failures;
}

void Engine::Impl::Report(const Snapshot& snapshot) {
  const base::MutexLock lock(report_mutex);
  for (Account& account : accounts)
    account.loaded = false;
  for (size_t number = accounts.size(); number < registry.names().size(); ++number) {
    accounts.push_back({.name = registry.names()[number]});
  }
  for (const LoadedRule& loaded : snapshot.rules) {
    Account& account = accounts[loaded.live->account];
    account.kind = loaded.live->info.kind;
    account.shadow = loaded.live->info.shadow;
    account.loaded = true;
    account.breakers = loaded.breakers;
  }
  ++loads;
}

Engine::Engine(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  FG_ASSIGN_OR_RETURN(auto cells, Cells::Create(options.cell_capacity, options.state_bytes));
  FG_ASSIGN_OR_RETURN(
      auto statistics,
      Statistics::Create(options.statistics, options.stats_max,
                         options.hash_seed != 0 ? options.hash_seed : base::RandomSeed()));
  return std::unique_ptr<Engine>(
      new Engine(std::make_unique<Impl>(options, std::move(cells), std::move(statistics))));
}

Result<void> Engine::Load(const RuleSet& rules, std::vector<std::string>* warnings, Instant now) {
  Impl& impl = *impl_;
  auto table = rules::Compile(rules, {.remote_allowed = impl.options.remote_allowed,
                                      .cluster_allowed = impl.options.cluster_allowed});
  if (!table.ok()) {
    impl.CountLoadFailure();
    return std::move(table).error();
  }
  if (Result<void> room = CheckRoom(impl.cells->states(), *table); !room.ok()) {
    impl.CountLoadFailure();
    return std::move(room).error();
  }
  const base::MutexLock lock(impl.load_mutex);
  if (warnings != nullptr) {
    *warnings = table->warnings;
    impl.WarnOfSmallShares(*table, *warnings);
    std::ranges::move(NewCellWarnings(*impl.snapshots.Get(), *table),
                      std::back_inserter(*warnings));
  }
  auto snapshot = Snapshot::Make(rules, *std::move(table), impl.registry, *impl.statistics, now);
  if (!snapshot.ok()) {
    impl.CountLoadFailure();
    return std::move(snapshot).error();
  }
  const Snapshot& swapped_in = **snapshot;  // until the next load, which waits for the lock
  const bool marks = !swapped_in.marks.empty();
  if (marks) impl.marks.store(true, std::memory_order_release);
  impl.limits_cpu.store(swapped_in.systems.cpu, std::memory_order_relaxed);
  impl.limits_load.store(swapped_in.systems.load, std::memory_order_relaxed);
  impl.snapshots.Replace(*std::move(snapshot));
  if (!marks) impl.marks.store(false, std::memory_order_release);
  impl.Report(swapped_in);
  return {};
}

void Engine::Impl::WarnOfSmallShares(const rules::RuleTable& table,
                                     std::vector<std::string>& warnings) const {
  for (const rules::CompiledRule& compiled : table.rules) {
    const Rule& rule = compiled.rule;
    const bool cluster = rule.scope == Scope::kCluster;
    if (cluster && rule.cluster.per_client) continue;  // each has the whole limit
    const int count = (cluster ? cluster_nodes : nodes).load(std::memory_order_relaxed);
    const bool concurrency = rule.kind == RuleKind::kConcurrency;
    const int64_t limit = concurrency ? rule.concurrency : rule.rate.limit;
    const bool falls_back =
        rule.enabled && compiled.remote() && rule.on_store_failure == StoreFailurePolicy::kLocal;
    if (!falls_back || limit <= 0 || limit >= count) continue;
    warnings.push_back((rule.origin.empty() ? "" : rule.origin + ": ") + "rule \"" + rule.name +
                       "\": on_store_failure: a limit of " + std::to_string(limit) + " over " +
                       std::to_string(count) +
                       " nodes leaves less than 1 for each; while the store is away each grants 1 "
                       "at once");
  }
}

Step Engine::Begin(Attempt& attempt, const RequestView& request, Mode mode, Instant now) noexcept {
  Impl& impl = *impl_;
  const size_t slot = base::ThreadSlot();  // found once a decision
  Walk walk(impl.ground, attempt, now, slot);
  walk.Start(mode, request);
  if (mode != Mode::kPeek) impl.Count(slot, now);
  if (request.cost < 0 || request.cost > base::kCostMax) [[unlikely]] {
    walk.RefuseCost();
    return Step::kDone;
  }
  const auto snapshot = impl.snapshots.Get(slot);
  rules::MatchSet matches;
  if (snapshot->table.conditional) [[unlikely]] {
    MatchConditional(*snapshot, request, matches);
  } else {
    snapshot->table.matcher.Match(request.resource, request.method, request.path, matches);
  }
  if (matches.empty()) {
    if (mode != Mode::kPeek) base::AddInSlot(slot, impl.tallies[slot].unmatched, uint64_t{1});
    return snapshot->counts ? walk.BeginUnmatched(*snapshot, request, matches) : Step::kDone;
  }
  return walk.Begin(*snapshot, request, matches);
}

void Engine::SetFallbackNodes(int nodes) noexcept {
  impl_->nodes.store(std::clamp(nodes, 0, base::kNodesMax), std::memory_order_relaxed);
}

void Engine::SetClusterNodes(int nodes) noexcept {
  impl_->cluster_nodes.store(std::clamp(nodes, 0, base::kNodesMax), std::memory_order_relaxed);
}

Step Engine::Resume(Attempt& attempt, std::span<const TakeOutcome> outcomes, Instant now) noexcept {
  return Walk(impl_->ground, attempt, now).Resume(outcomes);
}

Step Engine::Continue(Attempt& attempt, Instant now) noexcept {
  return Walk(impl_->ground, attempt, now).Continue();
}

void Engine::Cancel(Attempt& attempt, Instant now) noexcept {
  Walk(impl_->ground, attempt, now).Cancel();
}

void Engine::TellBreakers(Attempt& attempt, Outcome outcome, Duration took, Instant now) noexcept {
  Walk(impl_->ground, attempt, now).TellBreakers(outcome, took);
}

void Engine::Settle(Attempt& attempt, Outcome outcome, std::optional<int64_t> actual_cost,
                    Instant now) noexcept {
  Walk(impl_->ground, attempt, now).Settle(outcome, actual_cost);
}

void Engine::Abandon(Attempt& attempt, Instant now) noexcept {
  Walk(impl_->ground, attempt, now).Abandon();
}

void Engine::SetSystemReading(const SystemReading& reading) noexcept {
  impl_->gate.SetReading(reading);
}

SystemReading Engine::LastSystemReading() const noexcept {
  return impl_->gate.Reading();
}

bool Engine::LimitsCpu() const noexcept {
  return impl_->limits_cpu.load(std::memory_order_relaxed);
}

bool Engine::LimitsLoad() const noexcept {
  return impl_->limits_load.load(std::memory_order_relaxed);
}

RuleSet Engine::Rules() const {
  return impl_->snapshots.Get()->set;
}

bool Engine::ReadsHeader(std::string_view name) const noexcept {
  const auto snapshot = impl_->snapshots.Get();
  const std::vector<rules::Dimension>& dimensions = snapshot->table.dimensions;
  return std::any_of(dimensions.begin(), dimensions.end(), [&](const rules::Dimension& dimension) {
    return dimension.kind == rules::DimensionKind::kHeader && IsLowered(name, dimension.argument);
  });
}

bool Engine::MarksBy(std::string_view name) const noexcept {
  if (!impl_->marks.load(std::memory_order_acquire)) return false;
  const auto snapshot = impl_->snapshots.Get();
  return std::any_of(snapshot->marks.begin(), snapshot->marks.end(),
                     [&](const std::string& mark) { return IsLowered(name, mark); });
}

}  // namespace flowguard::engine
