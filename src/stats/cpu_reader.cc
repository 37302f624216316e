// SPDX-License-Identifier: Apache-2.0
#include "stats/cpu_reader.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/try.h"
#include "stats/cpu_texts.h"
#include "stats/system_file.h"

namespace flowguard::stats {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

// The folder of a group, and of every one around it up to the mount point.
Result<std::vector<std::string>> FoldersOf(const std::string& root, const GroupMount& mount,
                                           std::string_view group) {
  // The part below what is mounted.  A group that is not below it is seen from another
  // namespace: then what is mounted is all that there is to be seen.
  std::string_view below;
  if (mount.root == "/") {
    below = group.substr(0, 4) == "/../" || group == "/.." ? "" : group;
  } else if (group.substr(0, mount.root.size()) == mount.root &&
             (group.size() == mount.root.size() || group[mount.root.size()] == '/')) {
    below = group.substr(mount.root.size());
  }
  if (below == "/") below = "";
  std::vector<std::string> folders;
  for (;;) {
    folders.push_back(root + mount.point + std::string(below));
    if (below.empty()) return folders;
    if (folders.size() == base::kCgroupDepthMax) {
      return Error::Unavailable("control groups within each other: more than " +
                                std::to_string(base::kCgroupDepthMax));
    }
    below = below.substr(0, below.rfind('/'));
  }
}

// The group's own folder has to be there; what it does not have is not limited by it.
Result<void> CheckFolder(const std::string& folder) {
  auto listed = ReadSystemFile(folder + "/cgroup.procs");
  if (!listed.ok()) return listed.error();
  if (!listed->has_value()) {
    return Error::Unavailable("no control group at " + folder + ", which the process is in");
  }
  return {};
}

Result<void> AddUnified(const std::string& root, const GroupMount& mount, std::string_view group,
                        std::vector<CpuReading::Group>& groups) {
  FG_ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersOf(root, mount, group));
  FG_RETURN_IF_ERROR(CheckFolder(folders[0]));
  for (const std::string& folder : folders) {
    FG_ASSIGN_OR_RETURN(const std::optional<std::string> max, ReadSystemFile(folder + "/cpu.max"));
    if (!max.has_value()) continue;
    FG_ASSIGN_OR_RETURN(const std::optional<double> cores, ParseCpuMax(*max));
    if (!cores.has_value()) continue;
    FG_ASSIGN_OR_RETURN(const std::string stat, ReadNeededFile(folder + "/cpu.stat"));
    FG_ASSIGN_OR_RETURN(const int64_t used_us, ParseNamedNumber(stat, "usage_usec"));
    groups.push_back({*cores, std::chrono::microseconds(used_us)});
  }
  return {};
}

Result<void> AddVersion1(const std::string& root, const GroupMounts& mounts,
                         const GroupPaths& paths, std::vector<CpuReading::Group>& groups) {
  FG_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                      FoldersOf(root, *mounts.cpu, *paths.cpu));
  FG_RETURN_IF_ERROR(CheckFolder(folders[0]));
  for (size_t i = 0; i < folders.size(); ++i) {
    FG_ASSIGN_OR_RETURN(const std::optional<std::string> quota,
                        ReadSystemFile(folders[i] + "/cpu.cfs_quota_us"));
    if (!quota.has_value()) continue;
    FG_ASSIGN_OR_RETURN(const std::string period,
                        ReadNeededFile(folders[i] + "/cpu.cfs_period_us"));
    FG_ASSIGN_OR_RETURN(const std::optional<double> cores, ParseCfsQuota(*quota, period));
    if (!cores.has_value()) continue;
    if (!mounts.cpuacct.has_value() || !paths.cpuacct.has_value()) {
      return Error::Unavailable(
          "a control group has a quota of processor time, and its use is "
          "not told: no cpuacct");
    }
    FG_ASSIGN_OR_RETURN(const std::vector<std::string> uses,
                        FoldersOf(root, *mounts.cpuacct, *paths.cpuacct));
    if (i >= uses.size()) {
      return Error::Unavailable("the cpuacct group is not that of the quota at " + folders[i]);
    }
    FG_ASSIGN_OR_RETURN(const std::string used, ReadNeededFile(uses[i] + "/cpuacct.usage"));
    FG_ASSIGN_OR_RETURN(const int64_t used_ns, ParseNumber(used));
    groups.push_back({*cores, Duration(used_ns)});
  }
  return {};
}

// Leaves what both lists have.
void Intersect(std::vector<int>& cpus, const std::vector<int>& others) {
  std::vector<int> both;
  std::set_intersection(cpus.begin(), cpus.end(), others.begin(), others.end(),
                        std::back_inserter(both));
  cpus = std::move(both);
}

// An empty list is of a group that takes its parent's.
Result<void> IntersectFile(const std::string& path, std::vector<int>& cpus) {
  FG_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadSystemFile(path));
  if (!text.has_value()) return {};
  FG_ASSIGN_OR_RETURN(const std::vector<int> listed, ParseCpuList(*text));
  if (!listed.empty()) Intersect(cpus, listed);
  return {};
}

struct Surroundings {
  std::vector<CpuReading::Group> groups;
  std::vector<int> cpus;
};

