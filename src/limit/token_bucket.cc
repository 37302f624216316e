// SPDX-License-Identifier: Apache-2.0
#include "limit/token_bucket.h"

#include <algorithm>
#include <string>

#include "base/bounds.h"
#include "base/try.h"
#include "limit/validate.h"

namespace flowguard::limit {

Result<TokenBucket::Spec> TokenBucket::Make(const Config& config) {
  FG_RETURN_IF_ERROR(CheckConfig(config));
  Spec spec;
  if (config.rate.limit == 0) {
    spec.step_ns = base::kLateStampMax.count();
    return spec;
  }
  spec.interval_ns = IntervalNs(config.rate);
  spec.burst = config.burst == 0 ? config.rate.limit : config.burst;
  const int64_t ahead_ns = std::max(config.wait, config.borrow).count();
  const int64_t spare_ns = base::kHorizonNsMax - ahead_ns;
  if (spec.burst > spare_ns / spec.interval_ns) {
    return OutOfBounds("burst", spec.burst, 1, spare_ns / spec.interval_ns, "units at this rate");
  }
  spec.capacity_ns = spec.interval_ns * spec.burst;
  spec.admit_ns = spec.capacity_ns + (config.prioritised ? ahead_ns : config.wait.count());
  const int64_t most_debt = (spare_ns - spec.capacity_ns) / spec.interval_ns;
  if (config.max_debt > most_debt) {
    return OutOfBounds("max_debt", config.max_debt, 0, most_debt, "units at this rate and burst");
  }
  spec.horizon_ns = spec.capacity_ns + ahead_ns + spec.interval_ns * config.max_debt;
  spec.step_ns = spec.horizon_ns + base::kLateStampMax.count();
  spec.per_interval = Divisor(spec.interval_ns);
  return spec;
}

Numbers TokenBucket::Refusal(const Spec& spec, int64_t ahead_ns, int64_t cost) noexcept {
  Numbers numbers;
  numbers.limit = spec.burst;
  numbers.remaining = spec.per_interval.Quotient(std::max<int64_t>(spec.capacity_ns - ahead_ns, 0));
  numbers.reset_after = Duration(ahead_ns);
  numbers.retry_after =
      cost > spec.burst ? kNever : Duration(ahead_ns + cost * spec.interval_ns - spec.admit_ns);
  return numbers;
}

void TokenBucket::GiveBack(const Spec& spec, int64_t& word, const Receipt& receipt,
                           Instant now) noexcept {
  ReturnUndrained(word, receipt, spec.interval_ns, Nanos(now));
}

void TokenBucket::Charge(const Spec& spec, int64_t& word, int64_t units, Instant now) noexcept {
  BookCharge(word, units, spec.interval_ns, Nanos(now), spec.horizon_ns);
}

Numbers TokenBucket::TakeUpTo(const Spec& spec, int64_t& word, Instant now, int64_t cost,
                              Receipt& receipt) noexcept {
  const int64_t now_ns = Nanos(now);
  const int64_t ahead_ns = ReadAhead(word, now_ns, spec.horizon_ns, spec.step_ns);
  const int64_t left_ns = std::max<int64_t>(spec.capacity_ns - ahead_ns, 0);
  const int64_t available = spec.per_interval.Quotient(left_ns);
  if (cost <= available) return Decide(spec, word, now, cost, receipt);
  if (left_ns > 0) word = now_ns + spec.capacity_ns;
  receipt = {.cost = available, .mark = word};
  Numbers numbers = Refusal(spec, ahead_ns + left_ns, cost);
  // What is within the wait could be booked at once.
  numbers.retry_after = std::max(numbers.retry_after, Duration::zero());
  return numbers;
}

}  // namespace flowguard::limit
