// SPDX-License-Identifier: Apache-2.0
//
// One step of an attempt: past the rules that it meets (Begin), past the answers
// of a store (Resume), into the call after a wait (Continue), and out of it.
//
// All or nothing: each rule that lets the request pass leaves a Hold in the
// attempt; a refusal gives them all back.  After a refusal the other local rules
// are looked at, not taken, so that the answer names the longest wait and shadow
// rules count what they would have said.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "flowguard/decision.h"
#include "flowguard/time.h"

#include "base/check.h"
#include "base/thread_slot.h"
#include "engine/attempt.h"
#include "engine/cells.h"
#include "engine/engine.h"
#include "engine/one_of_lists.h"
#include "engine/request_key.h"
#include "engine/rule_counters.h"
#include "engine/snapshot.h"
#include "engine/statistics.h"
#include "engine/system_gate.h"
#include "rules/matcher.h"

namespace flowguard::engine {

// What a walk works on; belongs to the engine.
struct Ground {
  Cells& cells;
  RuleCounterBoard& board;
  SystemGate& gate;
  const Statistics& statistics;
  const std::atomic<int>& nodes;          // of shared rules
  const std::atomic<int>& cluster_nodes;  // of cluster rules
  uint64_t seed;
};

// Threads: one at a time; a local of one engine call.
class Walk {
 public:
  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  Walk(const Ground& ground, Attempt& attempt, Instant now,
       size_t slot = base::ThreadSlot()) noexcept
      : ground_(ground), attempt_(attempt), now_(now), slot_(slot) {}

  // Makes the attempt one that no rule met.
  void Start(Mode mode, const RequestView& request) noexcept;
  void RefuseCost() noexcept;

  Step Begin(const Snapshot& snapshot, const RequestView& request,
             const rules::MatchSet& matches) noexcept;
  // The same for a request that no rule meets, where statistics or system rules count it.
  [[gnu::noinline]] Step BeginUnmatched(const Snapshot& snapshot, const RequestView& request,
                                        const rules::MatchSet& matches) noexcept;
  // One rule by itself, shadow rules as if enforced; shared rules tell only their limit.
  // `related`: of the match.
  void PeekOne(const LoadedRule& loaded, const Meeting& met, bool related) noexcept;
  Step Resume(std::span<const TakeOutcome> outcomes) noexcept;
  Step Continue() noexcept;
  void Cancel() noexcept;
  void Settle(Outcome outcome, std::optional<int64_t> actual_cost) noexcept;
  void Abandon() noexcept;
  void TellBreakers(Outcome outcome, Duration took) noexcept;

 private:
  // Kept out of Begin, which takes everything else into one function: what is off the
  // usual way is noinline.

  // False: the request is refused whatever else is there.
  [[gnu::noinline]] bool Access(const LoadedRule& loaded, const Meeting& met) noexcept;
  void LocalLimit(const LoadedRule& loaded, const Meeting& met) noexcept;
  [[gnu::noinline]] void Concurrency(const LoadedRule& loaded, const Meeting& met) noexcept;
  void TakeSlots(Hold& hold) noexcept;
  [[gnu::noinline]] void Shared(const LoadedRule& loaded, const Meeting& met) noexcept;
  void Ask(const LoadedRule& loaded, const RequestKey<rules::KeyBuilder>& key) noexcept;
  // A rule of whose key a part has several values.  False: none has; nothing is done.
  [[gnu::noinline]] bool EachOfLists(const LoadedRule& loaded, const Meeting& met) noexcept;
  void TakeEach(const LoadedRule& loaded, const Meeting& one, OneOfLists& lists) noexcept;
  void AskEach(const LoadedRule& loaded, const Meeting& one, OneOfLists& lists) noexcept;
  // The waits of the request so far.
  struct Waits {
    Duration wait;
    const LiveRule* rule;
  };
  [[nodiscard]] Waits SoFar() const noexcept {
    return {attempt_.decision_.wait, attempt_.wait_rule_};
  }
  // The rule of these holds is over its limit for one value, and lets the request go: it
  // holds nothing of the others either.
  void LetGoWhole(std::span<Hold> holds, const Waits& before) noexcept;
  // step(hold) for each, by rule: what a rule holds of several values is all or nothing.
  template <typename F>
  void EachHold(F&& step) noexcept;
  // The rules that are not plain (rules::CompiledRule::plain).
  [[gnu::noinline]] void CountsElsewhere(const LoadedRule& loaded, const Meeting& met,
                                         bool related) noexcept;
  void CountRelated(Hold& hold) noexcept;
  void EnterRelated(Hold& hold) noexcept;
  void LookAtRelated(Hold& hold) noexcept;
  CellAnswer LookAt(const Hold& hold, int64_t cost) noexcept;
  struct Strictest;
  [[gnu::noinline]] void Systems(const Snapshot& snapshot, const RequestView& request,
                                 const rules::MatchSet& matches) noexcept;
  void TellSystems(const Snapshot& snapshot, const RequestView& request,
                   const rules::MatchSet& matches) noexcept;
  void PeekSystem(const LoadedRule& loaded, const Meeting& met) noexcept;
  // By what was read or is known of calls that have ended.
  [[nodiscard]] bool IsOverloaded(const SystemRule& most) const noexcept;
  // By the calls in progress and the requests of the last second, this one among them.
  [[nodiscard]] bool IsExceeded(const SystemRule& most, const RequestView& request) const noexcept;
  void TakePlace(const Strictest& calls) noexcept;
  void TakePlaceAgain() noexcept;
  void TakeTurn(const Strictest& requests) noexcept;
  void LeavePlace() noexcept;
  void GiveTurnBack() noexcept;

