// SPDX-License-Identifier: Apache-2.0
//
// The bounds of a Config, and how a breach is told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "flowguard/result.h"

#include "limit/numbers.h"

namespace flowguard::limit {

// "burst: found -1; allowed 0 to 1000000000000"
[[nodiscard]] Error OutOfBounds(std::string_view field, int64_t found, int64_t least, int64_t most,
                                std::string_view unit = {});

// Errors: kInvalidArgument for a limit, window, rate, burst, wait or max_debt that no
// algorithm takes.  limit 0 is allowed: it refuses everything.
[[nodiscard]] Result<void> CheckConfig(const Config& config);

// Errors: kInvalidArgument for a warm_up or cold_factor that no algorithm takes.
[[nodiscard]] Result<void> CheckWarmUp(const Config& config);

// T = ceil(window / limit) in ns: rounded up, so that never more is admitted than
// configured.  Requires: limit > 0.
[[nodiscard]] int64_t IntervalNs(const Rate& rate) noexcept;

}  // namespace flowguard::limit
