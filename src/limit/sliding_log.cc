// SPDX-License-Identifier: Apache-2.0
#include "limit/sliding_log.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"

namespace flowguard::limit {
namespace {

constexpr size_t kOldestWord = 0;
constexpr size_t kDebtWord = 1;
constexpr size_t kRingWord = 2;

// A reading of the log at one instant.  Slots count from the oldest.
class LogView {
 public:
  LogView(const SlidingLog::Spec& spec, std::span<const uint64_t> state, Instant now) noexcept
      : state_(state),
        limit_(static_cast<size_t>(spec.limit)),
        window_ns_(spec.window_ns),
        now_ns_(Nanos(now)) {
    if (limit_ == 0) return;
    debt_ = static_cast<int64_t>(state[kDebtWord]);
    most_ns_ = Slot(limit_ - 1);
    if (most_ns_ - now_ns_ > window_ns_ + spec.ahead_ns + base::kLateStampMax.count()) {
      most_ns_ = now_ns_ + window_ns_ + spec.ahead_ns;
      stepped_ = true;
    }
  }

  // The clock stepped back: slots count as free one window from now at the latest, and where
  // they are lent as much later.
  [[nodiscard]] bool stepped() const noexcept { return stepped_; }
  [[nodiscard]] int64_t debt() const noexcept { return debt_; }

  // When a slot is free.
  [[nodiscard]] int64_t FreeAt(size_t slot) const noexcept {
    return std::min(Slot(slot), most_ns_);
  }

  // When the log, as a queue of slots, has handed out `taken` of them from now on, debt
  // first: a slot taken by debt comes round again one window later, and never before
  // those taken earlier.  Requires: taken >= 1.
  [[nodiscard]] int64_t HandedOutAt(int64_t taken) const noexcept {
    const int64_t slot = (taken - 1) % static_cast<int64_t>(limit_);
    const int64_t rounds = (taken - 1) / static_cast<int64_t>(limit_);
    const int64_t free_at = FreeAt(static_cast<size_t>(slot));
    if (rounds == 0) return free_at;
    return std::max(free_at + rounds * window_ns_, most_ns_ + (rounds - 1) * window_ns_);
  }

  // Units that a request may take now.
  [[nodiscard]] int64_t Remaining() const noexcept {
    int64_t least = 0;
    int64_t most = static_cast<int64_t>(limit_);
    while (least < most) {
      const int64_t middle = least + (most - least + 1) / 2;
      if (HandedOutAt(debt_ + middle) <= now_ns_) {
        least = middle;
      } else {
        most = middle - 1;
      }
    }
    return least;
  }

  [[nodiscard]] int64_t FullAt() const noexcept {
    return limit_ == 0 ? 0 : HandedOutAt(debt_ + static_cast<int64_t>(limit_));
  }

 private:
  [[nodiscard]] int64_t Slot(size_t slot) const noexcept {
    size_t at = static_cast<size_t>(state_[kOldestWord]) + slot;
    if (at >= limit_) at -= limit_;
    return static_cast<int64_t>(state_[kRingWord + at]);
  }

  std::span<const uint64_t> state_;
  size_t limit_;
  int64_t window_ns_;
  int64_t now_ns_;
  int64_t debt_ = 0;
  int64_t most_ns_ = 0;  // when the newest slot is free
  bool stepped_ = false;
};

// The ring of a state, to write.  Requires: limit > 0.
class Ring {
 public:
  Ring(const SlidingLog::Spec& spec, std::span<uint64_t> state) noexcept
      : spec_(spec), state_(state), limit_(static_cast<size_t>(spec.limit)) {}

  [[nodiscard]] uint64_t& At(size_t slot) noexcept {
    size_t at = static_cast<size_t>(state_[kOldestWord]) + slot;
    if (at >= limit_) at -= limit_;
    return state_[kRingWord + at];
  }

  // Replaces the oldest slot; keeps the ring sorted.  Result: when the slot is free.
  int64_t Push(int64_t free_at_ns) noexcept {
    const int64_t newest_ns = static_cast<int64_t>(At(limit_ - 1));
    const int64_t sorted_ns = std::max(free_at_ns, newest_ns);
    At(0) = static_cast<uint64_t>(sorted_ns);
    state_[kOldestWord] = (state_[kOldestWord] + 1) % limit_;
    return sorted_ns;
  }

