// SPDX-License-Identifier: Apache-2.0
//
// A folder of the test in the place of /: the files below proc and sys that tell of
// processors, control groups and load.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace flowguard::testing {

// A machine of 8 processors, idle, whose times are told in ticks of 10 ms.
class SystemRoot {
 public:
  SystemRoot() {
    std::string name = ::testing::TempDir() + "flowguard-root-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
    Online("0-7");
    Process(0);
    Machine(0, 0);
  }
  ~SystemRoot() { std::filesystem::remove_all(path_); }
  SystemRoot(const SystemRoot&) = delete;
  SystemRoot& operator=(const SystemRoot&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file, std::ios::trunc) << text;
  }
  void Remove(const std::string& file) const { std::filesystem::remove(path_ + file); }
  void Online(const std::string& cpus, const std::string& allowed = "") const {
    Write("/sys/devices/system/cpu/online", cpus + "\n");
    Write("/proc/self/status",
          "Name:\tx\nCpus_allowed_list:\t" + (allowed.empty() ? cpus : allowed) + "\n");
  }
  void Process(int64_t ticks) const {
    Write("/proc/self/stat",
          "1 (x) S 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) + " 0 0 0 20 0 1 0\n");
  }
  // Of each of the processors.
  void Machine(int64_t busy, int64_t idle) const {
    std::string text = "cpu  0 0 0 0 0 0 0 0 0 0\n";
    for (int cpu = 0; cpu < 8; ++cpu) {
      text += "cpu" + std::to_string(cpu) + " " + std::to_string(busy) + " 0 0 " +
              std::to_string(idle) + " 0 0 0 0 0 0\n";
    }
    Write("/proc/stat", text);
  }
  void Load(const std::string& one) const { Write("/proc/loadavg", one + " 1.00 1.00 1/100 1\n"); }
  // Control groups, version 2.
  void Unified(const std::string& group, const std::string& mounted = "/") const {
    Write("/proc/self/cgroup", "0::" + group + "\n");
    Write("/proc/self/mountinfo",
          "30 22 0:26 " + mounted + " /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  }
  void Group(const std::string& folder, const std::string& max, int64_t used_us) const {
    const std::string path = "/sys/fs/cgroup" + folder;
    Write(path + "/cgroup.procs", "");
    if (!max.empty()) Write(path + "/cpu.max", max + "\n");
    Write(path + "/cpu.stat", "usage_usec " + std::to_string(used_us) + "\n");
  }
  // Version 1.
  void Version1(const std::string& group, const std::string& mounted = "/") const {
    Write("/proc/self/cgroup", "2:cpu,cpuacct:" + group + "\n1:cpuset:" + group + "\n");
    Write("/proc/self/mountinfo",
          "30 22 0:26 " + mounted + " /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" + "31 22 0:27 " +
              mounted + " /cg/cpuset rw - cgroup cgroup rw,cpuset\n");
  }
  void Group1(const std::string& folder, int64_t quota, int64_t used_ns) const {
    const std::string path = "/cg/cpu" + folder;
    Write(path + "/cgroup.procs", "");
    Write(path + "/cpu.cfs_quota_us", std::to_string(quota) + "\n");
    Write(path + "/cpu.cfs_period_us", "100000\n");
    Write(path + "/cpuacct.usage", std::to_string(used_ns) + "\n");
  }

 private:
  std::string path_;
};

}  // namespace flowguard::testing
