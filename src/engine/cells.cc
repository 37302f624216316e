// SPDX-License-Identifier: Apache-2.0
#include "engine/cells.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "base/try.h"

namespace flowguard::engine {
namespace {

using limit::AnySpec;
using limit::Numbers;
using limit::Receipt;

// When a call in progress will end is not known; clients are told to try again soon.
constexpr Duration kRetryUnknown = std::chrono::seconds(1);

// A state is found by its size too, so that a thread that still decides by the old
// rules cannot wipe the new state.
base::Hash128 StateKey(const base::Hash128& key, const AnySpec& spec) noexcept {
  return {key.low ^ (spec.words() * 0x9e3779b97f4a7c15), key.high};
}

// `State`: int64_t& or std::span<uint64_t>.
template <typename State>
Numbers TakeUpTo(const AnySpec& spec, State&& state, Instant now, int64_t cost,
                 Receipt& receipt) noexcept {
  Numbers numbers = spec.TakeUpTo(state, now, cost, receipt);
  numbers.allowed = false;
  return numbers;
}

template <typename State>
Numbers LongWait(const AnySpec& spec, State&& state, Instant now, int64_t cost, Duration wait,
                 Duration wait_max) noexcept {
  Numbers numbers = spec.Look(state, now, 0);
  numbers.allowed = false;
  numbers.wait = Duration::zero();
  numbers.retry_after = spec.RetryAfterWait(cost, wait, wait_max);
  return numbers;
}

// How long until `cost` fits, for a caller that waits at most `wait_max`: what could be
// booked at once may be more than that.
template <typename State>
Duration RetryAfter(const AnySpec& spec, State&& state, Instant now, int64_t cost,
                    Duration wait_max) noexcept {
  Numbers next = spec.Look(state, now, cost);
  if (next.allowed) return spec.RetryAfterWait(cost, next.wait, wait_max);
  spec.DelayRetry(cost, wait_max, next);
  return next.retry_after;
}

Numbers DecideWord(const AnySpec& spec, int64_t& word, Instant now, int64_t cost, TakeMode mode,
                   Duration wait_max, Receipt& receipt) noexcept {
  if (mode == TakeMode::kExhaust) [[unlikely]] {
    return TakeUpTo(spec, word, now, cost, receipt);
  }
  const int64_t before = word;
  Numbers numbers = spec.Decide(word, now, cost, receipt);
  if (numbers.allowed && numbers.wait > wait_max) [[unlikely]] {
    word = before;
    receipt = {};
    numbers = RefuseLongWait(spec, word, now, cost, numbers.wait, wait_max);
  } else if (!numbers.allowed) {
    spec.DelayRetry(cost, wait_max, numbers);
  }
  if (numbers.allowed || mode == TakeMode::kTake) return numbers;
  numbers = TakeUpTo(spec, word, now, cost, receipt);
  numbers.retry_after = RetryAfter(spec, word, now, cost, wait_max);
  return numbers;
}

Numbers DecideState(const AnySpec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                    TakeMode mode, Duration wait_max, Receipt& receipt) noexcept {
  if (mode == TakeMode::kExhaust) return TakeUpTo(spec, state, now, cost, receipt);
  Numbers numbers;
  if (spec.state_waits()) numbers = spec.Look(state, now, cost);
  if (numbers.allowed && numbers.wait > wait_max) {
    numbers = LongWait(spec, state, now, cost, numbers.wait, wait_max);
  } else {
    numbers = spec.Decide(state, now, cost, receipt);
    if (!numbers.allowed) spec.DelayRetry(cost, wait_max, numbers);
  }
  if (numbers.allowed || mode == TakeMode::kTake) return numbers;
  numbers = TakeUpTo(spec, state, now, cost, receipt);
  if (spec.state_waits()) numbers.retry_after = RetryAfter(spec, state, now, cost, wait_max);
  return numbers;
}

Numbers NoRoom(const AnySpec& spec) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit();
  numbers.retry_after = kRetryUnknown;
  return numbers;
}

bool IsFresh(std::span<const uint64_t> state) noexcept {
  return std::all_of(state.begin(), state.end(), [](uint64_t word) { return word == 0; });
}

// Calls visit(spec) for every other shape that the state of a key may have, until one
// answers true.  Result: whether one did.
template <typename F>
bool AnyOtherShape(const CellRef& cell, F&& visit) noexcept {
  if (cell.shapes == nullptr) return false;
  for (const std::atomic<const LiveSpec*>& one : cell.shapes->specs) {
    const LiveSpec* live = one.load(std::memory_order_acquire);
    if (live == nullptr) return false;
    const std::optional<AnySpec>& spec = live->spec;
    if (spec && spec->words() != cell.spec->words() && visit(*spec)) return true;
  }
  return false;
}

// The state of a key in another shape than that of the rules.
struct OldState {
  const AnySpec* spec = nullptr;
  std::vector<uint64_t> words;
};

OldState FindOld(store::StateMap& states, const CellRef& cell, Instant now) {
  OldState old;
  AnyOtherShape(cell, [&](const AnySpec& spec) {
    const bool found = states.UpdateExisting(StateKey(cell.key, spec), spec.words(), now,
                                             [&](std::span<uint64_t> state) {
                                               old.words.assign(state.begin(), state.end());
                                               return spec.KeepUntil(state);
                                             });
    if (found) old.spec = &spec;
    return found;
  });
  return old;
}

Numbers Inside(int64_t in_use, int64_t limit, int64_t cost, bool take) noexcept {
  Numbers numbers;
  numbers.limit = limit;
  numbers.allowed = cost <= limit - in_use;
  const int64_t after = numbers.allowed && take ? in_use + cost : in_use;
  numbers.remaining = std::clamp<int64_t>(limit - after, 0, limit);
  if (!numbers.allowed) numbers.retry_after = cost > limit ? kNever : kRetryUnknown;
  return numbers;
}

// A slot in use is never forgotten.
Instant KeepInside(uint64_t in_use) noexcept {
  return in_use > 0 ? Instant::max() : Instant();
}

}  // namespace

