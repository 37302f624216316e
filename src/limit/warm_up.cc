// SPDX-License-Identifier: Apache-2.0
#include "limit/warm_up.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/arrival_time.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"

namespace flowguard::limit {
namespace {

constexpr size_t kWords = 3;

using Spec = WarmUp::Spec;

// The state as it counts now.
struct Read {
  int64_t next_ns = 0;    // the next free ticket, now or later but for late time stamps
  int64_t warmth_ns = 0;  // of the permits that the next request takes
  int64_t seen_ns = 0;    // the latest time stamp
  bool repaired = false;  // the clock stepped back: to be written, whatever is decided

  [[nodiscard]] int64_t Ahead(int64_t now_ns) const noexcept {
    return std::max<int64_t>(next_ns - now_ns, 0);
  }
  void Write(std::span<uint64_t> state) const noexcept {
    state[0] = static_cast<uint64_t>(next_ns);
    state[1] = static_cast<uint64_t>(warmth_ns);
    state[2] = static_cast<uint64_t>(seen_ns);
  }
};

Read ReadState(const Spec& spec, std::span<const uint64_t> state, int64_t now_ns) noexcept {
  Read read{.next_ns = static_cast<int64_t>(state[0]),
            .warmth_ns = static_cast<int64_t>(state[1]),
            .seen_ns = static_cast<int64_t>(state[2])};
  if (read.seen_ns - now_ns > base::kLateStampMax.count()) {
    read.next_ns = now_ns + std::max<int64_t>(read.next_ns - read.seen_ns, 0);
    read.seen_ns = now_ns;
    read.repaired = true;
  }
  read.seen_ns = std::max(read.seen_ns, now_ns);
  if (read.next_ns >= now_ns) return read;
  const int64_t idle_ns = now_ns - read.next_ns;
  read.warmth_ns = std::max<int64_t>(std::min(read.warmth_ns, spec.period_ns) - idle_ns, 0);
  read.next_ns = now_ns;
  return read;
}

// How many ns of warmth `units` add.
int64_t Warming(const Spec& spec, int64_t units) noexcept {
  return SpanOf(units, spec.warming_ns, base::kHorizonNsMax);
}

// How long those after them wait for `units` that are taken at `warmth_ns`.
int64_t PriceNs(const Spec& spec, int64_t warmth_ns, int64_t units) noexcept {
  const int64_t left_ns = std::max<int64_t>(spec.cold_ns - warmth_ns, 0);
  const Int128 used_ns = std::min(left_ns, Warming(spec, units));
  const int64_t c = spec.cold_factor;
  const Int128 area =
      used_ns * (2 * static_cast<Int128>(left_ns) - used_ns) * (c - 1) * ((c + 5) * (c + 5));
  const Int128 whole = static_cast<Int128>(16) * (c + 1) * spec.period_ns;
  const Int128 cold_ns = (area + whole - 1) / whole;
  const Int128 warm_ns = static_cast<Int128>(units) * spec.interval_ns;
  return static_cast<int64_t>(std::min<Int128>(warm_ns + cold_ns, base::kHorizonNsMax));
}

// Books units that others wait for `price_ns` for.
void Book(const Spec& spec, Read& read, int64_t now_ns, int64_t units, int64_t price_ns) noexcept {
  read.next_ns = now_ns + read.Ahead(now_ns) + price_ns;
  // What it is above the period is told apart until the next take, so that this one can
  // be given back.
  read.warmth_ns = std::min(read.warmth_ns, spec.period_ns) + Warming(spec, units);
}

Numbers Answer(const Spec& spec, Read& read, Instant now, int64_t cost, Receipt& receipt) noexcept {
  const int64_t now_ns = Nanos(now);
  receipt = {};
  Numbers numbers;
  numbers.limit = spec.limit;
  if (spec.limit == 0) {
    numbers.allowed = cost == 0;
    if (cost > 0) numbers.retry_after = kNever;
    return numbers;
  }
  const int64_t ahead_ns = read.Ahead(now_ns);
  numbers.allowed = cost == 0 || ahead_ns <= spec.wait_ns;
  if (!numbers.allowed) {
    numbers.retry_after = Duration(ahead_ns - spec.wait_ns);
  } else if (cost > 0) {
    numbers.wait = Duration(ahead_ns);
    Book(spec, read, now_ns, cost, PriceNs(spec, read.warmth_ns, cost));
    receipt = {.cost = cost, .mark = read.next_ns};
  }
  numbers.remaining = read.Ahead(now_ns) == 0 ? 1 : 0;
  numbers.reset_after = Duration(read.Ahead(now_ns));
  return numbers;
}

}  // namespace

Result<WarmUp::Spec> WarmUp::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  FG_RETURN_IF_ERROR(CheckWarmUp(config));
  Spec spec;
  if (config.rate.limit == 0) return spec;
  const int64_t c = config.cold_factor;
  spec.limit = 1;
  spec.interval_ns = IntervalNs(config.rate);
  spec.period_ns = config.warm_up.count();
  spec.cold_factor = c;
  spec.warming_ns = MulDivCeil(spec.interval_ns, 2 * (c + 1), c + 5);
  spec.cold_ns = 4 * spec.period_ns / (c + 5);
  spec.wait_ns = config.wait.count();
  const int64_t coldest_ns = static_cast<int64_t>(
      std::min<Int128>(static_cast<Int128>(c) * spec.interval_ns, base::kHorizonNsMax));
  const int64_t most_debt = (base::kHorizonNsMax - spec.wait_ns) / coldest_ns;
  if (config.max_debt > most_debt) {
    return OutOfBounds("max_debt", config.max_debt, 0, most_debt,
                       "units at this rate and cold factor");
  }
  spec.horizon_ns = spec.wait_ns + coldest_ns * config.max_debt;
  return spec;
}

