// SPDX-License-Identifier: Apache-2.0
//
// The engine: rule snapshot + cells -> decision, as a resumable state machine.
//
// It never waits and does no I/O.  Begin either answers, or leaves in the Attempt
// the remote takes that the decision needs; the driver takes them through a
// QuotaStore and calls Resume with the outcomes.
//
//   Begin ──────────────► kDone: attempt.decision()
//     └─► kRemote ─ store ─► Resume ─► kDone
//   kDone with Verdict::kWait (mode kEnter) ─ timer ─► Continue ─► kDone
//   any time: Cancel (gives back) · admitted: Settle (exactly once)
//
// Order of a decision: access, system, breakers that refuse, local limits, concurrency, shared
// limits, loans of what is to come, breakers that admit or give a probe.  All or
// nothing: what earlier rules took is given back when a later one refuses.
//
// Threads: Begin, Resume, Continue, Cancel and Settle from any thread, on
// different attempts at once; one attempt is used by one thread at a time.  Load
// is serialised inside; nothing else waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/breaker_listener.h"
#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "engine/statistics_report.h"
#include "engine/system_reading.h"

namespace flowguard::rules {
struct Dimension;
}

namespace flowguard::engine {

class Attempt;
struct RemoteTake;
struct TakeOutcome;

// A request as the engine sees it.
class RequestView {
 public:
  virtual ~RequestView() = default;

  // The value of a dimension that the engine does not know itself (it knows `path:`
  // captures and `method`).  data() == nullptr: the request has none.  The view
  // stays valid until Begin returns; `scratch` is room for values that must be
  // composed (an address prefix, a joined header).
  [[nodiscard]] virtual std::string_view Value(const rules::Dimension& dimension,
                                               std::span<char> scratch) const noexcept = 0;

  // The same for those who only count: a value that cannot be had decides nothing.
  [[nodiscard]] virtual std::string_view Observed(const rules::Dimension& dimension,
                                                  std::span<char> scratch) const noexcept {
    return Value(dimension, scratch);
  }

  // The same of a dimension of kind ip, where Value groups clients by a part of the
  // address: all of it, for lists of addresses.
  [[nodiscard]] virtual std::string_view WholeAddress(const rules::Dimension& dimension,
                                                      std::span<char> scratch) const noexcept {
    return Value(dimension, scratch);
  }

  // How many values there are of a dimension that has any: more than one are a list.  Asked
  // for, as the two below are, only where `lists` is set.
  [[nodiscard]] virtual size_t ValueCount(const rules::Dimension& /*dimension*/) const noexcept {
    return 1;
  }
  // As Value, the value at `place` of the list; at 0 is that of Value.
  // Requires: place < ValueCount(dimension).
  [[nodiscard]] virtual std::string_view ValueAt(const rules::Dimension& dimension,
                                                 size_t /*place*/,
                                                 std::span<char> scratch) const noexcept {
    return Value(dimension, scratch);
  }
  // The same as WholeAddress.
  [[nodiscard]] virtual std::string_view WholeAddressAt(const rules::Dimension& dimension,
                                                        size_t place,
                                                        std::span<char> scratch) const noexcept {
    return ValueAt(dimension, place, scratch);
  }

  std::string_view resource;
  std::string_view method;
  std::string_view path;  // normalised, no query
  int64_t cost = 0;       // 0: what each rule reserves; in mode kPeek: only the numbers
  // The longest wait that the caller will sleep out.  A longer one is a refusal, and
  // takes nothing.
  Duration wait_max = kNever;
  // Concurrency and breaker rules do not apply: nobody will tell when the call ends.
  bool skip_calls = false;
  // Limit rules do not apply: browsers send CORS preflights by themselves, and count as
  // one request with what follows.
  bool skip_limits = false;
  // It may take units that are to come, where rules have such (Rule::borrow).
  bool priority = false;
  // Dimensions may have several values; see ValueCount.
  bool lists = false;
};

enum class Mode : uint8_t {
  kCheck,  // take rates; look at concurrency
  kEnter,  // take rates and concurrency; to be settled
  kPeek,   // take nothing
};

enum class Step : uint8_t { kDone, kRemote };

struct EngineOptions {
  size_t cell_capacity = 100'000;
  size_t state_bytes = 64 << 20;
  uint64_t hash_seed = 0;
  bool remote_allowed = false;   // a QuotaStore exists
  bool cluster_allowed = false;  // it asks token servers too
  int fallback_nodes = 0;        // until SetFallbackNodes; see QuotaStore::Nodes
  int cluster_nodes = 0;         // until SetClusterNodes
  // Counts what comes of requests, by resource and caller; see statistics.h.  Without them
  // only what system rules look at is counted, while there are such rules.
  bool statistics = false;
  size_t stats_max = 10'000;  // resources and callers; see stats::StatsTableOptions
  // Hears of what breakers do; outlives the engine.  May be null.
  BreakerListener* breaker_listener = nullptr;
};

// Counters of one rule, monotone over reloads (they belong to the rule's name).
struct RuleCounters {
  std::string rule;
  RuleKind kind = RuleKind::kLimit;
  bool shadow = false;
  bool loaded = false;          // false: the rule is gone from the current set
  uint64_t passed = 0;          // admitted requests that the rule let through
  uint64_t refused = 0;         // refused requests whose answer names this rule
  uint64_t shadow_refused = 0;  // requests that the rule would have refused
  uint64_t degraded = 0;
  uint64_t waited = 0;        // requests whose wait came from this rule
  uint64_t wait_ns = 0;       // sum of these waits
  uint64_t failed_after = 0;  // admitted calls that settled as errors
  int64_t inflight = 0;       // concurrency rules
  // Breaker rules: how many of its breakers are not closed now.
  size_t breakers_open = 0;
  size_t breakers_half_open = 0;
  uint64_t breaker_opened = 0;  // how often one of them opened
};

struct EngineCounters {
  std::vector<RuleCounters> rules;
  uint64_t decisions = 0;
  uint64_t unmatched = 0;  // requests that no rule matched
  uint64_t clock_backward = 0;
  uint64_t generation = 0;  // of the rule set; counts loads
  uint64_t reload_failures = 0;
  size_t cells = 0;  // live or claimable cells in use (approximate)
  size_t cells_capacity = 0;
  size_t cells_bytes = 0;
  uint64_t cell_evictions = 0;
  size_t state_bytes = 0;
  uint64_t state_evictions = 0;
  size_t snapshots = 0;  // rule sets in memory; 1 but for moments
};

// One rule whose target matches, for `explain` and the status endpoint.
struct Explanation {
  std::string rule;
  std::string matched_by;  // "route POST /orders/{id}"
  std::string key;         // "ip=192.0.2.7"; secrets are not hidden here
  Decision decision;       // as a peek; of a shared rule the limit alone
  bool shared = false;     // a store counts it
  // Why its conditions do not hold, "only: tenant=acme is not listed": the rule is not met,
  // and has neither key nor decision.  Empty: it is met.
  std::string not_met;
};

class Engine {
 public:
  // Errors: kInvalidArgument for capacities outside base/bounds.h; kResourceExhausted
  // when the system has no such memory.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks and compiles `rules`, then swaps them in at one instant.
  // Errors: kInvalidArgument, everything that is wrong, a line each; the current
  // rules stay.
  // `warnings` (may be null) is set to what is odd about rules that were loaded.
  // `now` is the start of cells whose rule is new and that start with nothing stored
  // (smooth_bursty); without it they count as idle for long.
  Result<void> Load(const RuleSet& rules, std::vector<std::string>* warnings = nullptr,
                    Instant now = {});