Numbers RefuseLongWait(const AnySpec& spec, int64_t word, Instant now, int64_t cost, Duration wait,
                       Duration wait_max) noexcept {
  return LongWait(spec, word, now, cost, wait, wait_max);
}

Result<std::unique_ptr<Cells>> Cells::Create(size_t cell_capacity, size_t state_bytes) {
  FG_ASSIGN_OR_RETURN(auto table, store::CellTable::Create(cell_capacity));
  FG_ASSIGN_OR_RETURN(auto states, store::StateMap::Create(state_bytes));
  return std::unique_ptr<Cells>(new Cells(std::move(table), std::move(states)));
}

// Runs `decide(std::span<uint64_t>) -> Numbers`, after having carried the state over
// from another shape if the key has none of the present one.
template <typename F>
CellAnswer Cells::OnState(const CellRef& cell, Instant now, F& decide) noexcept {
  const AnySpec& spec = *cell.spec;
  const base::Hash128 key = StateKey(cell.key, spec);
  CellAnswer answer;
  OldState old;
  auto run = [&](std::span<uint64_t> state) {
    if (old.spec != nullptr && IsFresh(state)) spec.Adopt(*old.spec, old.words, state);
    answer.numbers = decide(state);
    return spec.KeepUntil(state);
  };
  const bool has_others = AnyOtherShape(cell, [](const AnySpec& /*spec*/) { return true; });
  if (has_others) [[unlikely]] {
    if (states_->UpdateExisting(key, spec.words(), now, run)) return answer;
    old = FindOld(*states_, cell, now);
  }
  const store::StateUpdate update = states_->Update(key, spec.words(), now, run);
  if (update == store::StateUpdate::kFull) return {.numbers = NoRoom(spec), .full = true};
  if (update == store::StateUpdate::kKept && old.spec != nullptr) {
    // Kept any longer, it would be taken for the present one after the next reload.
    // Removed any sooner, another thread would find neither.
    states_->UpdateExisting(StateKey(cell.key, *old.spec), old.spec->words(), now,
                            [](std::span<uint64_t> /*state*/) { return Instant{}; });
  }
  return answer;
}

// Runs `settle(spec, state)` on the state of the key, in the shape that it has by now.
// Returns false if there is none.
template <typename F>
bool Cells::OnKeptState(const CellRef& cell, Instant now, F&& settle) noexcept {
  const auto in_shape = [&](const AnySpec& spec) {
    return states_->UpdateExisting(StateKey(cell.key, spec), spec.words(), now,
                                   [&](std::span<uint64_t> state) {
                                     settle(spec, state);
                                     return spec.KeepUntil(state);
                                   });
  };
  return in_shape(*cell.spec) || AnyOtherShape(cell, in_shape);
}

CellAnswer Cells::TakeElse(const CellRef& cell, Instant now, int64_t cost, TakeMode mode,
                           Duration wait_max, Receipt& receipt) noexcept {
  CellAnswer answer;
  const auto on_word = [&](int64_t& word) {
    const int64_t before = word;
    receipt = {};
    answer.numbers = DecideWord(*cell.spec, word, now, cost, mode, wait_max, receipt);
    return word != before;
  };
  if (cell.single != nullptr) {
    UpdateWord(cell.single->word, on_word);
  } else if (cell.spec->one_word()) {
    table_->Update(cell.key, now, on_word);
  } else {
    auto on_state = [&](std::span<uint64_t> state) {
      receipt = {};
      return DecideState(*cell.spec, state, now, cost, mode, wait_max, receipt);
    };
    answer = OnState(cell, now, on_state);
    if (answer.full) receipt = {};
  }
  return answer;
}

