// SPDX-License-Identifier: Apache-2.0
#include "limit/smooth_bursty.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/arrival_time.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"

namespace flowguard::limit {
namespace {

constexpr int64_t kStepNs = base::kHorizonNsMax + base::kLateStampMax.count();

}  // namespace

Result<SmoothBursty::Spec> SmoothBursty::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  Spec spec;
  if (config.rate.limit == 0) return spec;
  spec.interval_ns = IntervalNs(config.rate);
  spec.per_interval = Divisor(spec.interval_ns);
  spec.burst = config.burst == 0 ? config.rate.limit : config.burst;
  const int64_t spare_ns = base::kHorizonNsMax - config.wait.count();
  if (spec.burst > spare_ns / spec.interval_ns) {
    return OutOfBounds("burst", spec.burst, 1, spare_ns / spec.interval_ns, "units at this rate");
  }
  spec.stored_ns = spec.interval_ns * spec.burst;
  spec.admit_ns = spec.stored_ns + config.wait.count();
  const int64_t most_debt = (base::kHorizonNsMax - spec.admit_ns) / spec.interval_ns;
  if (config.max_debt > most_debt) {
    return OutOfBounds("max_debt", config.max_debt, 0, most_debt, "units at this rate and burst");
  }
  spec.horizon_ns = spec.admit_ns + spec.interval_ns * config.max_debt;
  return spec;
}

void SmoothBursty::StartAt(Spec& spec, Instant start) noexcept {
  spec.start_ns = Nanos(start) + spec.stored_ns;
}

Numbers SmoothBursty::Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                             Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && word >= 0);
  const int64_t now_ns = Nanos(now);
  receipt = {};
  Numbers numbers;
  if (spec.interval_ns == 0) {
    numbers.allowed = cost == 0;
    if (cost > 0) numbers.retry_after = kNever;
    return numbers;
  }
  numbers.limit = spec.burst + 1;
  int64_t seen = std::max(word, spec.start_ns);
  int64_t ahead_ns = ReadAhead(seen, now_ns, base::kHorizonNsMax, kStepNs);
  if (seen != std::max(word, spec.start_ns)) word = seen;
  numbers.allowed = cost == 0 || ahead_ns <= spec.admit_ns;
  if (!numbers.allowed) {
    numbers.retry_after = Duration(ahead_ns - spec.admit_ns);
  } else if (cost > 0) {
    numbers.wait = Duration(std::max<int64_t>(ahead_ns - spec.stored_ns, 0));
    const int64_t booked_ns = SpanOf(cost, spec.interval_ns, base::kHorizonNsMax - ahead_ns);
    ahead_ns += booked_ns;
    word = now_ns + ahead_ns;
    receipt = {.cost = spec.per_interval.Quotient(booked_ns), .mark = word};
  }
  const int64_t left_ns = spec.stored_ns - ahead_ns;
  numbers.remaining = left_ns < 0 ? 0 : spec.per_interval.Quotient(left_ns) + 1;
  numbers.reset_after = Duration(ahead_ns);
  return numbers;
}

void SmoothBursty::GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                            Instant now) noexcept {
  ReturnUndrained(word, receipt, spec.interval_ns, Nanos(now));
}

void SmoothBursty::Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept {
  int64_t seen = std::max(word, spec.start_ns);
  const int64_t before = seen;
  BookCharge(seen, units, spec.interval_ns, Nanos(now), spec.horizon_ns);
  if (seen != before) word = seen;
}

Numbers SmoothBursty::TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                               Receipt& receipt) noexcept {
  return TakeUpToRemaining<SmoothBursty>(spec, word, now, cost, receipt);
}

}  // namespace flowguard::limit