  // Requires: `attempt` has nothing to end (see attempt.h).
  Step Begin(Attempt& attempt, const RequestView& request, Mode mode, Instant now) noexcept;
  // How many nodes share the limits of shared rules from now on, as the store counts
  // them; 0: not known, rules with on_store_failure local fail closed.
  void SetFallbackNodes(int nodes) noexcept;
  // The same of cluster rules, as a token server counts its clients.
  void SetClusterNodes(int nodes) noexcept;

  // `outcomes`: one for each of attempt.remote_takes(), in that order; missing ones
  // count as failed.  What is to be given back to the store is in store_dues().
  Step Resume(Attempt& attempt, std::span<const TakeOutcome> outcomes, Instant now) noexcept;
  // After a kWait decision in mode kEnter: the wait is over, takes concurrency.
  Step Continue(Attempt& attempt, Instant now) noexcept;
  // The request does not go: gives back everything that the attempt took.  No-op on
  // an idle attempt.
  void Cancel(Attempt& attempt, Instant now) noexcept;
  // What was called has come to this, `took` after it was its turn: breakers hear of it
  // now, and Settle tells them nothing more; statistics count it so when the call ends.
  // For calls that go on afterwards, or whose length is not the callee's doing.  No-op
  // unless attempt.entered(), and the second time.
  void TellBreakers(Attempt& attempt, Outcome outcome, Duration took, Instant now) noexcept;
  // The call ended.  No-op unless attempt.entered(), so the second of two settles
  // does nothing.
  void Settle(Attempt& attempt, Outcome outcome, std::optional<int64_t> actual_cost,
              Instant now) noexcept;
  // Settles, as one with an ignored error, a call that was never sent or that is over and
  // nobody tells how: statistics have neither an end nor a time of it.
  void Abandon(Attempt& attempt, Instant now) noexcept;

  // What system rules hold CPU usage and load against from now on; what is not known
  // refuses nothing.
  // Threads: any.
  void SetSystemReading(const SystemReading& reading) noexcept;
  [[nodiscard]] SystemReading LastSystemReading() const noexcept;
  // Whether a rule in force limits it, so that it needs to be told.
  [[nodiscard]] bool LimitsCpu() const noexcept;
  [[nodiscard]] bool LimitsLoad() const noexcept;

  // What was counted, as asked.
  // Cost:     a walk over all that is counted, and over the shards of what is told.
  [[nodiscard]] StatisticsReport ReportStatistics(const StatisticsQuery& query, Instant now) const;

  // Every rule that matches, with key and numbers; then those whose conditions do not hold.
  // Takes nothing.
  [[nodiscard]] std::vector<Explanation> Explain(const RequestView& request, Instant now) const;
  [[nodiscard]] EngineCounters Counters() const;
  // The rules as loaded.
  [[nodiscard]] RuleSet Rules() const;
  // True when a rule reads the header `name`, in any case of its letters.
  // Cost: looks at every dimension that the rules use.
  [[nodiscard]] bool ReadsHeader(std::string_view name) const noexcept;

  // True when a rule marks degraded requests by the header `name`, in any case of its
  // letters: requests have it of the engine's word alone, never of a client's.
  // Cost: one load while no rule marks; else looks at every such name.
  [[nodiscard]] bool MarksBy(std::string_view name) const noexcept;

 private:
  friend class LoadHold;  // testing/load_hold.h
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flowguard::engine
