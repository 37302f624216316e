// SPDX-License-Identifier: Apache-2.0
#include "rules/override_index.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::rules {
namespace {

OverrideIndex Blocks(const std::vector<std::string>& texts) {
  OverrideIndex index;
  for (size_t i = 0; i < texts.size(); ++i) {
    AddressBlock block;
    EXPECT_TRUE(ParseAddressBlock(texts[i], block)) << texts[i];
    EXPECT_TRUE(index.Add(block, i)) << texts[i];
  }
  return index;
}

TEST(OverrideIndexTest, ValuesAreFoundWhole) {
  OverrideIndex index;
  ASSERT_TRUE(index.Add("acme", 0));
  ASSERT_TRUE(index.Add("10.0.0.0/8", 1));

  EXPECT_FALSE(index.Add("acme", 2));
  EXPECT_EQ(index.Find("acme"), 0u);
  EXPECT_EQ(index.Find("10.0.0.0/8"), 1u);
  EXPECT_EQ(index.Find("10.1.2.3"), std::nullopt) << "only addresses are in blocks";
  EXPECT_EQ(index.Find({}), std::nullopt);
  EXPECT_EQ(index.Find(std::string(1000, 'x')), std::nullopt);
}

TEST(OverrideIndexTest, TheNarrowestBlockAroundAnAddressCounts) {
  const OverrideIndex index = Blocks({"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0.0.0.0/0"});

  EXPECT_EQ(index.Find("10.1.2.3"), 2u);
  EXPECT_EQ(index.Find("::ffff:10.1.2.3"), 2u) << "another spelling is no other client";
  EXPECT_EQ(index.Find("10.1.2.4"), 1u);
  EXPECT_EQ(index.Find("10.2.0.1"), 0u);
  EXPECT_EQ(index.Find("192.0.2.1"), 3u);
  EXPECT_EQ(index.Find("2001:db8::1"), std::nullopt);
  EXPECT_EQ(index.Find("no address"), std::nullopt);
}

TEST(OverrideIndexTest, FamiliesAreApart) {
  EXPECT_EQ(Blocks({"::/0"}).Find("192.0.2.1"), std::nullopt);
  EXPECT_EQ(Blocks({"::/0"}).Find("2001:db8::/64"), 0u);
}

// Rules out overrides that load and meet no client, because clients are grouped.
TEST(OverrideIndexTest, AnAddressWithinAClientsBlockCountsForIt) {
  const OverrideIndex index =
      Blocks({"2001:db8::/32", "2001:db8:0:1::5", "2001:db8:0:2::/64", "2001:db8:0:2::7"});

  EXPECT_EQ(index.Find("2001:db8:0:1::/64"), 1u);
  EXPECT_EQ(index.Find("2001:db8:0:2::/64"), 2u) << "exactly the client's block goes first";
  EXPECT_EQ(index.Find("2001:db8:0:3::/64"), 0u);
  EXPECT_EQ(index.Find("2001:db8:0:1::5"), 1u);
  EXPECT_EQ(index.Find("2001:db8:0:1::6"), 0u);
}

TEST(OverrideIndexTest, OneBlockIsOneHoweverItIsSpelled) {
  OverrideIndex index = Blocks({"2001:DB8:0::1"});
  AddressBlock block;
  ASSERT_TRUE(ParseAddressBlock("2001:db8::0001", block));

  EXPECT_FALSE(index.Add(block, 1));
}

}  // namespace
}  // namespace flowguard::rules
