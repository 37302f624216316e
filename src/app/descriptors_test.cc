// SPDX-License-Identifier: Apache-2.0
#include "app/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/bounds.h"

namespace flowguard::app {
namespace {

TEST(DescriptorsTest, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);

  EXPECT_EQ(RaiseDescriptorLimit(), before.rlim_max);

  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// All connections of all workers together leave the reserve alone.
TEST(DescriptorsTest, ConnectionsLeaveDescriptorsForEverythingElse) {
  for (const size_t descriptors : {1'024U, 20'000U, 100'000U}) {
    for (const size_t workers : {1U, 4U, 16U}) {
      for (const size_t shares : {1U, 2U, 3U}) {
        const size_t connections = ConnectionsFor(descriptors, workers, shares);
        EXPECT_LE(connections * workers * shares + kDescriptorsReserved, descriptors);
        EXPECT_GE(connections, kConnectionsMin);
      }
    }
  }
  EXPECT_EQ(ConnectionsFor(100, 4, 3), kConnectionsMin);
  EXPECT_EQ(ConnectionsFor(size_t{1} << 40, 1, 1), base::kConnectionsMax);
}

}  // namespace
}  // namespace flowguard::app
