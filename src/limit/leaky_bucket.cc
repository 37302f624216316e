// SPDX-License-Identifier: Apache-2.0
#include "limit/leaky_bucket.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "limit/arrival_time.h"
#include "limit/take_up_to.h"
#include "limit/validate.h"

namespace flowguard::limit {

Result<LeakyBucket::Spec> LeakyBucket::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  Spec spec;
  if (config.rate.limit == 0) {
    spec.step_ns = base::kLateStampMax.count();
    return spec;
  }
  spec.interval_ns = IntervalNs(config.rate);
  spec.per_interval = Divisor(spec.interval_ns);
  spec.capacity_ns = config.wait.count() + spec.interval_ns;
  spec.largest = spec.per_interval.Quotient(spec.capacity_ns);
  const int64_t most_debt = (base::kHorizonNsMax - spec.capacity_ns) / spec.interval_ns;
  if (config.max_debt > most_debt) {
    return OutOfBounds("max_debt", config.max_debt, 0, most_debt, "units at this rate");
  }
  spec.horizon_ns = spec.capacity_ns + spec.interval_ns * config.max_debt;
  spec.step_ns = spec.horizon_ns + base::kLateStampMax.count();
  return spec;
}

Numbers LeakyBucket::Decide(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                            Receipt& receipt) noexcept {
  FG_DCHECK(cost >= 0 && Nanos(now) >= 0 && word >= 0);
  const int64_t now_ns = Nanos(now);
  const int64_t ahead_ns = ReadAhead(word, now_ns, spec.horizon_ns, spec.step_ns);
  receipt = {};
  Numbers numbers;
  numbers.limit = spec.largest;
  int64_t after_ns = ahead_ns;
  if (cost > spec.largest) {
    numbers.retry_after = kNever;
  } else if (after_ns += cost * spec.interval_ns; after_ns > spec.capacity_ns && cost > 0) {
    numbers.retry_after = Duration(after_ns - spec.capacity_ns);
    after_ns = ahead_ns;
  } else {
    numbers.allowed = true;
    receipt = {.cost = cost, .mark = now_ns + after_ns};
    if (cost > 0) {
      word = now_ns + after_ns;
      // The last unit leaves one interval before the next may.
      numbers.wait = Duration(after_ns - spec.interval_ns);
    }
  }
  numbers.remaining = spec.per_interval.Quotient(std::max<int64_t>(spec.capacity_ns - after_ns, 0));
  numbers.reset_after = Duration(after_ns);
  return numbers;
}

void LeakyBucket::GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                           Instant now) noexcept {
  if (word != receipt.mark) return;
  ReturnUndrained(word, receipt, spec.interval_ns, Nanos(now));
}

void LeakyBucket::Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept {
  BookCharge(word, units, spec.interval_ns, Nanos(now), spec.horizon_ns);
}

Numbers LeakyBucket::TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                              Receipt& receipt) noexcept {
  return TakeUpToRemaining<LeakyBucket>(spec, word, now, cost, receipt);
}

}  // namespace flowguard::limit
