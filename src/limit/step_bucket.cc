// SPDX-License-Identifier: Apache-2.0
#include "limit/step_bucket.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"
#include "limit/wide.h"

namespace flowguard::limit {
namespace {

constexpr size_t kWords = 2;

using Spec = StepBucket::Spec;

// How long after its filling a bucket with `rest` units may be filled to `units`: not before
// the window is over.  Requires: limit > 0.
int64_t FilledAfter(const Spec& spec, int64_t rest, int64_t units) noexcept {
  const Int128 missing = std::max<int64_t>(units - rest, 0);
  const Int128 time = (missing * spec.window_ns + spec.per_window - 1) / spec.per_window;
  return static_cast<int64_t>(std::clamp<Int128>(time, spec.window_ns + 1, base::kHorizonNsMax));
}

// The bucket as it is kept, and as a request at some time finds it: filled, if the window is
// over.
struct Bucket {
  int64_t kept_ns = 0;  // when it was filled
  int64_t kept_rest = 0;
  int64_t filled_ns = 0;
  int64_t rest = 0;
  bool repaired = false;  // the clock stepped back: to be written, whatever is decided

  void Take(int64_t units) noexcept {
    rest -= units;
    kept_ns = filled_ns;
    kept_rest = rest;
  }
  void Write(std::span<uint64_t> state) const noexcept {
    state[0] = static_cast<uint64_t>(kept_ns + 1);
    state[1] = static_cast<uint64_t>(kept_rest);
  }
};

Bucket Read(const Spec& spec, std::span<const uint64_t> state, int64_t now_ns) noexcept {
  Bucket bucket;
  const int64_t filled_ns = static_cast<int64_t>(state[0]) - 1;
  if (filled_ns < 0 || spec.limit == 0) {
    bucket.filled_ns = bucket.kept_ns = now_ns;
    bucket.rest = bucket.kept_rest = spec.limit;
    return bucket;
  }
  bucket.kept_rest = std::min(static_cast<int64_t>(state[1]), spec.limit);
  bucket.repaired = filled_ns - now_ns > base::kLateStampMax.count();
  bucket.kept_ns = bucket.repaired ? now_ns : filled_ns;
  bucket.filled_ns = bucket.kept_ns;
  bucket.rest = bucket.kept_rest;
  const int64_t elapsed = now_ns - bucket.kept_ns;
  if (elapsed > spec.window_ns) {
    const int64_t added = MulDivFloor(elapsed, spec.per_window, spec.window_ns);
    bucket.filled_ns = now_ns;
    bucket.rest = std::min(bucket.rest + added, spec.limit);
  }
  return bucket;
}

// Decides on `bucket`, and takes the cost there if it fits.
Numbers Answer(const Spec& spec, Bucket& bucket, int64_t cost, Instant now) noexcept {
  Numbers numbers;
  numbers.limit = spec.limit;
  numbers.allowed = cost == 0 || cost <= bucket.rest;
  if (cost > spec.limit) {
    numbers.retry_after = kNever;
  } else if (!numbers.allowed) {
    const int64_t then = bucket.kept_ns + FilledAfter(spec, bucket.kept_rest, cost);
    numbers.retry_after = Duration(then - Nanos(now));
  } else if (cost > 0) {
    bucket.Take(cost);
  }
  numbers.remaining = std::max<int64_t>(bucket.rest, 0);
  if (bucket.rest < spec.limit) {
    const int64_t full = bucket.kept_ns + FilledAfter(spec, bucket.kept_rest, spec.limit);
    numbers.reset_after = Duration(full - Nanos(now));
  }
  return numbers;
}

}  // namespace

Result<StepBucket::Spec> StepBucket::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  Spec spec;
  spec.window_ns = config.rate.window.count();
  if (config.rate.limit == 0) return spec;
  spec.per_window = config.rate.limit;
  spec.limit = config.burst == 0 ? config.rate.limit : config.burst;
  spec.max_debt = config.max_debt;
  const int64_t most = base::kHorizonNsMax / IntervalNs(config.rate);
  if (spec.limit > most) return OutOfBounds("burst", spec.limit, 1, most, "units at this rate");
  if (spec.max_debt > most - spec.limit) {
    return OutOfBounds("max_debt", spec.max_debt, 0, most - spec.limit,
                       "units at this rate and burst");
  }
  return spec;
}

size_t StepBucket::Words(const Spec& /*spec*/) noexcept {
  return kWords;
}

Numbers StepBucket::Decide(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                           Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && state.size() == kWords);
  receipt = {};
  Bucket bucket = Read(spec, state, Nanos(now));
  const Numbers numbers = Answer(spec, bucket, cost, now);
  if (numbers.allowed) receipt = {.cost = cost, .mark = bucket.kept_ns};
  if (receipt.cost > 0 || bucket.repaired) bucket.Write(state);
  return numbers;
}

Numbers StepBucket::Look(const Spec& spec, std::span<const uint64_t> state, Instant now,
                         int64_t cost) noexcept {
  Bucket bucket = Read(spec, state, Nanos(now));
  return Answer(spec, bucket, cost, now);
}

void StepBucket::GiveBack(const Spec& spec, std::span<uint64_t> state, const Receipt& receipt,
                          Instant /*now*/) noexcept {
  if (receipt.cost <= 0 || static_cast<int64_t>(state[0]) - 1 != receipt.mark) return;
  const auto rest = static_cast<int64_t>(state[1]);
  const int64_t room = std::max<int64_t>(spec.limit - rest, 0);
  state[1] = static_cast<uint64_t>(rest + std::min(receipt.cost, room));
}

void StepBucket::Charge(const Spec& spec, std::span<uint64_t> state, int64_t units,
                        Instant now) noexcept {
  Bucket bucket = Read(spec, state, Nanos(now));
  const int64_t room = bucket.rest + spec.max_debt;
  if (units <= 0 || room <= 0 || spec.limit == 0) return;
  bucket.Take(std::min(units, room));
  bucket.Write(state);
}

Numbers StepBucket::TakeUpTo(const Spec& spec, std::span<uint64_t> state, Instant now, int64_t cost,
                             Receipt& receipt) noexcept {
  return TakeUpToRemaining<StepBucket>(spec, state, now, cost, receipt);
}

Instant StepBucket::KeepUntil(const Spec& spec, std::span<const uint64_t> state) noexcept {
  if (state[0] == 0) return Instant{};
  const int64_t filled_ns = static_cast<int64_t>(state[0]) - 1;
  // A limit that was set to nothing for a while fills no bucket.
  if (spec.limit == 0) return Instant(Duration(filled_ns + spec.window_ns + 1));
  const int64_t rest = std::min(static_cast<int64_t>(state[1]), spec.limit);
  return Instant(Duration(filled_ns + FilledAfter(spec, rest, spec.limit)));
}

}  // namespace flowguard::limit
