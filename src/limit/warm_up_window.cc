// SPDX-License-Identifier: Apache-2.0
#include "limit/warm_up_window.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"

namespace flowguard::limit {
namespace {

constexpr size_t kWords = 3;

using Spec = WarmUpWindow::Spec;

[[nodiscard]] int64_t Most(const Spec& spec) noexcept {
  return spec.warning + spec.range;
}

// Permits stored after a window that began with `stored` and in which `went` units went.
int64_t AfterWindow(const Spec& spec, int64_t stored, int64_t went) noexcept {
  const bool cools = stored < spec.warning || went < spec.idle_below;
  if (cools) stored = std::min(stored + spec.limit, Most(spec));
  return std::max<int64_t>(stored - went, 0);
}

// The same after `windows` in which nothing went.
int64_t AfterIdle(const Spec& spec, int64_t stored, int64_t windows) noexcept {
  const Int128 cooled = stored + static_cast<Int128>(windows) * spec.limit;
  return static_cast<int64_t>(std::min<Int128>(cooled, Most(spec)));
}

// The state as it counts now.
struct Read {
  int64_t window = 0;
  int64_t went = 0;
  int64_t stored = 0;
  bool repaired = false;  // the clock stepped back: to be written, whatever is decided

  void Write(std::span<uint64_t> state) const noexcept {
    state[0] = static_cast<uint64_t>(window + 1);
    state[1] = static_cast<uint64_t>(went);
    state[2] = static_cast<uint64_t>(stored);
  }
};

Read ReadState(const Spec& spec, std::span<const uint64_t> state, int64_t now_ns) noexcept {
  Read read{.window = now_ns / spec.window_ns, .stored = Most(spec)};
  const int64_t written = static_cast<int64_t>(state[0]) - 1;
  if (written < 0) return read;
  const auto went = static_cast<int64_t>(state[1]);
  const int64_t stored = std::min(static_cast<int64_t>(state[2]), Most(spec));
  if (written < read.window) {
    read.stored = AfterWindow(spec, stored, went);
    const int64_t idle = read.window - written - 1;
    if (idle > 0) read.stored = AfterIdle(spec, read.stored, idle);
    return read;
  }
  read.went = went;
  read.stored = stored;
  read.repaired = written * spec.window_ns - now_ns > base::kLateStampMax.count();
  if (!read.repaired) read.window = written;
  return read;
}

// Units that may go in a window that begins with `stored` permits; at least 1.
int64_t LimitOf(const Spec& spec, int64_t stored) noexcept {
  if (stored <= spec.warning) return spec.limit;
  const int64_t cold = (stored - spec.warning) * (spec.cold_factor - 1) + spec.range;
  return std::max<int64_t>(MulDivFloor(spec.limit, spec.range, cold), 1);
}

// Decides on `read`, and books the cost there if it fits.
Numbers Answer(const Spec& spec, Read& read, int64_t cost, Instant now) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit;
  if (spec.limit == 0) {
    numbers.allowed = cost == 0;
    if (cost > 0) numbers.retry_after = kNever;
    return numbers;
  }
  const int64_t limit = LimitOf(spec, read.stored);
  const Duration left((read.window + 1) * spec.window_ns - Nanos(now));
  const bool first = read.went == 0 && cost <= spec.limit;
  numbers.allowed = cost == 0 || first || cost <= limit - read.went;
  if (numbers.allowed) {
    read.went += cost;
  } else {
    numbers.retry_after = cost > spec.limit ? kNever : left;
  }
  numbers.remaining = std::max<int64_t>(limit - read.went, 0);
  if (read.went > 0) numbers.reset_after = left;
  return numbers;
}

}  // namespace

Result<WarmUpWindow::Spec> WarmUpWindow::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  FG_RETURN_IF_ERROR(CheckWarmUp(config));
  constexpr int64_t kLeastFactor = 2;
  if (config.cold_factor < kLeastFactor) {
    return OutOfBounds("cold_factor", config.cold_factor, kLeastFactor, base::kColdFactorMax);
  }
  const int64_t window_ns = config.rate.window.count();
  const int64_t period_ns = config.warm_up.count();
  if (period_ns < window_ns) {
    return OutOfBounds("warm_up", period_ns, window_ns, Duration(base::kWarmUpMax).count(),
                       "ns, and not below the window");
  }
  const int64_t c = config.cold_factor;
  Spec spec;
  spec.limit = config.rate.limit;
  spec.window_ns = window_ns;
  spec.cold_factor = c;
  spec.idle_below = std::max<int64_t>(spec.limit / c, 1);
  spec.warning = MulDivFloor(period_ns, spec.limit, window_ns) / (c - 1);
  const Int128 twice = static_cast<Int128>(2) * period_ns * spec.limit;
  const Int128 range = twice / (static_cast<Int128>(window_ns) * (1 + c));
  spec.range = std::max<int64_t>(static_cast<int64_t>(range), 1);
  spec.max_debt = config.max_debt;
  return spec;
}

size_t WarmUpWindow::Words(const Spec& /*spec*/) noexcept {
  return kWords;
}

Numbers WarmUpWindow::Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                             Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == kWords);
  receipt = {};
  Read read = ReadState(spec, state, Nanos(now));
  const Numbers numbers = Answer(spec, read, cost, now);
  if (numbers.allowed) receipt = {.cost = cost, .mark = read.window};
  if (receipt.cost > 0 || read.repaired) read.Write(state);
  return numbers;
}

Numbers WarmUpWindow::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                           int64_t cost) noexcept {
  Read read = ReadState(spec, state, Nanos(now));
  return Answer(spec, read, cost, now);
}

void WarmUpWindow::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                            Instant now) noexcept {
  Read read = ReadState(spec, state, Nanos(now));
  if (receipt.cost <= 0 || receipt.mark != read.window) return;
  read.went -= std::min(receipt.cost, read.went);
  read.Write(state);
}

void WarmUpWindow::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                          Instant now) noexcept {
  Read read = ReadState(spec, state, Nanos(now));
  const int64_t room = spec.limit + spec.max_debt - read.went;
  if (units <= 0 || room <= 0 || spec.limit == 0) return;
  read.went += std::min(units, room);
  read.Write(state);
}

Numbers WarmUpWindow::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now,
                               int64_t cost, Receipt& receipt) noexcept {
  return TakeUpToRemaining<WarmUpWindow>(spec, state, now, cost, receipt);
}

Instant WarmUpWindow::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  if (state[0] == 0) return Instant{};
  const auto next = static_cast<int64_t>(state[0]);
  const auto went = static_cast<int64_t>(state[1]);
  const int64_t stored = std::min(static_cast<int64_t>(state[2]), Most(spec));
  if (spec.limit == 0) return Instant{};
  if (went == 0 && stored == Most(spec)) return Instant{};
  const int64_t missing = Most(spec) - AfterWindow(spec, stored, went);
  const int64_t idle = (missing + spec.limit - 1) / spec.limit;
  return Instant(Duration((next + idle) * spec.window_ns));
}

}  // namespace flowguard::limit
