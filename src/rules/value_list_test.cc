// SPDX-License-Identifier: Apache-2.0
#include "rules/value_list.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::rules {
namespace {

using testing::HasSubstr;

Dimension Of(DimensionKind kind, bool lower = false) {
  Dimension dimension;
  dimension.name = "d";
  dimension.kind = kind;
  dimension.lower = lower;
  return dimension;
}

ValueList Make(const Dimension& dimension, const std::vector<std::string>& values) {
  auto list = ValueList::Make(dimension, values);
  EXPECT_TRUE(list.ok()) << list.error().message;
  return *std::move(list);
}
ValueList Tenants(const std::vector<std::string>& values) {
  return Make(Of(DimensionKind::kNamed), values);
}
ValueList Addresses(const std::vector<std::string>& values) {
  return Make(Of(DimensionKind::kIp), values);
}
std::string ErrorFor(DimensionKind kind, const std::string& value) {
  auto list = ValueList::Make(Of(kind), {value});
  return list.ok() ? "" : list.error().message;
}

TEST(ValueListTest, ExactValuesAreComparedWhole) {
  const ValueList list = Tenants({"acme", "globex"});

  EXPECT_TRUE(list.Contains("acme"));
  EXPECT_TRUE(list.Contains("globex"));
  EXPECT_FALSE(list.Contains("acm"));
  EXPECT_FALSE(list.Contains("acme2"));
  EXPECT_FALSE(list.Contains("Acme"));
  EXPECT_FALSE(list.Contains(""));
  EXPECT_FALSE(list.Contains({}));
}

TEST(ValueListTest, TrailingStarIsAPrefix) {
  const ValueList list = Tenants({"acme-*", "b*"});

  EXPECT_TRUE(list.Contains("acme-"));
  EXPECT_TRUE(list.Contains("acme-eu"));
  EXPECT_TRUE(list.Contains("b"));
  EXPECT_TRUE(list.Contains("b" + std::string(1000, 'x')));
  EXPECT_FALSE(list.Contains("acme"));
  EXPECT_FALSE(list.Contains("cb"));
}

TEST(ValueListTest, LoneStarIsEveryValueThatIsThere) {
  const ValueList list = Tenants({"*"});

  EXPECT_TRUE(list.Contains("x"));
  EXPECT_TRUE(list.Contains(""));
  EXPECT_FALSE(list.Contains({}));
}

TEST(ValueListTest, FoldsWhereTheDimensionDoes) {
  const ValueList list = Make(Of(DimensionKind::kHeader, true), {"Acme", "GLOB*"});

  EXPECT_TRUE(list.Contains("acme"));
  EXPECT_TRUE(list.Contains("globex"));
  EXPECT_TRUE(list.Contains("GLOB" + std::string(1000, 'X'))) << "too long to be folded before";
}

TEST(ValueListTest, LongValueThatBeginsLikeAnExactOneIsAnother) {
  const std::string longest(128, 'x');
  const ValueList list = Tenants({longest});

  EXPECT_TRUE(list.Contains(longest));
  EXPECT_FALSE(list.Contains(longest + "y"));
}

TEST(ValueListTest, BlocksContainTheirAddresses) {
  const ValueList list = Addresses({"192.0.2.0/24", "198.51.100.7", "2001:db8::/32", "10.0.0.0/8"});

  EXPECT_TRUE(list.Contains("192.0.2.0"));
  EXPECT_TRUE(list.Contains("192.0.2.255"));
  EXPECT_FALSE(list.Contains("192.0.3.0"));
  EXPECT_TRUE(list.Contains("198.51.100.7"));
  EXPECT_FALSE(list.Contains("198.51.100.8"));
  EXPECT_TRUE(list.Contains("10.255.1.2"));
  EXPECT_TRUE(list.Contains("2001:db8:1234::1"));
  EXPECT_FALSE(list.Contains("2001:db9::1"));
}

// Rules out that another spelling of an address escapes a list.
TEST(ValueListTest, SpellingOfAnAddressMakesNoDifference) {
  const ValueList list = Addresses({"1.2.3.4", "2001:DB8:0::1"});

  EXPECT_TRUE(list.Contains("::ffff:1.2.3.4"));
  EXPECT_TRUE(list.Contains("::ffff:102:304"));
  EXPECT_TRUE(list.Contains("2001:db8::1"));
  EXPECT_TRUE(list.Contains("2001:0db8:0:0::0001"));
}

TEST(ValueListTest, WholeFamiliesAreApart) {
  EXPECT_TRUE(Addresses({"0.0.0.0/0"}).Contains("203.0.113.1"));
  EXPECT_FALSE(Addresses({"0.0.0.0/0"}).Contains("2001:db8::1"));
  EXPECT_TRUE(Addresses({"::/0"}).Contains("2001:db8::1"));
  EXPECT_FALSE(Addresses({"::/0"}).Contains("203.0.113.1"));
}

TEST(ValueListTest, GroupedClientIsInBlocksThatHoldTheWholeGroup) {
  const ValueList list = Addresses({"2001:db8::/48", "2001:db8:1::1"});

  EXPECT_TRUE(list.Contains("2001:db8:0:5::/64"));
  EXPECT_FALSE(list.Contains("2001:db8:1::/64")) << "only one address of the group is listed";
  EXPECT_FALSE(list.Contains("2001:db8::/32"));
}

// Rules out that odd text in an address throws or matches.
TEST(ValueListTest, TextThatIsNoAddressIsInNoList) {
  const ValueList list = Addresses({"0.0.0.0/0", "::/0"});

  for (const char* text : {"", "fe80::1%eth0", "::1%", "1:2:3:4:5:6:7::%a.b", "1.2.3", "1.2.3.4/33",
                           "1.2.3.4/", "1.2.3.4/-1", "1.2.3.4/8x", "01.2.3.4", "not-an-ip", "/8"})
    EXPECT_FALSE(list.Contains(text)) << text;
  EXPECT_FALSE(list.Contains(std::string_view("1.2.3.4\0", 8)));
  EXPECT_FALSE(list.Contains(std::string(10'000, '1')));
}

TEST(ValueListTest, EveryPrefixLengthCutsWhereItSays) {
  for (int bits = 1; bits <= 32; ++bits) {
    const uint32_t network = bits == 32 ? 0xffffffffu : ~(0xffffffffu >> bits);
    const auto text = [](uint32_t a) {
      return std::to_string(a >> 24) + "." + std::to_string(a >> 16 & 255) + "." +
             std::to_string(a >> 8 & 255) + "." + std::to_string(a & 255);
    };
    const ValueList list = Addresses({text(network) + "/" + std::to_string(bits)});
    EXPECT_TRUE(list.Contains(text(0xffffffffu))) << bits;
    EXPECT_FALSE(list.Contains(text(network - 1))) << bits;
  }
}

// Rules out values that load and never match.
TEST(ValueListTest, RefusesValuesThatCouldNeverMatch) {
  EXPECT_THAT(ErrorFor(DimensionKind::kNamed, "foo*bar"), HasSubstr("'*' at column 4"));
  EXPECT_THAT(ErrorFor(DimensionKind::kNamed, ""), HasSubstr("empty"));
  EXPECT_THAT(ErrorFor(DimensionKind::kNamed, std::string(129, 'x')), HasSubstr("longer than 128"));
  EXPECT_THAT(ErrorFor(DimensionKind::kIp, "10.0.0.0/33"), HasSubstr("not an address or block"));
  EXPECT_THAT(ErrorFor(DimensionKind::kIp, "10.0.*"), HasSubstr("not an address or block"));
  EXPECT_THAT(ErrorFor(DimensionKind::kIp, "10.0.0.1/8"), HasSubstr("behind the prefix length"));
}

}  // namespace
}  // namespace flowguard::rules
