// SPDX-License-Identifier: Apache-2.0
#include "limit/fixed_window.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"

namespace flowguard::limit {
namespace {

// The word, unpacked, as it matters now.
struct Filled {
  int64_t current = 0;  // index of the window of `now`
  int64_t index = 0;    // the last window with units in it, >= current
  int64_t count = 0;    // units in it; 0 only when index == current
};

// As it is: the count may be above the limit, if that was lowered or if the word is one
// of later numbers than those that a call is settled by.
Filled ReadAsIs(const FixedWindow::Spec& spec, int64_t word, int64_t now_ns) noexcept {
  const int64_t current = spec.per_window.Quotient(now_ns);
  const Filled empty{.current = current, .index = current};
  if (word == 0 || spec.limit == 0) return empty;
  const int64_t after_index = spec.per_window.Quotient(word - 1);
  if (after_index - 1 < current) return empty;
  return {
      .current = current, .index = after_index - 1, .count = word - after_index * spec.window_ns};
}

// For a decision: never above the limit; a word that only a clock that stepped back can
// have left is drawn back.
Filled Read(const FixedWindow::Spec& spec, int64_t& word, int64_t now_ns) noexcept {
  Filled filled = ReadAsIs(spec, word, now_ns);
  const int64_t ahead = filled.index - filled.current;
  if (ahead > spec.debt_windows &&
      filled.index * spec.window_ns - now_ns >
          spec.debt_windows * spec.window_ns + base::kLateStampMax.count()) {
    word = (filled.current + 1) * spec.window_ns + spec.limit;
    return {.current = filled.current, .index = filled.current, .count = spec.limit};
  }
  filled.count = std::min(filled.count, spec.limit);
  return filled;
}

// The window that requests take from now: with debt the current one, which is full while
// units lie in later ones; without debt a later one can only be a late time stamp.
int64_t TakenFrom(const FixedWindow::Spec& spec, const Filled& filled) noexcept {
  return spec.max_debt > 0 ? filled.current : filled.index;
}

int64_t Used(const FixedWindow::Spec& spec, const Filled& filled) noexcept {
  return (filled.index - TakenFrom(spec, filled)) * spec.limit + filled.count;
}

// `used` units from the start of window `from` on, as a word.
int64_t Pack(const FixedWindow::Spec& spec, int64_t from, int64_t used) noexcept {
  if (used == 0) return 0;
  const int64_t full_windows = (used - 1) / spec.limit;
  return (from + full_windows + 1) * spec.window_ns + (used - full_windows * spec.limit);
}

}  // namespace

Result<FixedWindow::Spec> FixedWindow::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  Spec spec;
  spec.limit = config.rate.limit;
  spec.window_ns = config.rate.window.count();
  spec.per_window = Divisor(spec.window_ns);
  if (spec.limit == 0) return spec;
  const int64_t most_debt =
      Saturate(static_cast<Int128>(base::kHorizonNsMax / spec.window_ns - 1) * spec.limit);
  if (config.max_debt > most_debt) {
    return OutOfBounds("max_debt", config.max_debt, 0, most_debt, "units at this limit");
  }
  spec.max_debt = config.max_debt;
  spec.debt_windows = (config.max_debt + spec.limit - 1) / spec.limit;
  return spec;
}

Numbers FixedWindow::Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                            Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && word >= 0);
  const int64_t now_ns = Nanos(now);
  Filled filled = Read(spec, word, now_ns);
  const int64_t from = TakenFrom(spec, filled);
  int64_t remaining = std::max<int64_t>(spec.limit - Used(spec, filled), 0);
  receipt = {};
  Numbers numbers;
  numbers.limit = spec.limit;
  numbers.allowed = cost <= remaining;
  if (numbers.allowed) {
    receipt = {.cost = cost, .mark = from};
    filled.count += cost;
    remaining -= cost;
    if (cost > 0) word = Pack(spec, from, filled.count);
  } else if (cost > spec.limit) {
    numbers.retry_after = kNever;
  } else {
    // The rest of the last window with units may do; it has not begun then.
    const int64_t window = filled.index + (filled.count + cost <= spec.limit ? 0 : 1);
    numbers.retry_after = Duration(window * spec.window_ns - now_ns);
  }
  numbers.remaining = remaining;
  if (filled.count > 0) {
    numbers.reset_after = Duration((filled.index + 1) * spec.window_ns - now_ns);
  }
  return numbers;
}

void FixedWindow::GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                           Instant now) noexcept {
  const Filled filled = ReadAsIs(spec, word, Nanos(now));
  const int64_t from = TakenFrom(spec, filled);
  const bool counted = receipt.mark >= from && receipt.mark <= filled.index && filled.count > 0;
  if (receipt.cost <= 0 || !counted) return;
  if (filled.count > receipt.cost) {
    word -= receipt.cost;  // of the last window alone, whatever that holds
  } else {
    word = Pack(spec, from, std::max<int64_t>(Used(spec, filled) - receipt.cost, 0));
  }
}

void FixedWindow::Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept {
  const Filled filled = ReadAsIs(spec, word, Nanos(now));
  const int64_t used = Used(spec, filled);
  const int64_t room = spec.limit + spec.max_debt - used;
  if (spec.limit == 0 || units <= 0 || room <= 0) return;
  if (filled.count > spec.limit) {
    // The window holds more than these numbers let it: units do not go over to the next.
    word += std::min({units, room, spec.window_ns - filled.count});
  } else {
    word = Pack(spec, TakenFrom(spec, filled), used + std::min(units, room));
  }
}

Numbers FixedWindow::TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                              Receipt& receipt) noexcept {
  return TakeUpToRemaining<FixedWindow>(spec, word, now, cost, receipt);
}

}  // namespace flowguard::limit
