// SPDX-License-Identifier: Apache-2.0
//
// /proc and /sys are folders of the test.
#include "stats/cpu_reader.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/system_now.h"
#include "stats/load_reader.h"
#include "testing/system_root.h"

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Instant kT0{std::chrono::hours(24 * 10)};
constexpr int64_t kTicks = 100;

class CpuReaderTest : public ::testing::Test, protected testing::SystemRoot {
 protected:
  [[nodiscard]] CpuReading Read(Instant at) const {
    auto reading = CpuReader(root, kTicks).Read(at);
    EXPECT_TRUE(reading.ok()) << reading.error().message;
    return reading.ok() ? *reading : CpuReading{};
  }
  [[nodiscard]] std::string ErrorNow() const {
    const auto reading = CpuReader(root, kTicks).Read(kT0);
    return reading.ok() ? "" : reading.error().message;
  }

  const std::string& root = path();
};

TEST_F(CpuReaderTest, WithoutGroupsTheAllowanceIsAllProcessors) {
  const CpuReading first = Read(kT0);
  EXPECT_DOUBLE_EQ(first.cores, 8);
  Process(200);     // 2 s of processor time
  Machine(50, 50);  // half a second busy, half idle, each
  const CpuUsage usage = UsageBetween(first, Read(kT0 + 1s)).value();
  EXPECT_DOUBLE_EQ(usage.process, 0.25);
  EXPECT_DOUBLE_EQ(usage.machine, 0.5);
  EXPECT_DOUBLE_EQ(usage.group, 0);
  EXPECT_DOUBLE_EQ(usage.Highest(), 0.5);
}

// Fault ruled out: within a container the use is told as a part of the host.
TEST_F(CpuReaderTest, HalfAProcessorOnEightThatIsUsedUpIsFull) {
  Unified("/app");
  Group("", "", 0);
  Group("/app", "50000 100000", 0);
  const CpuReading first = Read(kT0);
  EXPECT_DOUBLE_EQ(first.cores, 0.5);
  Process(50);
  Machine(7, 93);
  Group("/app", "50000 100000", 500'000);
  const CpuUsage usage = UsageBetween(first, Read(kT0 + 1s)).value();
  EXPECT_DOUBLE_EQ(usage.process, 1);
  EXPECT_DOUBLE_EQ(usage.group, 1);
  EXPECT_NEAR(usage.machine, 0.07, 1e-9);
  EXPECT_DOUBLE_EQ(usage.Highest(), 1);
}

TEST_F(CpuReaderTest, OthersInTheGroupUseUpTheQuotaToo) {
  Unified("/app");
  Group("/app", "200000 100000", 0);
  const CpuReading first = Read(kT0);
  Machine(1, 99);
  Group("/app", "200000 100000", 1'800'000);
  const CpuUsage usage = UsageBetween(first, Read(kT0 + 1s)).value();
  EXPECT_DOUBLE_EQ(usage.process, 0);
  EXPECT_DOUBLE_EQ(usage.group, 0.9);
}

TEST_F(CpuReaderTest, TheSmallestQuotaOnTheWayUpCounts) {
  Unified("/a/b/c");
  Group("/a/b/c", "400000 100000", 0);
  Group("/a/b", "max 100000", 0);
  Group("/a", "150000 100000", 0);
  const CpuReading first = Read(kT0);
  EXPECT_DOUBLE_EQ(first.cores, 1.5);
  EXPECT_EQ(first.groups.size(), 2u);

  Machine(1, 99);
  Group("/a/b/c", "400000 100000", 1'000'000);
  Group("/a", "150000 100000", 1'200'000);
  EXPECT_DOUBLE_EQ(UsageBetween(first, Read(kT0 + 1s)).value().group, 0.8);
}

TEST_F(CpuReaderTest, AQuotaAboveTheMachineIsNone) {
  Unified("/app");
  Group("/app", "3200000 100000", 0);
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 8);
}

