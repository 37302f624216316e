// SPDX-License-Identifier: Apache-2.0
//
// What the kernel's texts about processors, control groups and load say.  Pure.
//
// Errors: kInvalidArgument everywhere, with what was found, where a text is not as the
// kernel writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"

namespace flowguard::stats {

// "0-3,8": which of the processors are listed, in ascending order, each once.
[[nodiscard]] Result<std::vector<int>> ParseCpuList(std::string_view text);

// cpu.max, "50000 100000": processors that may be used; none for "max".
[[nodiscard]] Result<std::optional<double>> ParseCpuMax(std::string_view text);
// cpu.cfs_quota_us and cpu.cfs_period_us: the same; none for a quota of -1.
[[nodiscard]] Result<std::optional<double>> ParseCfsQuota(std::string_view quota,
                                                          std::string_view period);

// A whole number and nothing else, for instance cpuacct.usage.
[[nodiscard]] Result<int64_t> ParseNumber(std::string_view text);
// The number after `name` in lines of names and numbers: usage_usec of cpu.stat.
[[nodiscard]] Result<int64_t> ParseNamedNumber(std::string_view text, std::string_view name);
// The rest of the line that begins with "<name>:", without spaces around it.
[[nodiscard]] Result<std::string> ParseStatusLine(std::string_view text, std::string_view name);

// /proc/self/stat: user and system time of the process, in ticks.
[[nodiscard]] Result<int64_t> ParseProcessTicks(std::string_view text);

// /proc/stat: ticks of some processors together.
struct CpuTicks {
  int64_t busy = 0;
  int64_t total = 0;  // busy, idle and waiting for a disk
};
// Errors: also where one of `cpus` is not in the text.
[[nodiscard]] Result<CpuTicks> ParseCpuTicks(std::string_view text, const std::vector<int>& cpus);

// /proc/self/cgroup: where the process is, in each hierarchy that there is.
struct GroupPaths {
  std::optional<std::string> unified;  // version 2
  std::optional<std::string> cpu;      // version 1
  std::optional<std::string> cpuacct;
  std::optional<std::string> cpuset;
};
[[nodiscard]] Result<GroupPaths> ParseGroupPaths(std::string_view text);

// /proc/self/mountinfo: where the hierarchies are to be seen, and from which group on.
struct GroupMount {
  std::string root;   // the group that is mounted
  std::string point;  // where
};
struct GroupMounts {
  std::optional<GroupMount> unified;
  std::optional<GroupMount> cpu;
  std::optional<GroupMount> cpuacct;
  std::optional<GroupMount> cpuset;
};
[[nodiscard]] Result<GroupMounts> ParseGroupMounts(std::string_view text);

// /proc/loadavg.
struct LoadTexts {
  double one = 0;  // minute
  double five = 0;
  double fifteen = 0;
};
[[nodiscard]] Result<LoadTexts> ParseLoad(std::string_view text);

}  // namespace flowguard::stats