  // Finds where the request is counted.
  [[gnu::noinline]] void Observe(const Snapshot& snapshot, const RequestView& request,
                                 const rules::MatchSet& matches) noexcept;
  // The attempt goes on without its rule set.
  void KeepCounted() noexcept;
  void CountRefused() noexcept;
  void CountEnded(Outcome outcome) noexcept;
  void CountCancelled() noexcept;
  // Refused while the breaker is open; else it admits later, when all else has.
  [[gnu::noinline]] void Breaks(const LoadedRule& loaded, const Meeting& met) noexcept;
  void AskBreakerOf(const LoadedRule& loaded, const base::Hash128& key) noexcept;
  void AskBreaker(const LoadedRule& loaded, breaker::Breaker& breaker) noexcept;
  [[gnu::noinline]] void EnterBreakers() noexcept;
  void RefusedByBreaker(Hold& hold, Duration retry_after) noexcept;
  void Answered(Hold& hold, const TakeOutcome& outcome) noexcept;
  void NotAnswered(Hold& hold) noexcept;
  void TakeShareOfSlots(Hold& hold) noexcept;
  // Debits this node's share with what a store granted, so that it starts debited when
  // the store goes away.
  void Mirror(const Hold& hold) noexcept;

  // The key; false when the rule has been dealt with.
  template <typename Key>
  bool MakeKey(const LoadedRule& loaded, const Meeting& met, uint64_t seed,
               RequestKey<Key>& key) noexcept;
  // The rule refuses without having looked at a cell.
  [[gnu::noinline]] void RefuseUnasked(const LoadedRule& loaded, Reason reason) noexcept;
  [[nodiscard]] int64_t CostFor(const LiveRule& rule) const noexcept;
  Hold& AddHold(const LiveRule& rule, const LiveSpec* spec, int64_t cost) noexcept;
  // The place of the next hold, not counted yet.
  Hold& DraftHold(const LiveRule& rule, const LiveSpec* spec, int64_t cost) noexcept;
  void TakeRate(Hold& hold, const CellRef& cell) noexcept;
  // Of a prioritised request that finds too little: it is lent what is to come when no other
  // rule refuses.
  [[gnu::noinline]] CellAnswer LookToBorrow(const Hold& hold, CellRef cell) noexcept;
  [[gnu::noinline]] void TakeLoans() noexcept;

  void Passed(Hold& hold, const limit::Numbers& numbers) noexcept;
  // What the rule's refusal makes of its hold.
  // `spec` may be null: a refusal without a quota.
  [[gnu::noinline]] Hold::State Refused(const LiveRule& rule, const LiveSpec* spec,
                                        const limit::Numbers& numbers, Reason reason) noexcept;
  void Report(const LiveRule& rule, const LiveSpec* spec, const limit::Numbers& numbers) noexcept;

  Step Finish() noexcept;
  [[gnu::noinline]] Step FinishRefused() noexcept;
  [[gnu::noinline]] Step FinishWaiting() noexcept;
  void Admit() noexcept;