TEST_F(CpuReaderTest, WhatIsMountedMayBeAGroupItself) {
  Unified("/docker/abc/app", "/docker/abc");
  Group("/app", "100000 100000", 0);
  Group("", "50000 100000", 0);
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 0.5);
  // Another namespace: all that can be seen is what is mounted.
  Unified("/docker/abcdef", "/docker/abc");
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 0.5);
  Unified("/../elsewhere");
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 0.5);
}

TEST_F(CpuReaderTest, QuotasOfVersion1) {
  Version1("/docker/abc");
  Group1("/docker/abc", 250'000, 0);
  Group1("/docker", -1, 0);
  Group1("", -1, 0);
  const CpuReading first = Read(kT0);
  EXPECT_DOUBLE_EQ(first.cores, 2.5);
  Machine(1, 99);
  Process(100);
  Group1("/docker/abc", 250'000, 2'000'000'000);
  const CpuUsage usage = UsageBetween(first, Read(kT0 + 1s)).value();
  EXPECT_DOUBLE_EQ(usage.process, 0.4);
  EXPECT_DOUBLE_EQ(usage.group, 0.8);
}

TEST_F(CpuReaderTest, ProcessorSetsAndAffinityBoundTheAllowance) {
  Online("0-3", "0-63");
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 4) << "those that could be plugged in do not count";
  Online("0-7", "2-5");
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 4);
  Unified("/app");
  Group("/app", "max 100000", 0);
  Write("/sys/fs/cgroup/app/cpuset.cpus.effective", "4-7\n");
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 2);
  Version1("/app");
  Group1("/app", -1, 0);
  Write("/cg/cpuset/app/cpuset.cpus", "5\n");
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 1);
  Write("/cg/cpuset/app/cpuset.cpus", "\n");
  EXPECT_DOUBLE_EQ(Read(kT0).cores, 4) << "empty: as the group around it";
}

TEST_F(CpuReaderTest, TheMachineIsThatOfTheProcessorsThatMayBeUsed) {
  Online("0-7", "0");
  const CpuReading first = Read(kT0);
  Machine(0, 100);
  Write("/proc/stat", "cpu0 90 0 0 10 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0\n");
  EXPECT_DOUBLE_EQ(UsageBetween(first, Read(kT0 + 1s)).value().machine, 0.9);
}

// Fault ruled out: the first reading, or two of one moment, give a number that is compared.
TEST_F(CpuReaderTest, TwoReadingsOfOneMomentTellNothing) {
  const CpuReading first = Read(kT0);
  Machine(50, 50);
  EXPECT_FALSE(UsageBetween(first, first).ok());
  EXPECT_FALSE(UsageBetween(first, Read(kT0 + 1ms)).ok());
  EXPECT_FALSE(UsageBetween(first, Read(kT0 - 1s)).ok());
  EXPECT_TRUE(UsageBetween(first, Read(kT0 + 100ms)).ok());
}

TEST_F(CpuReaderTest, TotalsThatGoBackTellNothing) {
  Process(100);
  Machine(50, 50);
  const CpuReading first = Read(kT0);
  Process(90);
  Machine(60, 60);
  EXPECT_FALSE(UsageBetween(first, Read(kT0 + 1s)).ok());
  Process(100);
  Machine(50, 50);
  EXPECT_FALSE(UsageBetween(first, Read(kT0 + 1s)).ok()) << "the machine stands still";
}

TEST_F(CpuReaderTest, AProcessThatWasMovedTellsNothing) {
  const CpuReading first = Read(kT0);
  Machine(50, 50);
  Unified("/app");
  Group("/app", "50000 100000", 0);
  EXPECT_FALSE(UsageBetween(first, Read(kT0 + 1s)).ok());
}

