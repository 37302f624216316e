// SPDX-License-Identifier: Apache-2.0
//
// Rules that relate to a resource.  Its calls take from the cell and are let go whatever is
// left; the requests that the target matches are refused while less than one unit is left,
// and take nothing.
#include <limits>

#include "engine/walk.h"

namespace flowguard::engine {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

}  // namespace

void Walk::CountsElsewhere(const LoadedRule& loaded, const Meeting& met, bool related) noexcept {
  if (loaded.compiled->remote()) {
    Shared(loaded, met);
    return;
  }
  Hold hold{.rule = loaded.live,
            .spec = loaded.spec,
            .key = {},
            .receipt = {},
            .cost = related ? CostFor(*loaded.live) : 0,
            .state = Hold::State::kNone,
            .share_nodes = 0,
            .settles = false,
            .waits = false,
            .remote = 0};
  if (loaded.live->single == nullptr) {
    RequestKey<rules::KeyHash> key;
    if (!MakeKey(loaded, met, ground_.seed, key)) return;
    hold.key = key.key.Hash();
  }
  related ? CountRelated(hold) : LookAtRelated(hold);
}

// A call of the resource.  Of a limit what is there goes, up to the cost: what it is short of
// is no debt, which would refuse others for longer than the limit says.
void Walk::CountRelated(Hold& hold) noexcept {
  if (as_enforced_) {
    limit::Numbers numbers = LookAt(hold, 0).numbers;
    numbers.retry_after = Duration::zero();
    Report(*hold.rule, hold.spec, numbers);
  }
  if (peek() || refused_by_ != nullptr) return;
  const CellRef cell = CellOf(hold);
  if (!IsSlot(hold)) {
    ground_.cells.Take(cell, now_, hold.cost, TakeMode::kExhaust, Duration::zero(), hold.receipt);
    hold.state = Hold::State::kRate;
  } else if (attempt_.mode_ == Mode::kEnter) {
    EnterRelated(hold);
  }
  AddHold(*hold.rule, hold.spec, hold.cost) = hold;
}

void Walk::EnterRelated(Hold& hold) noexcept {
  ground_.cells.Enter(CellOf(hold), now_, kNoLimit, hold.cost);
  hold.state = Hold::State::kSlot;
  ground_.board.Add(slot_, hold.rule->account, Count::kInflight, hold.cost);
}

// A request that the target matches.
void Walk::LookAtRelated(Hold& hold) noexcept {
  const bool numbers_only = peek() && attempt_.request_cost_ == 0;
  const CellAnswer answer = LookAt(hold, numbers_only ? 0 : 1);
  if (answer.numbers.allowed) {
    Passed(hold, answer.numbers);
  } else {
    const Reason usual = IsSlot(hold) ? Reason::kConcurrency : Reason::kLimit;
    hold.state =
        Refused(*hold.rule, hold.spec, answer.numbers, answer.full ? Reason::kOverload : usual);
    if (hold.state != Hold::State::kDegraded) return;
  }
  if (!peek() && refused_by_ == nullptr) AddHold(*hold.rule, hold.spec, 0) = hold;
}

CellAnswer Walk::LookAt(const Hold& hold, int64_t cost) noexcept {
  const CellRef cell = CellOf(hold);
  if (IsSlot(hold)) return ground_.cells.LookInside(cell, now_, hold.spec->concurrency, cost);
  return ground_.cells.Look(cell, now_, cost, Duration::zero());
}

}  // namespace flowguard::engine
