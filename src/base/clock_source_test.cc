// SPDX-License-Identifier: Apache-2.0
#include "base/clock_source.h"

#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace flowguard::base {
namespace {

class ClockSourceTest : public ::testing::Test {
 protected:
  ClockSourceTest()
      : path_(::testing::TempDir() + "clock_source_test." + std::to_string(getpid())) {
    Write("tsc\n");
  }
  ~ClockSourceTest() override { std::remove(path_.c_str()); }

  void Write(const char* text) {
    FILE* file = std::fopen(path_.c_str(), "w");
    ASSERT_NE(file, nullptr);
    std::fputs(text, file);
    std::fclose(file);
  }

  const std::string path_;
};

TEST_F(ClockSourceTest, OnlyTscIsTsc) {
  EXPECT_TRUE(ClockSourceIsTsc(path_.c_str(), false));
  for (const char* other : {"hpet\n", "tsc-early\n", "kvm-clock\n", "tsc"}) {
    Write(other);
    EXPECT_FALSE(ClockSourceIsTsc(path_.c_str(), true)) << other;
  }
}

// Rules out: one moment without descriptors that puts the process on the slow clock
// for the rest of its life.
TEST_F(ClockSourceTest, WithoutDescriptorsTheLastVerdictStays) {
  // UndefinedBehaviorSanitizer needs descriptors to look at an object of this class.
  const char* const path = path_.c_str();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool after_yes = ClockSourceIsTsc(path, true);
  const bool after_no = ClockSourceIsTsc(path, false);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);

  EXPECT_TRUE(after_yes);
  EXPECT_FALSE(after_no);
}

TEST_F(ClockSourceTest, AFileThatIsAbsentOrEmptyTellsNothing) {
  Write("");
  EXPECT_TRUE(ClockSourceIsTsc(path_.c_str(), true));
  EXPECT_TRUE(ClockSourceIsTsc("/no/such/file", true));
  EXPECT_FALSE(ClockSourceIsTsc("/no/such/file", false));
}

}  // namespace
}  // namespace flowguard::base
