// SPDX-License-Identifier: Apache-2.0
//
// The steps of a walk after the first: answers of a store, the end of a wait, the
// end of the call; and what a refusal and a wait do at the end of Begin.
#include <algorithm>
#include <new>

#include "base/bounds.h"
#include "base/check.h"
#include "engine/share.h"
#include "engine/walk.h"

namespace flowguard::engine {
namespace {

using limit::Numbers;
using limit::Receipt;

// When a store will answer again is not known.
constexpr Duration kStoreRetry = std::chrono::seconds(1);

Numbers StoreAway(const LiveSpec& spec) noexcept {
  Numbers numbers;
  numbers.limit = LimitOf(spec);
  numbers.retry_after = kStoreRetry;
  return numbers;
}

}  // namespace

std::string_view Attempt::settle_header(size_t hold) const noexcept {
  FG_DCHECK(hold < hold_count_);
  return holds_.data()[hold].rule->settle_header;
}

void Attempt::set_actual_cost(size_t hold, int64_t units) noexcept {
  FG_DCHECK(hold < hold_count_ && units >= 0);
  holds_.data()[hold].actual = units;
}

Step Walk::Resume(std::span<const TakeOutcome> outcomes) noexcept {
  if (attempt_.phase_ != Attempt::Phase::kRemote) return Step::kDone;
  attempt_.due_count_ = 0;
  EachHold([&](Hold& hold) {
    if (hold.state != Hold::State::kAsked) return;
    const TakeOutcome outcome =
        hold.remote < outcomes.size() ? outcomes[hold.remote] : TakeOutcome{};
    attempt_.store_time_us_ = std::max(attempt_.store_time_us_, outcome.store_time_us);
    Answered(hold, outcome);
  });
  return Finish();
}

void Walk::Answered(Hold& hold, const TakeOutcome& outcome) noexcept {
  const LiveRule& rule = *hold.rule;
  Numbers numbers = outcome.numbers;
  if (outcome.status == TakeOutcome::Status::kFailed) {
    NotAnswered(hold);
    return;
  }
  bool allowed = outcome.status == TakeOutcome::Status::kTaken;
  const bool looked = attempt_.remote_.data()[hold.remote].cost == 0;
  if (allowed) {
    hold.state = looked ? Hold::State::kNone : Hold::State::kRemote;
    hold.receipt = outcome.receipt;
    if (numbers.wait > attempt_.wait_max_) {
      allowed = false;
      numbers.retry_after = numbers.wait - attempt_.wait_max_;
    }
  }
  if (looked && allowed && numbers.remaining < hold.cost) {
    allowed = false;
    numbers.retry_after = std::max(numbers.retry_after, numbers.reset_after);
  }
  if (allowed) {
    if (IsSlot(hold) && !looked)
      ground_.board.Add(slot_, rule.account, Count::kInflight, hold.cost);
    Passed(hold, numbers);
    return;
  }
  const Receipt held = hold.receipt;
  const bool taken = hold.state == Hold::State::kRemote;
  const Reason reason = IsSlot(hold) ? Reason::kConcurrency : Reason::kLimit;
  const Hold::State left = Refused(rule, hold.spec, numbers, reason);
  if (left == Hold::State::kNone) return;  // Undo gives back what was taken, with the rest
  if (taken) AddDue(hold, held, 0);
  hold.receipt = {};
  hold.state = left;
}

void Walk::NotAnswered(Hold& hold) noexcept {
  const LiveRule& rule = *hold.rule;
  hold.state = Hold::State::kNone;
  if (rule.on_store_failure == StoreFailurePolicy::kOpen) return;
  const int nodes = NodesOf(rule);
  if (rule.on_store_failure == StoreFailurePolicy::kLocal && nodes > 0 && IsSlot(hold)) {
    hold.share_nodes = static_cast<int16_t>(nodes);
    TakeShareOfSlots(hold);
    return;
  }
  if (rule.on_store_failure == StoreFailurePolicy::kLocal && MakeShare(*hold.spec, nodes)) {
    hold.share_nodes = static_cast<int16_t>(nodes);
    const CellRef cell = CellOf(hold);
    const CellAnswer answer = peek() ? ground_.cells.Look(cell, now_, hold.cost, attempt_.wait_max_)
                                     : ground_.cells.Take(cell, now_, hold.cost, TakeMode::kTake,
                                                          attempt_.wait_max_, hold.receipt);
    if (answer.numbers.allowed) {
      if (!peek() && hold.cost > 0) hold.state = Hold::State::kRate;
      Passed(hold, answer.numbers);
    } else {
      hold.receipt = {};
      hold.state = Refused(rule, hold.spec, answer.numbers, Reason::kLimit);
    }
    return;
  }
  hold.state = Refused(rule, hold.spec, StoreAway(*hold.spec), Reason::kStoreFailure);
}

void Walk::TakeShareOfSlots(Hold& hold) noexcept {
  const LiveRule& rule = *hold.rule;
  const CellRef cell = CellOf(hold);
  const int64_t slots = ShareOfSlots(hold.spec->concurrency, hold.share_nodes);
  const bool take = attempt_.mode_ == Mode::kEnter;
  const CellAnswer answer = take ? ground_.cells.Enter(cell, now_, slots, hold.cost)
                                 : ground_.cells.LookInside(cell, now_, slots, hold.cost);
  if (!answer.numbers.allowed) {
    hold.state = Refused(rule, hold.spec, answer.numbers,
                         answer.full ? Reason::kOverload : Reason::kConcurrency);
    return;
  }
  if (take) {
    hold.state = Hold::State::kSlot;
    ground_.board.Add(slot_, rule.account, Count::kInflight, hold.cost);
  }
  Passed(hold, answer.numbers);
}

bool Walk::MakeShare(const LiveSpec& spec, int nodes) noexcept {
  share_ = spec.spec ? ShareOf(spec.spec->algorithm(), spec.config, nodes) : std::nullopt;
  return share_.has_value();
}

void Walk::Mirror(const Hold& hold) noexcept {
  const int nodes = NodesOf(*hold.rule);
  if (hold.rule->on_store_failure != StoreFailurePolicy::kLocal || IsSlot(hold) || nodes <= 0) {
    return;
  }
  Hold share = hold;
  share.share_nodes = static_cast<int16_t>(nodes);
  const CellRef cell = CellOf(share);
  if (cell.spec == nullptr) return;
  Receipt none;  // nothing of it is ever given back
  ground_.cells.Take(cell, now_, hold.cost, TakeMode::kExhaust, Duration::zero(), none);
}

Step Walk::FinishRefused() noexcept {
  Decision& decision = attempt_.decision_;
  decision.verdict = Verdict::kRefuse;
  decision.degraded = false;
  decision.wait = Duration::zero();
  if (!peek()) ground_.board.Add(slot_, refused_by_->account, Count::kRefused);
  CountRefused();
  Undo(/*refused=*/true);
  return Step::kDone;
}

Step Walk::FinishWaiting() noexcept {
  Decision& decision = attempt_.decision_;
  decision.verdict = Verdict::kWait;
  if (peek()) {
    attempt_.hold_count_ = 0;
    return Step::kDone;
  }
  const uint32_t account = attempt_.wait_rule_->account;
  ground_.board.Add(slot_, account, Count::kWaited);
  ground_.board.Add(slot_, account, Count::kWaitNs, decision.wait.count());
  if (attempt_.mode_ == Mode::kEnter) {
    for (Hold& hold : holds()) {
      if (hold.state == Hold::State::kSlot) Leave(hold, Hold::State::kSlotLater);
    }
    attempt_.inside_later_ = attempt_.inside_;
    LeavePlace();
    KeepCounted();
    attempt_.phase_ = Attempt::Phase::kWaiting;
    return Step::kDone;
  }
  Admit();
  return Step::kDone;
}

Step Walk::Continue() noexcept {
  if (!attempt_.waiting()) return Step::kDone;
  attempt_.due_count_ = 0;
  Decision& decision = attempt_.decision_;
  EachHold([&](Hold& hold) {
    if (hold.state != Hold::State::kSlotLater || refused_by_ != nullptr) return;
    if (hold.rule->related) {
      EnterRelated(hold);
      return;
    }
    const int64_t slots = hold.share_nodes > 0
                              ? ShareOfSlots(hold.spec->concurrency, hold.share_nodes)
                              : hold.spec->concurrency;
    const CellAnswer answer = ground_.cells.Enter(CellOf(hold), now_, slots, hold.cost);
    if (answer.numbers.allowed) {
      hold.state = Hold::State::kSlot;
      ground_.board.Add(slot_, hold.rule->account, Count::kInflight, hold.cost);
    } else {
      hold.state = Refused(*hold.rule, hold.spec, answer.numbers,
                           answer.full ? Reason::kOverload : Reason::kConcurrency);
    }
  });
  decision.wait = Duration::zero();
  if (refused_by_ == nullptr) TakePlaceAgain();
  if (attempt_.breakers_) EnterBreakers();
  if (refused_by_ != nullptr) return Finish();
  decision.verdict = Verdict::kAllow;
  Admit();
  return Step::kDone;
}

void Walk::Cancel() noexcept {
  attempt_.due_count_ = 0;
  CountCancelled();
  Undo(/*refused=*/false);
  attempt_.phase_ = Attempt::Phase::kIdle;
}

void Walk::Settle(Outcome outcome, std::optional<int64_t> actual_cost) noexcept {
  if (!attempt_.entered()) return;
  attempt_.due_count_ = 0;
  attempt_.phase_ = Attempt::Phase::kIdle;
  CountEnded(outcome);
  LeavePlace();
  attempt_.turn_ = {};                // it went
  const LiveRule* counted = nullptr;  // whatever number of values it holds something of
  for (Hold& hold : holds()) {
    if (outcome == Outcome::kError && hold.state != Hold::State::kSkipped && hold.rule != counted) {
      counted = hold.rule;
      ground_.board.Add(slot_, hold.rule->account, Count::kFailedAfter);
    }
    if (hold.state == Hold::State::kSlot) {
      Leave(hold, Hold::State::kNone);
    } else if (hold.state == Hold::State::kCall) {
      hold.breaker->Settle(hold.ticket, outcome, now_ - attempt_.entered_at_, now_);
    } else if (hold.state == Hold::State::kRemote && IsSlot(hold)) {
      Release(hold);
    } else if (hold.settles && (hold.actual >= 0 || actual_cost)) {
      const int64_t actual = hold.actual >= 0 ? hold.actual : *actual_cost;
      SettleCost(hold, std::clamp<int64_t>(actual, 0, base::kCostMax));
    }
  }
  attempt_.hold_count_ = 0;
}

void Walk::Abandon() noexcept {
  if (!attempt_.entered()) return;
  CountCancelled();
  Settle(Outcome::kIgnoredError, std::nullopt);
}

void Walk::SettleCost(const Hold& hold, int64_t actual) noexcept {
  const bool local = hold.state == Hold::State::kRate;
  if (!local && hold.state != Hold::State::kRemote) return;
  // What is told is the cost for one value.
  const int64_t reserve = CostFor(*hold.rule);
  if (hold.cost > reserve) [[unlikely]] {
    actual = std::min(actual * (hold.cost / reserve), base::kCostMax);
  }
  if (actual < hold.cost) {
    Receipt rest = hold.receipt;
    rest.cost = std::min(rest.cost, hold.cost - actual);
    local ? ground_.cells.GiveBack(CellOf(hold), rest, now_) : AddDue(hold, rest, 0);
  } else if (actual > hold.cost) {
    const int64_t more = actual - hold.cost;
    local ? ground_.cells.Charge(CellOf(hold), more, now_) : AddDue(hold, {}, more);
  }
}

void Walk::Undo(bool refused) noexcept {
  LeavePlace();
  GiveTurnBack();
  for (Hold& hold : holds())
    GiveBack(hold, refused);
  attempt_.hold_count_ = 0;
}

void Walk::GiveBack(Hold& hold, bool refused) noexcept {
  switch (hold.state) {
    case Hold::State::kRate:
      // A refused request counts up to exhaustion, never as debt.
      if (refused && hold.rule->count_refused && !hold.waits) break;
      ground_.cells.GiveBack(CellOf(hold), hold.receipt, now_);
      break;
    case Hold::State::kSlot:
      Leave(hold, Hold::State::kNone);
      break;
    case Hold::State::kCall:
      hold.breaker->GiveBack(hold.ticket, now_);
      break;
    case Hold::State::kRemote:
      IsSlot(hold) ? Release(hold) : AddDue(hold, hold.receipt, 0);
      break;
    default:
      break;
  }
}

void Walk::Leave(Hold& hold, Hold::State then) noexcept {
  ground_.cells.Leave(CellOf(hold), now_, hold.cost);
  ground_.board.Add(slot_, hold.rule->account, Count::kInflight, -hold.cost);
  hold.state = then;
}

void Walk::Release(const Hold& hold) noexcept {
  ground_.board.Add(slot_, hold.rule->account, Count::kInflight, -hold.cost);
  AddDue(hold, hold.receipt, 0);
}

void Walk::AddDue(const Hold& hold, const Receipt& receipt, int64_t charge) noexcept {
  if (receipt.cost == 0 && charge == 0) return;
  FG_DCHECK(attempt_.due_count_ < base::kRemoteTakesPerRequestMax);
  new (attempt_.dues_.data() + attempt_.due_count_++) Attempt::StoreDue{
      .take = attempt_.remote_.data() + hold.remote, .receipt = receipt, .charge = charge};
}

CellRef Walk::CellOf(const Hold& hold) noexcept {
  CellRef cell;
  cell.key = hold.key;
  if (hold.share_nodes == 0) {
    cell.single = hold.rule->single;
    if (hold.spec->spec) cell.spec = &*hold.spec->spec;
    cell.shapes = hold.spec->shapes;
  } else if (MakeShare(*hold.spec, hold.share_nodes)) {
    cell.spec = &*share_;
    // Larger states of one share say nothing about another's: each count of nodes has its
    // own.  A debt in time is the same for all.
    if (!share_->one_word()) cell.key.high ^= static_cast<uint64_t>(hold.share_nodes);
  }
  return cell;
}

}  // namespace flowguard::engine
