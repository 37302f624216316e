// SPDX-License-Identifier: Apache-2.0
#include "stats/bbr_estimate.h"

#include <algorithm>

namespace flowguard::stats {

std::optional<BbrEstimate> EstimateRoom(std::span<const Counts> buckets, Duration bucket) noexcept {
  int64_t most = 0;
  std::optional<Duration> rt_min;
  for (const Counts& counts : buckets) {
    most = std::max(most, counts.succeeded);
    if (counts.rt_min.has_value() && (!rt_min.has_value() || *counts.rt_min < *rt_min)) {
      rt_min = counts.rt_min;
    }
  }
  if (!rt_min.has_value()) return std::nullopt;
  constexpr double kSecond = 1e9;
  BbrEstimate estimate;
  estimate.rate_max = static_cast<double>(most) * kSecond / static_cast<double>(bucket.count());
  estimate.rt_min = *rt_min;
  estimate.inflight_max = estimate.rate_max * static_cast<double>(rt_min->count()) / kSecond;
  return estimate;
}

}  // namespace flowguard::stats
