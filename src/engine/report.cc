// SPDX-License-Identifier: Apache-2.0
//
// What an engine tells of itself: counters, and why a request is decided as it is.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/attempt.h"
#include "engine/conditions.h"
#include "engine/engine.h"
#include "engine/engine_impl.h"
#include "engine/request_key.h"

namespace flowguard::engine {
namespace {

uint64_t Sum(const RuleCounterBoard& board, uint32_t account, Count count) {
  return static_cast<uint64_t>(board.Sum(account, count));
}

}  // namespace

EngineCounters Engine::Counters() const {
  Impl& impl = *impl_;
  EngineCounters counters;
  int64_t now_ns = 0;  // the last stamp that any thread came with
  for (const Tally& tally : impl.tallies) {
    now_ns = std::max(now_ns, tally.last_now.load(std::memory_order_relaxed));
    counters.decisions += tally.decisions.load(std::memory_order_relaxed);
    counters.unmatched += tally.unmatched.load(std::memory_order_relaxed);
    counters.clock_backward += tally.clock_backward.load(std::memory_order_relaxed);
  }
  const store::CellTableStats table = impl.cells->table().Stats();
  counters.cells = impl.cells->table().LiveApprox(Instant(Duration(now_ns)));
  counters.cells_capacity = table.capacity;
  counters.cells_bytes = table.bytes;
  counters.cell_evictions = table.evictions;
  const store::StateMapStats states = impl.cells->states().Stats();
  counters.state_bytes = states.bytes;
  counters.state_evictions = states.evictions;
  counters.snapshots = impl.snapshots.Count();

  const base::MutexLock lock(impl.report_mutex);
  counters.generation = impl.loads;
  counters.reload_failures = impl.load_failures;
  uint32_t number = 0;
  for (const Account& account : impl.accounts) {
    const uint32_t at = number++;
    const RuleCounterBoard& board = impl.board;
    const auto breakers = [&account](breaker::BreakerState state) {
      return account.loaded && account.breakers != nullptr ? account.breakers->Count(state) : 0;
    };
    counters.rules.push_back({.rule = std::string(account.name),
                              .kind = account.kind,
                              .shadow = account.shadow,
                              .loaded = account.loaded,
                              .passed = Sum(board, at, Count::kPassed),
                              .refused = Sum(board, at, Count::kRefused),
                              .shadow_refused = Sum(board, at, Count::kShadowRefused),
                              .degraded = Sum(board, at, Count::kDegraded),
                              .waited = Sum(board, at, Count::kWaited),
                              .wait_ns = Sum(board, at, Count::kWaitNs),
                              .failed_after = Sum(board, at, Count::kFailedAfter),
                              .inflight = board.Sum(at, Count::kInflight),
                              .breakers_open = breakers(breaker::BreakerState::kOpen),
                              .breakers_half_open = breakers(breaker::BreakerState::kHalfOpen),
                              .breaker_opened = account.breakers != nullptr && account.loaded
                                                    ? account.breakers->opened()
                                                    : 0});
  }
  return counters;
}

std::vector<Explanation> Engine::Explain(const RequestView& request, Instant now) const {
  Impl& impl = *impl_;
  const auto snapshot = impl.snapshots.Get();
  rules::MatchSet matches;
  const ToldConditions conditions(*snapshot, request);
  snapshot->table.matcher.Match(request.resource, request.method, request.path, matches,
                                &conditions);
  std::vector<Explanation> explanations;
  for (const rules::MatchSet::Match& match : matches) {
    const LoadedRule& loaded = snapshot->rules[match.rule];
    Explanation& one = explanations.emplace_back();
    one.rule = loaded.live->info.name;
    one.matched_by = match.related ? "resource " + loaded.compiled->rule.relate_to + ", counted"
                                   : loaded.compiled->matched_by;
    one.key = ReadableKey({*loaded.compiled, request, matches, match.by_route});
    Attempt attempt;
    Walk walk(impl.ground, attempt, now);
    walk.Start(Mode::kPeek, request);
    walk.PeekOne(loaded, {*loaded.compiled, request, matches, match.by_route}, match.related);
    one.decision = attempt.decision();
    one.shared = loaded.compiled->remote();
  }
  for (const ToldConditions::Unmet& unmet : conditions.unmet()) {
    Explanation& one = explanations.emplace_back();
    one.rule = snapshot->rules[unmet.rule].live->info.name;
    one.matched_by = snapshot->rules[unmet.rule].compiled->matched_by;
    one.not_met = unmet.why;
  }
  return explanations;
}

}  // namespace flowguard::engine
