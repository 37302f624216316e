// SPDX-License-Identifier: Apache-2.0
//
// How much of the processor time that it may use a process uses.
//
// The allowance is the least of: the processors that are online and that the process may
// run on (its affinity and its cpusets), and the quotas of its control group and of every
// group around it, version 1 and 2.  Within a quota the group is what is short, not the
// machine, and all that run in the group share it; so both are told: what the process uses,
// and how full the fullest of what surrounds it is.
//
// A reading that cannot be had is an error and never a number: a rule must not refuse, nor
// believe that all is idle, because a file is missing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

namespace flowguard::stats {

// Totals at one instant; two of them make a CpuUsage.
struct CpuReading {
  struct Group {
    double cores = 0;  // its quota
    Duration used{0};  // by all that run in it
  };

  Instant at;
  double cores = 0;           // the allowance
  Duration process{0};        // processor time of the process
  std::vector<Group> groups;  // those with a quota, the innermost first
  int64_t busy_ticks = 0;     // of the processors that the process may run on
  int64_t total_ticks = 0;
};

struct CpuUsage {
  double process = 0;  // the process, as a part of its allowance
  double group = 0;    // the group nearest to its quota, as a part of it; 0 without a quota
  double machine = 0;  // the processors that the process may run on
  double cores = 0;    // the allowance

  // What a limit on CPU usage is held against: the fullest of the three.
  [[nodiscard]] double Highest() const noexcept;
};

// The shortest time between two readings: the kernel tells times in ticks of 10 ms.
inline constexpr Duration kCpuReadingsApart = std::chrono::milliseconds(100);

// Threads: Read from any thread.
class CpuReader {
 public:
  // `root`: where proc and sys are; "" for the machine's own.  `ticks_per_second`: of the
  // times below /proc, sysconf(_SC_CLK_TCK).
  CpuReader(std::string root, int64_t ticks_per_second);

  // Errors: kUnavailable or kInvalidArgument, with the file that is missing or odd.
  // Cost:   some reads of small files, for once a second.
  [[nodiscard]] Result<CpuReading> Read(Instant now) const;

 private:
  const std::string root_;
  const int64_t ticks_per_second_;
};

// The usage between two readings, as parts of 1; a tick of the kernel may make it a little
// more.
// Errors: kUnavailable, where they are less than kCpuReadingsApart apart, a total went back,
//         or the process was moved to other groups meanwhile.
[[nodiscard]] Result<CpuUsage> UsageBetween(const CpuReading& first, const CpuReading& second);

}  // namespace flowguard::stats