size_t WarmUp::Words(const Spec& /*spec*/) noexcept {
  return kWords;
}

Numbers WarmUp::Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                       Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == kWords);
  Read read = ReadState(spec, state, Nanos(now));
  const Numbers numbers = Answer(spec, read, now, cost, receipt);
  if (receipt.cost > 0 || read.repaired) read.Write(state);
  return numbers;
}

Numbers WarmUp::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                     int64_t cost) noexcept {
  Read read = ReadState(spec, state, Nanos(now));
  Receipt receipt;
  return Answer(spec, read, now, cost, receipt);
}

void WarmUp::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                      Instant now) noexcept {
  const int64_t now_ns = Nanos(now);
  const auto next_ns = static_cast<int64_t>(state[0]);
  if (receipt.cost <= 0 || next_ns != receipt.mark || next_ns <= now_ns) return;
  const auto warmth_ns = static_cast<int64_t>(state[1]);
  const int64_t before_ns = std::max<int64_t>(warmth_ns - Warming(spec, receipt.cost), 0);
  const int64_t price_ns = PriceNs(spec, before_ns, receipt.cost);
  state[0] = static_cast<uint64_t>(std::max(next_ns - price_ns, now_ns));
  state[1] = static_cast<uint64_t>(before_ns);
}

void WarmUp::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                    Instant now) noexcept {
  const int64_t now_ns = Nanos(now);
  Read read = ReadState(spec, state, now_ns);
  const int64_t room_ns = spec.horizon_ns - read.Ahead(now_ns);
  if (units <= 0 || room_ns <= 0 || spec.limit == 0) return;
  Book(spec, read, now_ns, units, std::min(PriceNs(spec, read.warmth_ns, units), room_ns));
  read.Write(state);
}

Numbers WarmUp::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                         Receipt& receipt) noexcept {
  return TakeUpToRemaining<WarmUp>(spec, state, now, cost, receipt);
}

Instant WarmUp::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  const auto warmth_ns = static_cast<int64_t>(state[1]);
  return Instant(Duration(static_cast<int64_t>(state[0]) + std::min(warmth_ns, spec.period_ns)));
}

}  // namespace flowguard::limit
