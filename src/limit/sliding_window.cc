// SPDX-License-Identifier: Apache-2.0
#include "limit/sliding_window.h"

#include <algorithm>

#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"
#include "limit/window_pair.h"

namespace flowguard::limit {
namespace {

WindowPair Read(const SlidingWindow::Spec& spec, std::span<const uint64_t> state,
                Instant now) noexcept {
  return WindowPair::Read(state, spec.window_ns, spec.limit + spec.max_debt, Nanos(now));
}

int64_t Used(const SlidingWindow::Spec& spec, const WindowPair& pair) noexcept {
  return pair.current + MulDivCeil(pair.previous,
                                   std::max<int64_t>(spec.window_ns - pair.elapsed_ns, 0),
                                   spec.window_ns);
}

// The least elapsed time at which ceil(count * (W - elapsed) / W) <= most.
// Requires: most >= 0.
int64_t ElapsedUntil(const SlidingWindow::Spec& spec, int64_t count, int64_t most) noexcept {
  if (count <= most) return 0;
  return spec.window_ns - MulDivFloor(most, spec.window_ns, count);
}

// Requires: 0 < cost <= limit, and cost does not fit now.
Duration RetryAfter(const SlidingWindow::Spec& spec, const WindowPair& pair, int64_t cost,
                    Instant now) noexcept {
  const int64_t room = spec.limit - cost - pair.current;
  const int64_t at_ns = room >= 0 ? pair.start_ns + ElapsedUntil(spec, pair.previous, room)
                                  : pair.start_ns + spec.window_ns +
                                        ElapsedUntil(spec, pair.current, spec.limit - cost);
  return Duration(at_ns - Nanos(now));
}

// Decides on `pair`, and books the cost there if it fits.
Numbers Answer(const SlidingWindow::Spec& spec, WindowPair& pair, int64_t cost,
               Instant now) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit;
  const int64_t room = spec.limit - Used(spec, pair);
  numbers.allowed = cost == 0 || cost <= room;
  if (numbers.allowed) {
    pair.current += cost;
  } else {
    numbers.retry_after = cost > spec.limit ? kNever : RetryAfter(spec, pair, cost, now);
  }
  numbers.remaining = std::max<int64_t>(room - (numbers.allowed ? cost : 0), 0);
  if (pair.current > 0) {
    numbers.reset_after = Duration(pair.start_ns + 2 * spec.window_ns - Nanos(now));
  } else if (pair.previous > 0) {
    numbers.reset_after = Duration(pair.start_ns + spec.window_ns - Nanos(now));
  }
  return numbers;
}

}  // namespace

Result<SlidingWindow::Spec> SlidingWindow::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  return Spec{.limit = config.rate.limit,
              .window_ns = config.rate.window.count(),
              .max_debt = config.max_debt};
}

size_t SlidingWindow::Words(const Spec&) noexcept {
  return WindowPair::kWords;
}

Numbers SlidingWindow::Decide(const Spec& spec, std::span<uint64_t> state, Instant now,
                              int64_t cost, Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == WindowPair::kWords);
  receipt = {};
  WindowPair pair = Read(spec, state, now);
  const Numbers numbers = Answer(spec, pair, cost, now);
  if (numbers.allowed) receipt = {.cost = cost, .mark = pair.index};
  if (receipt.cost > 0 || pair.repaired) pair.Write(state);
  return numbers;
}

Numbers SlidingWindow::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                            int64_t cost) noexcept {
  WindowPair pair = Read(spec, state, now);
  return Answer(spec, pair, cost, now);
}

void SlidingWindow::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                             Instant now) noexcept {
  WindowPair pair = Read(spec, state, now);
  pair.GiveBack(receipt);
  pair.Write(state);
}

void SlidingWindow::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                           Instant now) noexcept {
  WindowPair pair = Read(spec, state, now);
  const int64_t room = spec.limit + spec.max_debt - Used(spec, pair);
  if (units <= 0 || room <= 0 || spec.limit == 0) return;
  pair.current += std::min(units, room);
  pair.Write(state);
}

Numbers SlidingWindow::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now,
                                int64_t cost, Receipt& receipt) noexcept {
  return TakeUpToRemaining<SlidingWindow>(spec, state, now, cost, receipt);
}

Instant SlidingWindow::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  return WindowPair::KeepUntil(state, spec.window_ns);
}

}  // namespace flowguard::limit