  // Gives all back; for a refusal, save what count_refused keeps.
  void Undo(bool refused) noexcept;
  // What one hold has of a cell, a breaker or a store.
  void GiveBack(Hold& hold, bool refused) noexcept;
  void Leave(Hold& hold, Hold::State then) noexcept;
  // Gives a slot of a store back.
  void Release(const Hold& hold) noexcept;
  void AddDue(const Hold& hold, const limit::Receipt& receipt, int64_t charge) noexcept;
  void SettleCost(const Hold& hold, int64_t actual) noexcept;
  [[nodiscard]] static bool IsSlot(const Hold& hold) noexcept {
    return hold.rule->info.kind == RuleKind::kConcurrency;
  }
  // How many processes share the rule's limit; 0: not known.
  [[nodiscard]] int NodesOf(const LiveRule& rule) const noexcept {
    if (rule.limit_each) return 1;
    const std::atomic<int>& nodes = rule.cluster ? ground_.cluster_nodes : ground_.nodes;
    return nodes.load(std::memory_order_relaxed);
  }
  // This node's share as a spec; false: not known.
  bool MakeShare(const LiveSpec& spec, int nodes) noexcept;
  // Good until the next CellOf.
  [[nodiscard]] CellRef CellOf(const Hold& hold) noexcept;
  [[nodiscard]] std::span<Hold> holds() noexcept {
    return {attempt_.holds_.data(), attempt_.hold_count_};
  }
  [[nodiscard]] bool peek() const noexcept { return attempt_.mode_ == Mode::kPeek; }

  const Ground& ground_;
  Attempt& attempt_;
  Instant now_;
  size_t slot_;
  bool as_enforced_ = false;
  bool systems_done_ = false;
  const stats::StatsRef* pinned_ = nullptr;  // of the rule set, where the request is counted
  const LiveRule* refused_by_ = nullptr;     // the rule that the answer names
  const LiveRule* let_go_by_ = nullptr;  // the last that was over, and marked or only counted that
  size_t further_keys_ = 0;              // beyond one for each rule, for values of lists
  bool lists_ask_ = false;               // some of them are of a store
  std::optional<limit::AnySpec> share_;  // what CellOf points to
};

template <typename Key>
bool Walk::MakeKey(const LoadedRule& loaded, const Meeting& met, uint64_t seed,
                   RequestKey<Key>& key) noexcept {
  const KeyState state = key.Make(met, seed);
  if (state == KeyState::kMissing) [[unlikely]] {
    RefuseUnasked(loaded, Reason::kMissingDimension);
  }
  return state == KeyState::kReady;
}

template <typename F>
void Walk::EachHold(F&& step) noexcept {
  std::span<Hold> rest = holds();
  while (!rest.empty()) {
    size_t size = 0;
    bool let_go = false;
    const Waits before = SoFar();
    do {
      Hold& hold = rest[size++];
      step(hold);
      let_go |= hold.state == Hold::State::kSkipped || hold.state == Hold::State::kDegraded;
    } while (size < rest.size() && rest[size].rule == rest[0].rule);
    if (let_go && size > 1) LetGoWhole(rest.first(size), before);
    rest = rest.subspan(size);
  }
}

inline void Walk::Start(Mode mode, const RequestView& request) noexcept {
  FG_DCHECK(!attempt_.remote_pending() && !attempt_.waiting() && !attempt_.entered());
  attempt_.decision_ = {};
  attempt_.phase_ = Attempt::Phase::kIdle;
  attempt_.mode_ = mode;
  attempt_.hold_count_ = 0;
  attempt_.remote_count_ = 0;
  attempt_.due_count_ = 0;
  attempt_.key_bytes_used_ = 0;
  attempt_.request_cost_ = request.cost;
  attempt_.store_time_us_ = 0;
  attempt_.wait_max_ = request.wait_max;
  attempt_.priority_ = request.priority && request.wait_max > Duration::zero();
  attempt_.loans_ = false;
  attempt_.wait_rule_ = nullptr;
  attempt_.breakers_ = false;
  attempt_.unmatched_ = false;
  attempt_.inside_ = false;
  attempt_.inside_later_ = false;
  attempt_.turn_ = {};
  if (attempt_.counted_.counts) [[unlikely]] {
    attempt_.counted_.Clear();  // of a check that went
  }
}

}  // namespace flowguard::engine
