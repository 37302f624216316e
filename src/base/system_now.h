// SPDX-License-Identifier: Apache-2.0
//
// The process's clock without the virtual call of flowguard::Clock, for the two
// calls in which the clock is most of the cost (Limiter and Guard).
#pragma once

#include "flowguard/time.h"

#include "base/tsc.h"

namespace flowguard::base {

namespace internal {
// Never started where the process does not go by the time stamp counter.
extern constinit TscLine process_line;
// With what the line needs now and then: its start, its corrections.
[[nodiscard]] Instant SlowSystemNow() noexcept;
}  // namespace internal

// The same time line as SystemClock().Now().
[[nodiscard]] inline Instant SystemNow() noexcept {
#if defined(__x86_64__)
  const TscLine::Stamp stamp = internal::process_line.At(__builtin_ia32_rdtsc());
  if (!stamp.due) [[likely]] {
    return Instant(Duration(stamp.ns));
  }
#endif
  return internal::SlowSystemNow();
}

// Sleeps until SystemNow() is at least `until`.
void SystemSleepUntil(Instant until) noexcept;

}  // namespace flowguard::base
