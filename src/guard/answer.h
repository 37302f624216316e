// SPDX-License-Identifier: Apache-2.0
//
// What Limiter and KeyedLimiter share: decisions from the numbers of an algorithm, and
// callers that wait for at most a time.
#pragma once

#include <cstdint>

#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "limit/numbers.h"
#include "limit/spec.h"

namespace flowguard::guard {

// A spec of smooth_bursty or warm_up whose cells come to be at `start`.
// Errors: those of AnySpec::Make; kInvalidArgument for another algorithm, and for numbers
// that it does not have.
[[nodiscard]] Result<limit::AnySpec> MakeSmooth(Algorithm algorithm, const limit::Config& config,
                                                Instant start);

// Decides for a caller that waits at most `wait_max`; a longer wait is a refusal that
// takes nothing.  State is int64_t& or std::span<uint64_t>.
template <typename State>
limit::Numbers DecideWithin(const limit::AnySpec& spec, State&& state, Instant now, int64_t cost,
                            Duration wait_max) noexcept {
  limit::Receipt receipt;
  limit::Numbers numbers = spec.Decide(state, now, cost, receipt);
  if (!numbers.allowed) spec.DelayRetry(cost, wait_max, numbers);
  if (!numbers.allowed || numbers.wait <= wait_max) return numbers;
  const Duration retry_after = spec.RetryAfterWait(cost, numbers.wait, wait_max);
  spec.GiveBack(state, receipt, now);
  numbers = spec.Look(state, now, 0);
  numbers.allowed = false;
  numbers.retry_after = retry_after;
  return numbers;
}

[[nodiscard]] Decision DecisionOf(const limit::Numbers& numbers) noexcept;

// The answer to a negative cost.
[[nodiscard]] Decision InvalidCost(int64_t limit) noexcept;

}  // namespace flowguard::guard