  // Draws back what lies beyond a window from now, or from when the last of those who wait
  // goes; to be called when the clock stepped.
  void Repair(int64_t now_ns) noexcept {
    const auto most = static_cast<uint64_t>(now_ns + spec_.window_ns + spec_.ahead_ns);
    for (uint64_t& free_at : state_.subspan(kRingWord))
      free_at = std::min(free_at, most);
  }

  // Lets debt take the slots that are free by then.
  void PayDebt(int64_t then_ns) noexcept {
    while (state_[kDebtWord] > 0 && static_cast<int64_t>(At(0)) <= then_ns) {
      Push(static_cast<int64_t>(At(0)) + spec_.window_ns);
      --state_[kDebtWord];
    }
  }

  // Frees `units` slots that end at slot `end` (exclusive), as of `free_at`, which is before
  // they were to be.  Requires: units <= end.
  void Free(size_t end, size_t units, int64_t free_at_ns) noexcept {
    for (size_t slot = end; slot < limit_; ++slot)
      At(slot - units) = At(slot);
    for (size_t slot = limit_ - units; slot < limit_; ++slot)
      At(slot) = 0;
    state_[kOldestWord] = (state_[kOldestWord] + limit_ - units) % limit_;
    if (free_at_ns == 0) return;
    // They are the oldest now; what is free before goes ahead of them.
    const auto free_at = static_cast<uint64_t>(free_at_ns);
    size_t place = 0;
    for (; place + units < limit_ && At(place + units) < free_at; ++place)
      At(place) = At(place + units);
    for (size_t slot = place; slot < place + units; ++slot)
      At(slot) = free_at;
  }

  // The first slot whose instant is >= (or, with `after`, >) the given one.
  [[nodiscard]] size_t FirstFrom(uint64_t free_at, bool after) noexcept {
    size_t least = 0;
    size_t most = limit_;
    while (least < most) {
      const size_t middle = least + (most - least) / 2;
      if (At(middle) < free_at || (after && At(middle) == free_at)) {
        least = middle + 1;
      } else {
        most = middle;
      }
    }
    return least;
  }

 private:
  const SlidingLog::Spec& spec_;
  std::span<uint64_t> state_;
  size_t limit_;
};

Numbers Answer(const SlidingLog::Spec& spec, const LogView& log, int64_t cost,
               Instant now) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit;
  numbers.remaining = log.Remaining();
  numbers.reset_after = Duration(std::max<int64_t>(log.FullAt() - Nanos(now), 0));
  numbers.allowed = cost <= numbers.remaining;
  if (cost > spec.limit) {
    numbers.retry_after = kNever;
  } else if (!numbers.allowed) {
    const Duration until(log.HandedOutAt(log.debt() + cost) - Nanos(now));
    numbers.allowed = until.count() <= spec.wait_ns;
    (numbers.allowed ? numbers.wait : numbers.retry_after) =
        numbers.allowed ? until : until - Duration(spec.wait_ns);
  }
  return numbers;
}

// Brings the state up to `now`: repairs it after a clock step, pays debt.
Ring CatchUp(const SlidingLog::Spec& spec, std::span<uint64_t> state, Instant now) noexcept {
  Ring ring(spec, state);
  if (LogView(spec, state, now).stepped()) ring.Repair(Nanos(now));
  ring.PayDebt(Nanos(now));
  return ring;
}

}  // namespace

Result<SlidingLog::Spec> SlidingLog::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  if (config.rate.limit > base::kSlidingLogLimitMax) {
    return OutOfBounds("limit", config.rate.limit, 0, base::kSlidingLogLimitMax,
                       "units with sliding_log (8 bytes each, a key)");
  }
  if (config.max_debt > base::kSlidingLogLimitMax) {
    return OutOfBounds("max_debt", config.max_debt, 0, base::kSlidingLogLimitMax,
                       "units with sliding_log");
  }
  const Spec spec{.limit = config.rate.limit,
                  .window_ns = config.rate.window.count(),
                  .max_debt = config.max_debt,
                  .ahead_ns = config.borrow.count(),
                  .wait_ns = config.prioritised ? config.borrow.count() : 0};
  if (spec.limit > 0) {
    const int64_t windows = base::kHorizonNsMax / spec.window_ns - 2;
    if (spec.max_debt / spec.limit > windows) {
      return OutOfBounds("max_debt", spec.max_debt, 0, windows * spec.limit,
                         "units at this limit and window");
    }
  }
  return spec;
}

