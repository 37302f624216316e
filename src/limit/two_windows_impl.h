// SPDX-License-Identifier: Apache-2.0
//
// The bodies of TwoWindows, for the sources that instantiate it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/two_windows.h"
#include "limit/validate.h"
#include "limit/wide.h"
#include "limit/window_pair.h"

namespace flowguard::limit {

inline WindowPair ReadPair(const TwoWindowsSpec& spec, std::span<const uint64_t> state,
                           Instant now) noexcept {
  return WindowPair::Read(state, spec.window_ns, spec.limit + spec.max_debt, Nanos(now));
}

// Until what both windows hold counts no more.
inline Duration UntilBothArePast(const TwoWindowsSpec& spec, const WindowPair& pair,
                                 Instant now) noexcept {
  if (pair.next > 0) return Duration(pair.start_ns + 3 * spec.window_ns - Nanos(now));
  if (pair.current > 0) return Duration(pair.start_ns + 2 * spec.window_ns - Nanos(now));
  if (pair.previous > 0) return Duration(pair.start_ns + spec.window_ns - Nanos(now));
  return {};
}

// The wait for the next window of a request that borrows `cost` from it, if it may.
inline Duration WaitToBorrow(const TwoWindowsSpec& spec, const WindowPair& pair, int64_t cost,
                             Instant now) noexcept {
  const Duration wait(pair.start_ns + spec.window_ns - Nanos(now));
  const bool fits = pair.current + pair.next + cost <= spec.limit;
  return fits && wait.count() < spec.borrow_ns ? wait : Duration::zero();
}

// Decides on `pair`, and books the cost there if it fits.
template <typename Estimate>
Numbers Answer(const TwoWindowsSpec& spec, WindowPair& pair, int64_t cost, Instant now) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit;
  int64_t room = Estimate::Room(spec, pair);
  numbers.allowed = cost == 0 || cost <= room;
  if (numbers.allowed) {
    pair.current += cost;
    room = Estimate::RoomAfter(spec, pair, room, cost);
  } else if (cost > spec.limit) {
    numbers.retry_after = kNever;
  } else if (spec.borrow_ns == 0) {
    numbers.retry_after = Estimate::RetryAfter(spec, pair, cost, now);
  } else if constexpr (Estimate::kBorrows) {
    numbers.wait = WaitToBorrow(spec, pair, cost, now);
    numbers.allowed = numbers.wait > Duration::zero();
    if (numbers.allowed) {
      pair.next += cost;
      room = Estimate::Room(spec, pair);
    } else {
      numbers.retry_after = Estimate::RetryBorrowing(spec, pair, cost, now);
    }
  }
  numbers.remaining = std::max<int64_t>(room, 0);
  numbers.reset_after = Estimate::ResetAfter(spec, pair, numbers.remaining, now);
  return numbers;
}

template <typename Estimate>
Result<typename TwoWindows<Estimate>::Spec> TwoWindows<Estimate>::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  return Spec{{.limit = config.rate.limit,
               .window_ns = config.rate.window.count() / Estimate::kWindows,
               .max_debt = config.max_debt,
               .borrow_ns = Estimate::kBorrows && config.prioritised ? config.borrow.count() : 0}};
}

template <typename Estimate>
size_t TwoWindows<Estimate>::Words(const Spec& /*spec*/) noexcept {
  return Estimate::kBorrows ? WindowPair::kBorrowingWords : WindowPair::kWords;
}

template <typename Estimate>
Numbers TwoWindows<Estimate>::Decide(const Spec& spec, std::span<uint64_t> state, Instant now,
                                     int64_t cost, Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == Words(spec));
  receipt = {};
  WindowPair pair = ReadPair(spec, state, now);
  const Numbers numbers = Answer<Estimate>(spec, pair, cost, now);
  if (numbers.allowed) {
    const bool borrowed = numbers.wait > Duration::zero();
    receipt = {.cost = cost, .mark = borrowed ? pair.index + 1 : pair.index};
  }
  if (receipt.cost > 0 || pair.repaired) pair.Write(state);
  return numbers;
}

template <typename Estimate>
Numbers TwoWindows<Estimate>::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                                   int64_t cost) noexcept {
  WindowPair pair = ReadPair(spec, state, now);
  return Answer<Estimate>(spec, pair, cost, now);
}

template <typename Estimate>
void TwoWindows<Estimate>::GiveBack(const Spec& spec, std::span<uint64_t> state,
                                    const Receipt& receipt, Instant now) noexcept {
  WindowPair pair = ReadPair(spec, state, now);
  pair.GiveBack(receipt);
  pair.Write(state);
}

template <typename Estimate>
void TwoWindows<Estimate>::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                                  Instant now) noexcept {
  WindowPair pair = ReadPair(spec, state, now);
  const int64_t room = spec.limit + spec.max_debt - Estimate::Used(spec, pair);
  if (units <= 0 || room <= 0 || spec.limit == 0) return;
  pair.current += std::min(units, room);
  pair.Write(state);
}

template <typename Estimate>
Numbers TwoWindows<Estimate>::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now,
                                       int64_t cost, Receipt& receipt) noexcept {
  return TakeUpToRemaining<TwoWindows>(spec, state, now, cost, receipt);
}

template <typename Estimate>
Instant TwoWindows<Estimate>::KeepUntil(const Spec& spec,
                                        std::span<const uint64_t> state) noexcept {
  return WindowPair::KeepUntil(state, spec.window_ns);
}

}  // namespace flowguard::limit
