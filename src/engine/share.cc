// SPDX-License-Identifier: Apache-2.0
#include "engine/share.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"

namespace flowguard::engine {

std::optional<limit::AnySpec> ShareOf(Algorithm algorithm, limit::Config config, int nodes) {
  if (nodes <= 0) return std::nullopt;
  const auto stretched = config.rate.window.count();
  const bool by_time =
      (algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kLeakyBucket) &&
      stretched <= base::kWindowMax.count() / nodes;
  const int64_t burst = config.burst > 0 ? config.burst : config.rate.limit;
  if (config.rate.limit > 0) {
    if (by_time) {
      config.rate.window *= nodes;
    } else {
      config.rate.limit = std::max<int64_t>(config.rate.limit / nodes, 1);
    }
    if (algorithm == Algorithm::kTokenBucket) config.burst = std::max<int64_t>(burst / nodes, 1);
    config.max_debt /= nodes;
  }
  Result<limit::AnySpec> spec = limit::AnySpec::Make(algorithm, config);
  if (!spec.ok()) return std::nullopt;
  return *std::move(spec);
}

int64_t ShareOfSlots(int64_t slots, int nodes) noexcept {
  return slots > 0 ? std::max<int64_t>(slots / nodes, 1) : 0;
}

}  // namespace flowguard::engine
