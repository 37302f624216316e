// SPDX-License-Identifier: Apache-2.0
//
// TakeUpTo for the algorithms whose stock is a whole number of units.
#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/numbers.h"

namespace flowguard::limit {

// Takes min(cost, remaining).  State is int64_t& or std::span<uint64_t>.
template <typename Algorithm, typename State>
Numbers TakeUpToRemaining(const typename Algorithm::Spec& spec, State&& state, Instant now,
                          int64_t cost, Receipt& receipt) noexcept {
  const int64_t remaining = Algorithm::Look(spec, state, now, 0).remaining;
  Numbers numbers = Algorithm::Decide(spec, state, now, std::min(cost, remaining), receipt);
  if (cost > remaining) {
    numbers.allowed = false;
    numbers.wait = {};
    numbers.retry_after = Algorithm::Look(spec, state, now, cost).retry_after;
  }
  return numbers;
}

}  // namespace flowguard::limit
