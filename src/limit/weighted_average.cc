// SPDX-License-Identifier: Apache-2.0
#include "limit/weighted_average.h"

#include <algorithm>

#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"
#include "limit/window_pair.h"

namespace flowguard::limit {
namespace {

WindowPair Read(const WeightedAverage::Spec& spec, std::span<const uint64_t> state,
                Instant now) noexcept {
  return WindowPair::Read(state, spec.window_ns, spec.limit + spec.max_debt, Nanos(now));
}

// Whether the formula itself lets a request go: (e*c + (W-e)*p) / W < limit.
bool BelowAverage(const WeightedAverage::Spec& spec, const WindowPair& pair) noexcept {
  const int64_t left_ns = std::max<int64_t>(spec.window_ns - pair.elapsed_ns, 0);
  const Int128 weighted = static_cast<Int128>(pair.elapsed_ns) * pair.current +
                          static_cast<Int128>(left_ns) * pair.previous;
  return weighted < static_cast<Int128>(spec.limit) * spec.window_ns;
}

// The least elapsed time at which e*c + (W-e)*p < limit*W.  Requires: c < limit.
int64_t ElapsedUntil(const WeightedAverage::Spec& spec, int64_t current,
                     int64_t previous) noexcept {
  if (previous < spec.limit) return 0;
  return MulDivFloor(previous - spec.limit, spec.window_ns, previous - current) + 1;
}

// Requires: 0 < cost <= limit, and cost does not fit now.
Duration RetryAfter(const WeightedAverage::Spec& spec, const WindowPair& pair, int64_t cost,
                    Instant now) noexcept {
  const int64_t at_ns = pair.current + cost <= spec.limit
                            ? pair.start_ns + ElapsedUntil(spec, pair.current, pair.previous)
                            : pair.start_ns + spec.window_ns + ElapsedUntil(spec, 0, pair.current);
  return Duration(at_ns - Nanos(now));
}

int64_t Remaining(const WeightedAverage::Spec& spec, const WindowPair& pair) noexcept {
  return BelowAverage(spec, pair) ? std::max<int64_t>(spec.limit - pair.current, 0) : 0;
}

// Decides on `pair`, and books the cost there if it fits.
Numbers Answer(const WeightedAverage::Spec& spec, WindowPair& pair, int64_t cost,
               Instant now) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit;
  numbers.allowed = cost <= Remaining(spec, pair);
  if (numbers.allowed) {
    pair.current += cost;
  } else {
    numbers.retry_after = cost > spec.limit ? kNever : RetryAfter(spec, pair, cost, now);
  }
  numbers.remaining = Remaining(spec, pair);
  if (numbers.remaining < spec.limit) {
    numbers.reset_after = RetryAfter(spec, pair, spec.limit, now);
  }
  return numbers;
}

}  // namespace

Result<WeightedAverage::Spec> WeightedAverage::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  return Spec{.limit = config.rate.limit,
              .window_ns = config.rate.window.count(),
              .max_debt = config.max_debt};
}

size_t WeightedAverage::Words(const Spec&) noexcept {
  return WindowPair::kWords;
}

Numbers WeightedAverage::Decide(const Spec& spec, std::span<uint64_t> state, Instant now,
                                int64_t cost, Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == WindowPair::kWords);
  receipt = {};
  WindowPair pair = Read(spec, state, now);
  const Numbers numbers = Answer(spec, pair, cost, now);
  if (numbers.allowed) receipt = {.cost = cost, .mark = pair.index};
  if (receipt.cost > 0 || pair.repaired) pair.Write(state);
  return numbers;
}

Numbers WeightedAverage::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                              int64_t cost) noexcept {
  WindowPair pair = Read(spec, state, now);
  return Answer(spec, pair, cost, now);
}

void WeightedAverage::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                               Instant now) noexcept {
  WindowPair pair = Read(spec, state, now);
  pair.GiveBack(receipt);
  pair.Write(state);
}

void WeightedAverage::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                             Instant now) noexcept {
  WindowPair pair = Read(spec, state, now);
  const int64_t room = spec.limit + spec.max_debt - pair.current;
  if (units <= 0 || room <= 0 || spec.limit == 0) return;
  pair.current += std::min(units, room);
  pair.Write(state);
}

Numbers WeightedAverage::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now,
                                  int64_t cost, Receipt& receipt) noexcept {
  return TakeUpToRemaining<WeightedAverage>(spec, state, now, cost, receipt);
}

Instant WeightedAverage::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  return WindowPair::KeepUntil(state, spec.window_ns);
}

}  // namespace flowguard::limit
