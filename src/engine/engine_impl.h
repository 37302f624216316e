// SPDX-License-Identifier: Apache-2.0
//
// What an engine is made of.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/thread_slot.h"
#include "engine/cells.h"
#include "engine/engine.h"
#include "engine/generations.h"
#include "engine/registry.h"
#include "engine/rule_counters.h"
#include "engine/snapshot.h"
#include "engine/statistics.h"
#include "engine/system_gate.h"
#include "engine/walk.h"

namespace flowguard::engine {

// Counts of all decisions, one set a thread.
struct alignas(64) Tally {
  std::atomic<uint64_t> decisions{0};
  std::atomic<uint64_t> unmatched{0};
  std::atomic<uint64_t> clock_backward{0};
  std::atomic<int64_t> last_now{0};
};

// What is told of a rule name that was loaded once.
struct Account {
  std::string_view name;  // the registry's
  RuleKind kind = RuleKind::kLimit;
  bool shadow = false;
  bool loaded = false;
  const BreakerTable* breakers = nullptr;  // of the rule as loaded last
};

struct Engine::Impl {
  Impl(const EngineOptions& with, std::unique_ptr<Cells> owned,
       std::unique_ptr<Statistics> counted) noexcept;

  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  void Count(size_t slot, Instant now) noexcept;
  void CountLoadFailure() FG_EXCLUDES(report_mutex);
  // Tells of the set that was swapped in.
  void Report(const Snapshot& snapshot) FG_REQUIRES(load_mutex) FG_EXCLUDES(report_mutex);
  void WarnOfSmallShares(const rules::RuleTable& table, std::vector<std::string>& warnings) const;

  const EngineOptions options;
  const std::unique_ptr<Cells> cells;
  const std::unique_ptr<const Statistics> statistics;  // outlives what refers to it
  SystemGate gate;
  RuleCounterBoard board;
  std::atomic<int> nodes;          // that share limits of shared rules; 0: not known
  std::atomic<int> cluster_nodes;  // the same of cluster rules
  const Ground ground;
  Generations<Snapshot> snapshots;
  std::atomic<bool> marks{false};  // the current snapshot has some
  // What system rules of the current snapshot need to be told.
  std::atomic<bool> limits_cpu{false};
  std::atomic<bool> limits_load{false};
  std::array<Tally, base::kThreadSlots> tallies;

  base::Mutex load_mutex;  // held while a snapshot is made, a second for the largest sets
  Registry registry FG_GUARDED_BY(load_mutex);

  // Never held for that long, so that no scrape waits for a load.
  base::Mutex report_mutex;
  std::vector<Account> accounts FG_GUARDED_BY(report_mutex);  // by their number
  uint64_t loads FG_GUARDED_BY(report_mutex) = 0;
  uint64_t load_failures FG_GUARDED_BY(report_mutex) = 0;
};

inline void Engine::Impl::Count(size_t slot, Instant now) noexcept {
  Tally& tally = tallies[slot];
  base::AddInSlot(slot, tally.decisions, uint64_t{1});
  const int64_t now_ns = now.time_since_epoch().count();
  const int64_t last_ns = tally.last_now.load(std::memory_order_relaxed);
  if (now_ns > last_ns) {
    tally.last_now.store(now_ns, std::memory_order_relaxed);
  } else if (now_ns < last_ns) [[unlikely]] {
    base::AddInSlot(slot, tally.clock_backward, uint64_t{1});
  }
}

}  // namespace flowguard::engine
