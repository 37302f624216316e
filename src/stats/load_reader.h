// SPDX-License-Identifier: Apache-2.0
//
// The machine's load average.  It is the machine's within a container too: of all that run
// on it, so a limit on it is best held against PerCore, and on its own says little of one
// process.
#pragma once

#include <string>

#include "flowguard/result.h"

namespace flowguard::stats {

struct LoadAverage {
  double one = 0;  // minute: tasks that run, or wait for a processor or a disk
  double five = 0;
  double fifteen = 0;
  int cores = 0;  // processors online, of the machine

  [[nodiscard]] double PerCore() const noexcept { return one / cores; }
};

// `root`: where proc and sys are; "" for the machine's own.
// Errors: kUnavailable or kInvalidArgument, with the file that is missing or odd.
[[nodiscard]] Result<LoadAverage> ReadLoad(const std::string& root);

}  // namespace flowguard::stats
