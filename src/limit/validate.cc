// SPDX-License-Identifier: Apache-2.0
#include "limit/validate.h"

#include <string>

#include "base/bounds.h"
#include "base/try.h"
#include "limit/wide.h"

namespace flowguard::limit {
namespace {

Result<void> CheckBetween(std::string_view field, int64_t found, int64_t least, int64_t most,
                          std::string_view unit = {}) {
  if (found < least || found > most) return OutOfBounds(field, found, least, most, unit);
  return {};
}

}  // namespace

Error OutOfBounds(std::string_view field, int64_t found, int64_t least, int64_t most,
                  std::string_view unit) {
  std::string message(field);
  message += ": found " + std::to_string(found) + "; allowed " + std::to_string(least) + " to " +
             std::to_string(most);
  if (!unit.empty()) message.append(" ").append(unit);
  return Error::InvalidArgument(std::move(message));
}

Result<void> CheckConfig(const Config& config) {
  const Rate& rate = config.rate;
  FG_RETURN_IF_ERROR(CheckBetween("limit", rate.limit, 0, base::kLimitMax, "units"));
  FG_RETURN_IF_ERROR(CheckBetween("window", rate.window.count(), base::kWindowMin.count(),
                                  base::kWindowMax.count(), "ns"));
  const int64_t most_in_window =
      Saturate(static_cast<Int128>(rate.window.count()) * base::kRatePerSecondMax / 1'000'000'000);
  if (rate.limit > most_in_window) {
    return OutOfBounds("limit", rate.limit, 0, most_in_window,
                       "units in this window (one billion a second)");
  }
  FG_RETURN_IF_ERROR(CheckBetween("burst", config.burst, 0, base::kLimitMax, "units"));
  FG_RETURN_IF_ERROR(
      CheckBetween("wait", config.wait.count(), 0, Duration(base::kWaitMax).count(), "ns"));
  FG_RETURN_IF_ERROR(
      CheckBetween("borrow", config.borrow.count(), 0, Duration(base::kWaitMax).count(), "ns"));
  return CheckBetween("max_debt", config.max_debt, 0, base::kLimitMax, "units");
}

Result<void> CheckWarmUp(const Config& config) {
  FG_RETURN_IF_ERROR(CheckBetween("warm_up", config.warm_up.count(), base::kWindowMin.count(),
                                  Duration(base::kWarmUpMax).count(), "ns"));
  return CheckBetween("cold_factor", config.cold_factor, 1, base::kColdFactorMax);
}

int64_t IntervalNs(const Rate& rate) noexcept {
  return (rate.window.count() - 1) / rate.limit + 1;
}

}  // namespace flowguard::limit
