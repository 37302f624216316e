// SPDX-License-Identifier: Apache-2.0
//
// Where a limit is decided on its cell: a word in the rule itself (no key), a slot
// of the cell table (a word a key), or an entry of the state map (larger states,
// and concurrency by key).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/hash.h"
#include "engine/live_rule.h"
#include "limit/numbers.h"
#include "limit/spec.h"
#include "store/cell_table.h"
#include "store/state_map.h"

namespace flowguard::engine {

// One cell and the numbers it is decided by.
struct CellRef {
  SingleCell* single = nullptr;  // the cell, if the rule has no key and one word
  base::Hash128 key;             // else
  const limit::AnySpec* spec = nullptr;
  const Shapes* shapes = nullptr;  // that the state may have, `spec` among them
};

enum class TakeMode : uint8_t {
  kTake,           // all of the cost or nothing
  kTakeOrExhaust,  // if not all of it, what is there (count_refused)
  kExhaust,        // the request is refused already: what is there, up to the cost
};

// Numbers, and whether there was room to keep the state.
struct CellAnswer {
  limit::Numbers numbers;
  bool full = false;  // no room: nothing was taken
};

// Why a request is refused that got this answer: `usual`, unless there is no room, or the cost
// can never be had.
[[nodiscard]] inline Reason ReasonOf(const CellAnswer& answer, Reason usual) noexcept {
  if (answer.full) return Reason::kOverload;
  // A cost that can never be had; a limit of 0 is a limit all the same.
  const bool never = answer.numbers.retry_after == kNever && answer.numbers.limit > 0;
  return never ? Reason::kInvalidCost : usual;
}

// Runs `f(int64_t& word) -> bool` as CellTable::Update does, on one atomic word.
template <typename F>
void UpdateWord(std::atomic<int64_t>& cell, F&& f) noexcept {
  int64_t old = cell.load(std::memory_order_acquire);
  for (;;) {
    int64_t word = old;
    if (!f(word)) return;
    if (cell.compare_exchange_weak(old, word, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return;
    }
  }
}

// Threads: all methods but Create from any thread.  No lock for one-word states.
class Cells {
 public:
  // Errors: those of CellTable and StateMap.
  static Result<std::unique_ptr<Cells>> Create(size_t cell_capacity, size_t state_bytes);

  // A wait longer than `wait_max` is a refusal.
  CellAnswer Take(const CellRef& cell, Instant now, int64_t cost, TakeMode mode, Duration wait_max,
                  limit::Receipt& receipt) noexcept {
    // The usual case, inline.
    if (mode == TakeMode::kTake && cell.spec->algorithm() == Algorithm::kTokenBucket) [[likely]] {
      return TakeTokens(cell, now, cost, wait_max, receipt);
    }
    return TakeElse(cell, now, cost, mode, wait_max, receipt);
  }
  // What Take would answer.  Takes nothing.
  CellAnswer Look(const CellRef& cell, Instant now, int64_t cost, Duration wait_max) noexcept;
  // These two act on the state that the key has by now, whatever rule set it is of.
  void GiveBack(const CellRef& cell, const limit::Receipt& receipt, Instant now) noexcept;
  void Charge(const CellRef& cell, int64_t units, Instant now) noexcept;

  // Concurrency: `limit` units in use at once.
  CellAnswer Enter(const CellRef& cell, Instant now, int64_t limit, int64_t cost) noexcept;
  CellAnswer LookInside(const CellRef& cell, Instant now, int64_t limit, int64_t cost) noexcept;
  void Leave(const CellRef& cell, Instant now, int64_t cost) noexcept;

  [[nodiscard]] const store::CellTable& table() const noexcept { return *table_; }
  [[nodiscard]] const store::StateMap& states() const noexcept { return *states_; }

 private:
  Cells(std::unique_ptr<store::CellTable> table, std::unique_ptr<store::StateMap> states) noexcept
      : table_(std::move(table)), states_(std::move(states)) {}

  CellAnswer TakeTokens(const CellRef& cell, Instant now, int64_t cost, Duration wait_max,
                        limit::Receipt& receipt) noexcept;
  CellAnswer TakeElse(const CellRef& cell, Instant now, int64_t cost, TakeMode mode,
                      Duration wait_max, limit::Receipt& receipt) noexcept;
  template <typename F>
  CellAnswer OnState(const CellRef& cell, Instant now, F& decide) noexcept;
  template <typename F>
  bool OnKeptState(const CellRef& cell, Instant now, F&& settle) noexcept;

  std::unique_ptr<store::CellTable> table_;
  std::unique_ptr<store::StateMap> states_;
};

// The answer to a take that would need `wait`, more than its caller waits.
[[nodiscard]] limit::Numbers RefuseLongWait(const limit::AnySpec& spec, int64_t word, Instant now,
                                            int64_t cost, Duration wait,
                                            Duration wait_max) noexcept;

inline CellAnswer Cells::TakeTokens(const CellRef& cell, Instant now, int64_t cost,
                                    Duration wait_max, limit::Receipt& receipt) noexcept {
  CellAnswer answer;
  const auto decide = [&](int64_t& word) {
    const int64_t before = word;
    // Made in place: a copy loads 16 bytes of which half has just been stored.
    new (&answer.numbers) limit::Numbers(cell.spec->Decide(word, now, cost, receipt));
    if (answer.numbers.wait > wait_max) [[unlikely]] {
      word = before;
      receipt = {};
      answer.numbers = RefuseLongWait(*cell.spec, word, now, cost, answer.numbers.wait, wait_max);
    } else if (!answer.numbers.allowed) [[unlikely]] {
      cell.spec->DelayRetry(cost, wait_max, answer.numbers);
    }
    return word != before;
  };
  if (cell.single != nullptr) {
    UpdateWord(cell.single->word, decide);
  } else {
    table_->Update(cell.key, now, decide);
  }
  return answer;
}

}  // namespace flowguard::engine
