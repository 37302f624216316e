// SPDX-License-Identifier: Apache-2.0
#include "breaker/spec.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/bounds.h"
#include "base/try.h"

namespace flowguard::breaker {
namespace {

Error Fault(std::string_view field, const std::string& found, std::string_view allowed) {
  std::string message(field);
  message.append(": found ").append(found).append("; allowed ").append(allowed);
  return Error::InvalidArgument(std::move(message));
}

Result<void> CheckBetween(std::string_view field, int64_t found, int64_t least, int64_t most,
                          std::string_view unit = {}) {
  if (found >= least && found <= most) return {};
  std::string allowed = std::to_string(least) + " to " + std::to_string(most);
  if (!unit.empty()) allowed.append(" ").append(unit);
  return Fault(field, std::to_string(found), allowed);
}

Result<void> CheckCondition(const BreakerSpec& spec) {
  if (spec.condition == BreakerCondition::kErrorCount) {
    return CheckBetween("errors", spec.errors, 0, base::kBreakerCallsMax);
  }
  if (!(spec.ratio >= 0 && spec.ratio <= 1)) {  // nor a NaN
    return Fault("ratio", std::to_string(spec.ratio), "0 to 1");
  }
  if (spec.condition == BreakerCondition::kErrorRatio) return {};
  return CheckBetween("slow_over", spec.slow_over.count(), Duration(base::kBreakerSlowMin).count(),
                      Duration(base::kBreakerOpenMax).count(), "ns");
}

Result<void> CheckWindow(const BreakerSpec& spec) {
  FG_RETURN_IF_ERROR(CheckBetween("window", spec.window.count(),
                                  Duration(base::kBreakerWindowMin).count(),
                                  Duration(base::kBreakerWindowMax).count(), "ns"));
  const int64_t fit = spec.window / base::kBreakerBucketMin;
  return CheckBetween("buckets", spec.buckets, 1,
                      fit < base::kBreakerBucketsMax ? fit : base::kBreakerBucketsMax,
                      fit < base::kBreakerBucketsMax ? "in this window (of 100 us at least)" : "");
}

}  // namespace

Result<void> CheckSpec(const BreakerSpec& spec) {
  FG_RETURN_IF_ERROR(CheckCondition(spec));
  FG_RETURN_IF_ERROR(CheckBetween("min_calls", spec.min_calls, 1, base::kBreakerCallsMax));
  FG_RETURN_IF_ERROR(CheckWindow(spec));
  FG_RETURN_IF_ERROR(CheckBetween("open_for", spec.open_for.count(),
                                  Duration(base::kBreakerOpenMin).count(),
                                  Duration(base::kBreakerOpenMax).count(), "ns"));
  FG_RETURN_IF_ERROR(CheckBetween("probes", spec.probes, 1, base::kBreakerProbesMax));
  return CheckBetween("probe_successes", spec.probe_successes, 0, spec.probes,
                      "(0: all probes; more than there are would never close it)");
}

BreakerSpec SentinelForm(BreakerSpec spec) noexcept {
  spec.buckets = 1;
  spec.probes = 1;
  spec.probe_successes = 0;
  spec.all_errors_open = false;
  return spec;
}

}  // namespace flowguard::breaker
