// SPDX-License-Identifier: Apache-2.0
//
// How many calls a system has room for at once, from what it has done: the most that it
// completed in a second times the shortest response time (Little's law at the best point
// seen, as TCP BBR estimates a path).  More calls in progress than that only wait for each
// other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "flowguard/time.h"

#include "stats/counts.h"

namespace flowguard::stats {

struct BbrEstimate {
  double rate_max = 0;      // units completed a second, in the best bucket
  Duration rt_min{0};       // the shortest response time
  double inflight_max = 0;  // rate_max times rt_min

  // Whether a call that comes while `inflight` are in progress finds no room.  One call at a
  // time always does: an estimate from a quiet time may be below one.
  [[nodiscard]] bool IsFull(int64_t inflight) const noexcept {
    return inflight > 1 && static_cast<double>(inflight) > inflight_max;
  }
};

// The estimate from the buckets of a window; none where nothing has ended in it, and then
// nothing is to be refused by it.  The longer the window, the better the best point: within
// a second of overload there may be neither a full bucket nor a short response time.
// Requires: bucket > 0.
[[nodiscard]] std::optional<BbrEstimate> EstimateRoom(std::span<const Counts> buckets,
                                                      Duration bucket) noexcept;

}  // namespace flowguard::stats