Result<Surroundings> ReadGroups(const std::string& root, std::vector<int> cpus) {
  Surroundings around{.groups = {}, .cpus = std::move(cpus)};
  FG_ASSIGN_OR_RETURN(const std::optional<std::string> listed,
                      ReadSystemFile(root + "/proc/self/cgroup"));
  if (!listed.has_value()) return around;  // a kernel without control groups
  FG_ASSIGN_OR_RETURN(const GroupPaths paths, ParseGroupPaths(*listed));
  FG_ASSIGN_OR_RETURN(const std::string mounted, ReadNeededFile(root + "/proc/self/mountinfo"));
  FG_ASSIGN_OR_RETURN(const GroupMounts mounts, ParseGroupMounts(mounted));
  if (paths.unified.has_value() && mounts.unified.has_value()) {
    FG_RETURN_IF_ERROR(AddUnified(root, *mounts.unified, *paths.unified, around.groups));
    FG_ASSIGN_OR_RETURN(const auto folders, FoldersOf(root, *mounts.unified, *paths.unified));
    FG_RETURN_IF_ERROR(IntersectFile(folders[0] + "/cpuset.cpus.effective", around.cpus));
  }
  if (paths.cpu.has_value() && mounts.cpu.has_value()) {
    FG_RETURN_IF_ERROR(AddVersion1(root, mounts, paths, around.groups));
  }
  if (paths.cpuset.has_value() && mounts.cpuset.has_value()) {
    FG_ASSIGN_OR_RETURN(const auto folders, FoldersOf(root, *mounts.cpuset, *paths.cpuset));
    for (const std::string& folder : folders)
      FG_RETURN_IF_ERROR(IntersectFile(folder + "/cpuset.cpus", around.cpus));
  }
  return around;
}

Result<std::vector<int>> CpusOf(const std::string& root) {
  FG_ASSIGN_OR_RETURN(const std::string online,
                      ReadNeededFile(root + "/sys/devices/system/cpu/online"));
  FG_ASSIGN_OR_RETURN(std::vector<int> cpus, ParseCpuList(online));
  FG_ASSIGN_OR_RETURN(const std::string status, ReadNeededFile(root + "/proc/self/status"));
  // May list processors that could be plugged in.
  FG_ASSIGN_OR_RETURN(const std::string allowed, ParseStatusLine(status, "Cpus_allowed_list"));
  FG_ASSIGN_OR_RETURN(const std::vector<int> listed, ParseCpuList(allowed));
  Intersect(cpus, listed);
  return cpus;
}

}  // namespace

double CpuUsage::Highest() const noexcept {
  return std::max({process, group, machine});
}

CpuReader::CpuReader(std::string root, int64_t ticks_per_second)
    : root_(std::move(root)), ticks_per_second_(ticks_per_second) {
  FG_CHECK(ticks_per_second > 0);
}

Result<CpuReading> CpuReader::Read(Instant now) const {
  FG_ASSIGN_OR_RETURN(std::vector<int> cpus, CpusOf(root_));
  FG_ASSIGN_OR_RETURN(Surroundings around, ReadGroups(root_, std::move(cpus)));
  if (around.cpus.empty()) {
    return Error::Unavailable("no processor is left that the process may run on");
  }
  CpuReading reading;
  reading.at = now;
  reading.cores = static_cast<double>(around.cpus.size());
  for (const CpuReading::Group& group : around.groups)
    reading.cores = std::min(reading.cores, group.cores);
  reading.groups = std::move(around.groups);
  FG_ASSIGN_OR_RETURN(const std::string process, ReadNeededFile(root_ + "/proc/self/stat"));
  FG_ASSIGN_OR_RETURN(const int64_t ticks, ParseProcessTicks(process));
  reading.process = Duration(ticks * (kSecondNs / ticks_per_second_));
  FG_ASSIGN_OR_RETURN(const std::string machine, ReadNeededFile(root_ + "/proc/stat"));
  FG_ASSIGN_OR_RETURN(const CpuTicks cpu_ticks, ParseCpuTicks(machine, around.cpus));
  reading.busy_ticks = cpu_ticks.busy;
  reading.total_ticks = cpu_ticks.total;
  return reading;
}

Result<CpuUsage> UsageBetween(const CpuReading& first, const CpuReading& second) {
  const Duration apart = second.at - first.at;
  if (apart < kCpuReadingsApart) {
    return Error::Unavailable("two readings of the CPU, " + std::to_string(apart.count()) +
                              " ns apart: at least 100 ms are needed");
  }
  if (first.groups.size() != second.groups.size()) {
    return Error::Unavailable("the process's control groups with a quota have changed");
  }
  const int64_t total = second.total_ticks - first.total_ticks;
  const int64_t busy = second.busy_ticks - first.busy_ticks;
  if (second.process < first.process || total <= 0 || busy < 0) {
    return Error::Unavailable("a total of processor time went back, or stands still");
  }
  const auto elapsed = static_cast<double>(apart.count());
  CpuUsage usage;
  usage.cores = second.cores;
  usage.process =
      static_cast<double>((second.process - first.process).count()) / (elapsed * second.cores);
  usage.machine = static_cast<double>(busy) / static_cast<double>(total);
  for (size_t i = 0; i < second.groups.size(); ++i) {
    const Duration used = second.groups[i].used - first.groups[i].used;
    if (used < Duration(0)) return Error::Unavailable("a control group's use went back");
    usage.group = std::max(usage.group,
                           static_cast<double>(used.count()) / (elapsed * second.groups[i].cores));
  }
  return usage;
}

}  // namespace flowguard::stats
