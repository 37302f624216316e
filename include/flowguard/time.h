// SPDX-License-Identifier: Apache-2.0
//
// Durations and instants.  Every decision takes its time as an argument of type
// Instant; an Instant has no now(), so nobody can read a clock by accident.
// Clocks live at the edges: see clock.h.
#pragma once

#include <chrono>
#include <cstdint>

namespace flowguard {

using Duration = std::chrono::nanoseconds;

// The tag clock of Instant.  It cannot be read.
struct MonotonicTag {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicTag>;
  static constexpr bool is_steady = true;
};

// A point on the process's monotonic time line, in nanoseconds since a private
// epoch: a Monday, 00:00 UTC, between one and two weeks before the process
// started.  Windows of a second, minute, hour, day or week that are aligned to
// this epoch are therefore aligned to the wall calendar (UTC) as it stood when
// the process started, and later steps of the wall clock change nothing.
using Instant = std::chrono::time_point<MonotonicTag, Duration>;

// Wall time, for people and logs only; no decision depends on it.
using WallTime = std::chrono::sys_time<Duration>;

// "Waiting does not help."  The retry_after of a cost above the capacity.
inline constexpr Duration kNever = Duration::max();

}  // namespace flowguard
