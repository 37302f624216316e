// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/slot.h"

#include <gtest/gtest.h>

#include "quota/redis/endpoint.h"

namespace flowguard::quota::redis {
namespace {

// The numbers are those of CLUSTER KEYSLOT; 0x31c3 is the check value of CRC16/XMODEM.
TEST(SlotOf, IsWhatTheServersSay) {
  EXPECT_EQ(SlotOf("123456789"), 0x31c3 % kSlots);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf(""), 0);
}

TEST(SlotOf, CountsTheTagAloneWhereThereIsOne) {
  EXPECT_EQ(SlotOf("rl:{foo}:rule"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("{foo}{bar}"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{{foo}}b"), SlotOf("{foo"));
  EXPECT_NE(SlotOf("{}foo"), SlotOf("foo")) << "an empty tag is none";
  EXPECT_NE(SlotOf("{foo"), SlotOf("foo"));
}

TEST(MakeEndpoint, KnowsEmptyHostsAndIpv6) {
  EXPECT_EQ(MakeEndpoint("10.0.0.7", "1", "a:2"), "10.0.0.7:1");
  EXPECT_EQ(MakeEndpoint("", "1", "a:2"), "a:1");
  EXPECT_EQ(MakeEndpoint("", "1", "[::1]:2"), "[::1]:1");
  EXPECT_EQ(MakeEndpoint("::1", "1", "a:2"), "[::1]:1");
  EXPECT_EQ(MakeEndpoint("[::1]", "1", "a:2"), "[::1]:1");
}

}  // namespace
}  // namespace flowguard::quota::redis
