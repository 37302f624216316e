// SPDX-License-Identifier: Apache-2.0
//
// What went, held against what may go in any time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "flowguard/rule.h"

#include "limit/numbers.h"

namespace flowguard::quota {

// Units admitted, and when.
struct Admission {
  int64_t at_ns;
  int64_t units;
};

// The most that `spec` lets go in any time, held against what went.  Empty: kept.
inline std::string HoldAgainst(Algorithm algorithm, const limit::Config& config, int64_t more,
                               std::vector<Admission> admitted) {
  std::sort(admitted.begin(), admitted.end(),
            [](const Admission& a, const Admission& b) { return a.at_ns < b.at_ns; });
  const int64_t window_ns = config.rate.window.count();
  if (algorithm == Algorithm::kTokenBucket) {
    // A meter that fills with what goes and drains at the rate must stay within the burst.
    const int64_t burst = config.burst > 0 ? config.burst : config.rate.limit;
    const double per_ns = static_cast<double>(config.rate.limit) / static_cast<double>(window_ns);
    double level = 0;
    int64_t last_ns = admitted.empty() ? 0 : admitted.front().at_ns;
    for (const Admission& one : admitted) {
      level = std::max(0.0, level - static_cast<double>(one.at_ns - last_ns) * per_ns);
      last_ns = one.at_ns;
      level += static_cast<double>(one.units);
      if (level > static_cast<double>(burst + more) + 0.01) {
        return "token bucket holds " + std::to_string(level) + " of " +
               std::to_string(burst + more);
      }
    }
    return {};
  }
  const int64_t factor =
      algorithm == Algorithm::kSlidingLog || algorithm == Algorithm::kSlidingBuckets ? 1 : 2;
  const int64_t most = factor * config.rate.limit + more;
  int64_t sum = 0;
  size_t first = 0;
  for (const Admission& one : admitted) {
    sum += one.units;
    while (admitted[first].at_ns <= one.at_ns - window_ns)
      sum -= admitted[first++].units;
    if (sum > most) {
      return std::to_string(sum) + " units in a window of at most " + std::to_string(most);
    }
  }
  return {};
}

}  // namespace flowguard::quota