size_t SlidingLog::Words(const Spec& spec) noexcept {
  return kRingWord + static_cast<size_t>(spec.limit);
}

Numbers SlidingLog::Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                           Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == Words(spec));
  receipt = {};
  const LogView log(spec, state, now);
  if (log.stepped()) {
    Ring(spec, state).Repair(Nanos(now));
    return Decide(spec, state, now, cost, receipt);
  }
  const Numbers numbers = Answer(spec, log, cost, now);
  if (!numbers.allowed || cost == 0) return numbers;
  Ring ring(spec, state);
  const int64_t then_ns = Nanos(now) + numbers.wait.count();
  ring.PayDebt(then_ns);
  receipt.cost = cost;
  for (int64_t unit = 0; unit < cost; ++unit) {
    receipt.mark = ring.Push(then_ns + spec.window_ns);
  }
  return Numbers{.allowed = true,
                 .limit = spec.limit,
                 .remaining = std::max<int64_t>(numbers.remaining - cost, 0),
                 .reset_after = Duration(receipt.mark - Nanos(now)),
                 .wait = numbers.wait};
}

Numbers SlidingLog::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                         int64_t cost) noexcept {
  const LogView log(spec, state, now);
  Numbers numbers = Answer(spec, log, cost, now);
  if (numbers.allowed && cost > 0) {
    numbers.remaining = std::max<int64_t>(numbers.remaining - cost, 0);
    numbers.reset_after = std::max(numbers.reset_after, numbers.wait + Duration(spec.window_ns));
  }
  return numbers;
}

void SlidingLog::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                          Instant now) noexcept {
  if (receipt.cost <= 0 || spec.limit == 0 || receipt.mark <= Nanos(now)) return;
  Ring ring = CatchUp(spec, state, now);
  const auto mark = static_cast<uint64_t>(receipt.mark);
  const size_t first = ring.FirstFrom(mark, false);
  const size_t end = ring.FirstFrom(mark, true);
  const uint64_t present = std::min(static_cast<uint64_t>(receipt.cost), end - first);
  const uint64_t paid = std::min(present, state[kDebtWord]);
  state[kDebtWord] -= paid;
  const int64_t could_go_ns = receipt.mark - spec.window_ns;
  ring.Free(end, static_cast<size_t>(present - paid), could_go_ns > Nanos(now) ? could_go_ns : 0);
}

void SlidingLog::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                        Instant now) noexcept {
  if (units <= 0 || spec.limit == 0) return;
  Ring ring = CatchUp(spec, state, now);
  for (; units > 0 && static_cast<int64_t>(ring.At(0)) <= Nanos(now); --units) {
    ring.Push(Nanos(now) + spec.window_ns);
  }
  const auto debt = static_cast<int64_t>(state[kDebtWord]);
  state[kDebtWord] =
      static_cast<uint64_t>(debt + std::min(units, std::max<int64_t>(spec.max_debt - debt, 0)));
}

Numbers SlidingLog::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                             Receipt& receipt) noexcept {
  return TakeUpToRemaining<SlidingLog>(spec, state, now, cost, receipt);
}

void SlidingLog::Adopt(const Spec& spec, std::span<uint64_t> state, const Spec& old,
                       std::span<const uint64_t> from) noexcept {
  FG_DCHECK(state.size() == Words(spec) && from.size() == Words(old));
  FG_DCHECK(spec.window_ns == old.window_ns);
  const auto before = static_cast<size_t>(old.limit);
  const auto after = static_cast<size_t>(spec.limit);
  const size_t kept = std::min(before, after);
  const auto oldest = static_cast<size_t>(from[kOldestWord]);
  for (size_t i = 1; i <= kept; ++i) {
    const uint64_t free_at = from[kRingWord + (oldest + before - i) % before];
    if (free_at == 0) break;
    state[kRingWord + after - i] = free_at;
  }
  if (kept > 0) {
    state[kDebtWord] = std::min(from[kDebtWord], static_cast<uint64_t>(spec.max_debt));
  }
}

Instant SlidingLog::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  if (spec.limit == 0) return Instant{};
  // Read at the newest instant, so that nothing looks like a clock step.
  return Instant(Duration(LogView(spec, state, Instant::max()).FullAt()));
}

}  // namespace flowguard::limit