// Fault ruled out: a file that is missing or odd gives a usage of zero, or no quota.
TEST_F(CpuReaderTest, MissingAndOddFilesAreErrorsThatNameThem) {
  Unified("/app");
  Group("/app", "50000 100000", 0);
  ASSERT_EQ(ErrorNow(), "");

  const auto broken = [&](const std::string& path, const std::string& text) {
    const std::string whole = root + path;
    const fs::path kept = whole + ".kept";
    fs::rename(whole, kept);
    if (!text.empty()) Write(path, text);
    const std::string error = ErrorNow();
    fs::remove(whole);
    fs::rename(kept, whole);
    return error;
  };
  for (const char* path :
       {"/proc/self/stat", "/proc/self/status", "/proc/stat", "/proc/self/mountinfo",
        "/sys/devices/system/cpu/online", "/sys/fs/cgroup/app/cpu.stat"}) {
    EXPECT_NE(broken(path, "").find(path), std::string::npos) << path;
    EXPECT_NE(broken(path, "garbage"), "") << path;
  }
  EXPECT_NE(broken("/sys/fs/cgroup/app/cpu.max", "oops"), "");
  EXPECT_NE(broken("/proc/self/cgroup", "oops"), "");
  EXPECT_NE(broken("/sys/fs/cgroup/app/cgroup.procs", "").find("/app"), std::string::npos)
      << "a group that is not where it should be";
  Online("0-7", "8-9");
  EXPECT_NE(ErrorNow(), "") << "no processor is left";
}

TEST_F(CpuReaderTest, AQuotaOfVersion1WhoseUseIsNotToldIsAnError) {
  Version1("/app");
  Group1("/app", 100'000, 0);
  ASSERT_EQ(ErrorNow(), "");
  fs::remove(root + "/cg/cpu/app/cpuacct.usage");
  EXPECT_NE(ErrorNow(), "");
  Write("/proc/self/cgroup", "2:cpu:/app\n");
  EXPECT_NE(ErrorNow().find("cpuacct"), std::string::npos);
}

TEST_F(CpuReaderTest, FilesAndGroupsWithoutEndAreErrors) {
  Write("/proc/self/status", std::string(2'000'000, 'x'));
  EXPECT_NE(ErrorNow(), "");
  Online("0-7");
  std::string deep;
  for (int i = 0; i < 70; ++i)
    deep += "/g";
  Unified(deep);
  EXPECT_NE(ErrorNow(), "");
}

TEST_F(CpuReaderTest, ThisMachineGivesAReadingOrAnError) {
  const auto reading = CpuReader("", kTicks).Read(base::SystemNow());
  if (reading.ok()) {
    EXPECT_GT(reading->cores, 0);
    EXPECT_GT(reading->total_ticks, 0);
  } else {
    EXPECT_NE(reading.error().message, "");
  }
}

TEST_F(CpuReaderTest, LoadIsTheMachinesAndToldByProcessorToo) {
  Write("/proc/loadavg", "60.00 3.50 12.00 2/345 6789\n");
  const LoadAverage load = ReadLoad(root).value();
  EXPECT_DOUBLE_EQ(load.one, 60);
  EXPECT_DOUBLE_EQ(load.five, 3.5);
  EXPECT_DOUBLE_EQ(load.fifteen, 12);
  EXPECT_EQ(load.cores, 8);
  EXPECT_DOUBLE_EQ(load.PerCore(), 7.5);
}

TEST_F(CpuReaderTest, LoadThatCannotBeReadIsAnError) {
  EXPECT_NE(ReadLoad(root).error().message.find("/proc/loadavg"), std::string::npos);
  Write("/proc/loadavg", "busy\n");
  EXPECT_FALSE(ReadLoad(root).ok());
  Write("/proc/loadavg", "1 1 1 1/1 1\n");
  fs::remove(root + "/sys/devices/system/cpu/online");
  EXPECT_FALSE(ReadLoad(root).ok());
}

}  // namespace
}  // namespace flowguard::stats
