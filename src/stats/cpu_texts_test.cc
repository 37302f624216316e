// SPDX-License-Identifier: Apache-2.0
#include "stats/cpu_texts.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::stats {
namespace {

TEST(CpuTextsTest, ListsOfProcessors) {
  EXPECT_EQ(ParseCpuList("0-3,8\n").value(), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(ParseCpuList("5,1,1-2").value(), (std::vector<int>{1, 2, 5}));
  EXPECT_EQ(ParseCpuList("\n").value(), std::vector<int>{});
  for (const char* odd : {"a", "3-1", "0-", "-1", "1,,2", "0-99999999", "1 2", "1-2-3"})
    EXPECT_FALSE(ParseCpuList(odd).ok()) << odd;
}

TEST(CpuTextsTest, QuotasOfVersion2) {
  EXPECT_DOUBLE_EQ(ParseCpuMax("50000 100000\n").value().value(), 0.5);
  EXPECT_DOUBLE_EQ(ParseCpuMax("400000 100000").value().value(), 4);
  EXPECT_EQ(ParseCpuMax("max 100000\n").value(), std::nullopt);
  for (const char* odd : {"", "max", "0 100000", "-1 100000", "50000 0", "x 1", "1 2 3", "max x"})
    EXPECT_FALSE(ParseCpuMax(odd).ok()) << odd;
}

TEST(CpuTextsTest, QuotasOfVersion1) {
  EXPECT_DOUBLE_EQ(ParseCfsQuota("150000\n", "100000\n").value().value(), 1.5);
  EXPECT_EQ(ParseCfsQuota("-1\n", "100000\n").value(), std::nullopt);
  EXPECT_FALSE(ParseCfsQuota("0\n", "100000\n").ok());
  EXPECT_FALSE(ParseCfsQuota("100000\n", "0\n").ok());
  EXPECT_FALSE(ParseCfsQuota("", "100000\n").ok());
}

TEST(CpuTextsTest, NamedNumbersAndLines) {
  const char* stat = "usage_usec 1234\nuser_usec 1000\n";
  EXPECT_EQ(ParseNamedNumber(stat, "usage_usec").value(), 1234);
  EXPECT_FALSE(ParseNamedNumber(stat, "usage").ok());
  EXPECT_FALSE(ParseNamedNumber("", "usage_usec").ok());
  const char* status = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n";
  EXPECT_EQ(ParseStatusLine(status, "Cpus_allowed_list").value(), "0-7");
  EXPECT_FALSE(ParseStatusLine(status, "Cpus").ok());
}

TEST(CpuTextsTest, TimesOfAProcessWhateverItsName) {
  EXPECT_EQ(ParseProcessTicks("42 (a) b) S 1 2 3 4 5 6 7 8 9 10 300 21 0 0").value(), 321);
  EXPECT_FALSE(ParseProcessTicks("").ok());
  EXPECT_FALSE(ParseProcessTicks("42 (a) S 1 2 3").ok());
  EXPECT_FALSE(ParseProcessTicks("42 (a) S 1 2 3 4 5 6 7 8 9 10 x 21").ok());
}

TEST(CpuTextsTest, TimesOfTheProcessorsThatAreAskedFor) {
  const char* stat =
      "cpu  9 9 9 9 9 9 9 9 9 9\n"
      "cpu0 10 1 5 100 2 0 1 3 7 7\n"
      "cpu1 20 0 5 200 0 0 0 0 0 0\n"
      "cpu10 1000 0 0 0 0 0 0 0 0 0\n"
      "intr 12345 0 0\n";
  const CpuTicks one = ParseCpuTicks(stat, {0}).value();
  EXPECT_EQ(one.busy, 20) << "guest times are within user and nice already";
  EXPECT_EQ(one.total, 122);
  EXPECT_EQ(ParseCpuTicks(stat, {0, 1}).value().total, 347);
  EXPECT_FALSE(ParseCpuTicks(stat, {0, 2}).ok()) << "a processor that is not there";
  EXPECT_FALSE(ParseCpuTicks("cpu0 1 2\n", {0}).ok());
  EXPECT_FALSE(ParseCpuTicks("cpu0 1 2 x 4 5\n", {0}).ok());
  EXPECT_FALSE(ParseCpuTicks("", {0}).ok());
}

TEST(CpuTextsTest, GroupsOfAProcess) {
  const GroupPaths paths =
      ParseGroupPaths("3:cpu,cpuacct:/docker/abc\n2:cpuset:/\n1:name=systemd:/x:y\n0::/u.slice\n")
          .value();
  EXPECT_EQ(paths.unified, "/u.slice");
  EXPECT_EQ(paths.cpu, "/docker/abc");
  EXPECT_EQ(paths.cpuacct, "/docker/abc");
  EXPECT_EQ(paths.cpuset, "/");
  EXPECT_EQ(ParseGroupPaths("").value().unified, std::nullopt);
  EXPECT_FALSE(ParseGroupPaths("0::relative\n").ok());
  EXPECT_FALSE(ParseGroupPaths("garbage\n").ok());
}

TEST(CpuTextsTest, MountsOfHierarchies) {
  const GroupMounts mounts =
      ParseGroupMounts(
          "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
          "30 22 0:26 / /sys/fs/cgroup rw master:9 - cgroup2 cgroup2 rw,nsdelegate\n"
          "31 22 0:27 /docker/a\\040b /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup "
          "rw,cpu,cpuacct\n"
          "32 22 0:27 /other /elsewhere ro - cgroup cgroup rw,cpu,cpuacct\n")
          .value();
  EXPECT_EQ(mounts.unified->point, "/sys/fs/cgroup");
  EXPECT_EQ(mounts.cpu->root, "/docker/a b");
  EXPECT_EQ(mounts.cpu->point, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_FALSE(mounts.cpuset.has_value());
  EXPECT_FALSE(ParseGroupMounts("30 22 0:26 / /sys/fs/cgroup rw\n").ok());
}

TEST(CpuTextsTest, LoadAverages) {
  const LoadTexts load = ParseLoad("0.42 3.50 12.00 2/345 6789\n").value();
  EXPECT_DOUBLE_EQ(load.one, 0.42);
  EXPECT_DOUBLE_EQ(load.five, 3.5);
  EXPECT_DOUBLE_EQ(load.fifteen, 12);
  for (const char* odd : {"", "1.0 2.0", "nan 1 1", "-1 1 1", "1,5 1 1", "inf 1 1"})
    EXPECT_FALSE(ParseLoad(odd).ok()) << odd;
}

// Fault ruled out: a text that is cut off is taken for a number.
TEST(CpuTextsTest, NothingButTheKernelsTextsIsUnderstood) {
  const std::string texts[] = {
      std::string(1, '\0'),  std::string(5'000, '9'), "\xff\xfe", ":::", ")))", "- - - -",
      std::string(100, '\n')};
  for (const std::string& text : texts) {
    EXPECT_FALSE(ParseCpuMax(text).ok());
    EXPECT_FALSE(ParseNumber(text).ok());
    EXPECT_FALSE(ParseProcessTicks(text).ok());
    EXPECT_FALSE(ParseCpuTicks(text, {0}).ok());
    EXPECT_FALSE(ParseLoad(text).ok());
  }
}

}  // namespace
}  // namespace flowguard::stats
