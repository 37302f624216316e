// SPDX-License-Identifier: Apache-2.0
#include "rules/breaker_spec.h"

#include <algorithm>

#include "base/bounds.h"

namespace flowguard::rules {

breaker::BreakerSpec BreakerSpecOf(const BreakerRule& rule, Compat compat) noexcept {
  breaker::BreakerSpec spec;
  if (rule.slow_ratio) {
    spec.condition = breaker::BreakerCondition::kSlowRatio;
    spec.slow_over = rule.slow_over;
    spec.ratio = *rule.slow_ratio;
  } else if (rule.error_ratio) {
    spec.condition = breaker::BreakerCondition::kErrorRatio;
    spec.ratio = *rule.error_ratio;
  } else {
    spec.condition = breaker::BreakerCondition::kErrorCount;
    spec.errors = rule.error_count.value_or(0);
  }
  spec.min_calls = rule.min_calls;
  spec.window = rule.window;
  const int64_t fit = rule.window / base::kBreakerBucketMin;
  spec.buckets = static_cast<int>(std::clamp<int64_t>(fit, 1, spec.buckets));
  spec.open_for = rule.open_for;
  spec.probes = rule.probes;
  return compat == Compat::kSentinel ? breaker::SentinelForm(spec) : spec;
}

}  // namespace flowguard::rules