CellAnswer Cells::Look(const CellRef& cell, Instant now, int64_t cost, Duration wait_max) noexcept {
  if (!cell.spec->one_word()) {
    auto look = [&](std::span<uint64_t> state) {
      Numbers numbers = cell.spec->Look(state, now, cost);
      if (!numbers.allowed) cell.spec->DelayRetry(cost, wait_max, numbers);
      if (!numbers.allowed || numbers.wait <= wait_max) return numbers;
      return LongWait(*cell.spec, state, now, cost, numbers.wait, wait_max);
    };
    return OnState(cell, now, look);
  }
  const int64_t word = cell.single != nullptr ? cell.single->word.load(std::memory_order_acquire)
                                              : table_->Read(cell.key, now);
  Numbers numbers = cell.spec->Look(word, now, cost);
  if (numbers.allowed && numbers.wait > wait_max) {
    numbers = RefuseLongWait(*cell.spec, word, now, cost, numbers.wait, wait_max);
  } else if (!numbers.allowed) {
    cell.spec->DelayRetry(cost, wait_max, numbers);
  }
  return {.numbers = numbers};
}

void Cells::GiveBack(const CellRef& cell, const Receipt& receipt, Instant now) noexcept {
  if (receipt.cost == 0) return;
  const auto on_word = [&](int64_t& word) {
    const int64_t before = word;
    cell.spec->GiveBack(word, receipt, now);
    return word != before;
  };
  if (cell.single != nullptr) {
    UpdateWord(cell.single->word, on_word);
  } else if (cell.spec->one_word()) {
    table_->UpdateExisting(cell.key, now, on_word);
  } else {
    OnKeptState(cell, now, [&](const AnySpec& spec, std::span<uint64_t> state) {
      spec.GiveBack(state, receipt, now);
    });
  }
}

void Cells::Charge(const CellRef& cell, int64_t units, Instant now) noexcept {
  const auto on_word = [&](int64_t& word) {
    const int64_t before = word;
    cell.spec->Charge(word, units, now);
    return word != before;
  };
  if (cell.single != nullptr) {
    UpdateWord(cell.single->word, on_word);
  } else if (cell.spec->one_word()) {
    // The cell may be gone by now: what it held has drained, what is charged has not.
    table_->Update(cell.key, now, on_word);
  } else {
    const bool kept = OnKeptState(cell, now, [&](const AnySpec& spec, std::span<uint64_t> state) {
      spec.Charge(state, units, now);
    });
    if (kept) return;
    states_->Update(StateKey(cell.key, *cell.spec), cell.spec->words(), now,
                    [&](std::span<uint64_t> state) {
                      cell.spec->Charge(state, units, now);
                      return cell.spec->KeepUntil(state);
                    });
  }
}

CellAnswer Cells::Enter(const CellRef& cell, Instant now, int64_t limit, int64_t cost) noexcept {
  CellAnswer answer;
  if (cell.single != nullptr) {
    UpdateWord(cell.single->word, [&](int64_t& in_use) {
      answer.numbers = Inside(in_use, limit, cost, true);
      if (answer.numbers.allowed) in_use += cost;
      return answer.numbers.allowed;
    });
    return answer;
  }
  auto enter = [&](std::span<uint64_t> state) {
    answer.numbers = Inside(static_cast<int64_t>(state[0]), limit, cost, true);
    if (answer.numbers.allowed) state[0] += static_cast<uint64_t>(cost);
    return KeepInside(state[0]);
  };
  if (states_->Update(cell.key, 1, now, enter) == store::StateUpdate::kFull) {
    answer.numbers = Inside(limit, limit, cost, true);
    answer.full = true;
  }
  return answer;
}

CellAnswer Cells::LookInside(const CellRef& cell, Instant now, int64_t limit,
                             int64_t cost) noexcept {
  int64_t in_use = 0;
  if (cell.single != nullptr) {
    in_use = cell.single->word.load(std::memory_order_acquire);
  } else {
    states_->UpdateExisting(cell.key, 1, now, [&](std::span<uint64_t> state) {
      in_use = static_cast<int64_t>(state[0]);
      return KeepInside(state[0]);
    });
  }
  return {.numbers = Inside(in_use, limit, cost, false)};
}

void Cells::Leave(const CellRef& cell, Instant now, int64_t cost) noexcept {
  if (cell.single != nullptr) {
    cell.single->word.fetch_sub(cost, std::memory_order_acq_rel);
    return;
  }
  states_->UpdateExisting(cell.key, 1, now, [&](std::span<uint64_t> state) {
    state[0] -= std::min(state[0], static_cast<uint64_t>(cost));
    return KeepInside(state[0]);
  });
}

}  // namespace flowguard::engine
