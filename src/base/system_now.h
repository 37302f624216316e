// SPDX-License-Identifier: Apache-2.0
//
// The process's clock without the virtual call of flowguard::Clock, for the two
// calls in which the clock is most of the cost (Limiter and Guard).
#pragma once

#include "flowguard/time.h"

namespace flowguard::base {

// The same time line as SystemClock().Now().
[[nodiscard]] Instant SystemNow() noexcept;

// Sleeps until SystemNow() is at least `until`.
void SystemSleepUntil(Instant until) noexcept;

}  // namespace flowguard::base
