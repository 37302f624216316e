// SPDX-License-Identifier: Apache-2.0
#include "guard/answer.h"

namespace flowguard::guard {

Result<limit::AnySpec> MakeSmooth(Algorithm algorithm, const limit::Config& config, Instant start) {
  const bool warms = algorithm == Algorithm::kWarmUp;
  if (!warms && algorithm != Algorithm::kSmoothBursty) {
    return Error::InvalidArgument("algorithm: allowed token_bucket, smooth_bursty and warm_up");
  }
  if (warms && config.burst != 0) {
    return Error::InvalidArgument("burst: found with warm_up, which stores no burst");
  }
  if (!warms && config.warm_up != Duration::zero()) {
    return Error::InvalidArgument("warm_up: found with smooth_bursty, which does not warm up");
  }
  Result<limit::AnySpec> spec = limit::AnySpec::Make(algorithm, config);
  if (spec.ok() && spec->has_start()) spec->StartAt(start);
  return spec;
}

Decision DecisionOf(const limit::Numbers& numbers) noexcept {
  Decision decision;
  decision.limit = numbers.limit;
  decision.remaining = numbers.remaining;
  decision.reset_after = numbers.reset_after;
  decision.retry_after = numbers.retry_after;
  if (!numbers.allowed) {
    // A cost that can never be had; a limit of 0 is a limit all the same.
    const bool never = numbers.retry_after == kNever && numbers.limit > 0;
    decision.verdict = Verdict::kRefuse;
    decision.reason = never ? Reason::kInvalidCost : Reason::kLimit;
  } else if (numbers.wait > Duration::zero()) {
    decision.verdict = Verdict::kWait;
    decision.wait = numbers.wait;
  }
  return decision;
}

Decision InvalidCost(int64_t limit) noexcept {
  Decision decision;
  decision.verdict = Verdict::kRefuse;
  decision.reason = Reason::kInvalidCost;
  decision.limit = limit;
  decision.retry_after = kNever;
  return decision;
}

}  // namespace flowguard::guard
