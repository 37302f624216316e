// SPDX-License-Identifier: Apache-2.0
//
// Where time comes in.  A Guard or a server loop asks its Clock once per call or
// once per loop turn and passes the Instant down.
#pragma once

#include "flowguard/time.h"

namespace flowguard {

// Threads: Now and WallNow may be called from any thread at any time.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  // Never before the epoch of Instant.  Stamps of two threads may be out of
  // order by a microsecond.
  [[nodiscard]] virtual Instant Now() const noexcept = 0;
  [[nodiscard]] virtual WallTime WallNow() const noexcept = 0;

  // Blocks the calling thread until Now() is at least `until`.  Only calls that
  // say so block: Guard::CheckFor, Guard::Enter with a timeout, TryAcquireFor.
  virtual void SleepUntil(Instant until) const noexcept = 0;
};

// The process's clock: the calibrated time stamp counter where the kernel itself
// trusts it, else CLOCK_MONOTONIC.  Lives until the process ends.
[[nodiscard]] const Clock& SystemClock() noexcept;

}  // namespace flowguard
