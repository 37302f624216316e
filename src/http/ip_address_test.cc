// SPDX-License-Identifier: Apache-2.0
#include "http/ip_address.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::http {
namespace {

std::string Key(std::string_view text, int v6_prefix = 64) {
  const auto address = IpAddress::ParseWithPort(text);
  if (!address) return "unreadable";
  std::array<char, kIpTextMax> out;
  return std::string(KeyText(*address, v6_prefix, out));
}

std::string Text(std::string_view text) {
  return Key(text, 128);
}

// Rules out: mapped addresses recognised by their spelling instead of their bits.
TEST(IpAddressTest, MappedIpv4IsIpv4InEverySpelling) {
  EXPECT_EQ(Key("::ffff:1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(Key("::ffff:102:304"), "1.2.3.4");
  EXPECT_EQ(Key("0:0:0:0:0:FFFF:0102:0304"), "1.2.3.4");
  EXPECT_EQ(Key("2001:db8:1234:5678::1.2.3.4"), "2001:db8:1234:5678::/64");
  EXPECT_EQ(Key("2001:db8:1234:5678::102:304"), "2001:db8:1234:5678::/64");
}

// Rules out: the IPv6 prefix cutting mapped IPv4, so that all IPv4 clients share a key.
TEST(IpAddressTest, ThePrefixDoesNotCutIpv4) {
  EXPECT_NE(Key("::ffff:10.0.0.1", 56), Key("::ffff:10.0.0.2", 56));
  EXPECT_EQ(Key("::ffff:10.0.0.1", 1), "10.0.0.1");
}

TEST(IpAddressTest, Nat64IsUnwrapped) {
  EXPECT_EQ(Key("64:ff9b::192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(Key("64:ff9b::c000:207"), "192.0.2.7");
  EXPECT_EQ(Key("64:ff9b:1::192.0.2.7"), "64:ff9b:1::/64");
}

// Rules out: a port cut off by the last colon, which damages bare IPv6.
TEST(IpAddressTest, PortsAreDroppedWithoutHarmToIpv6) {
  EXPECT_EQ(Text("1.2.3.4:5678"), "1.2.3.4");
  EXPECT_EQ(Text("[2001:db8::1]:5678"), "2001:db8::1");
  EXPECT_EQ(Text("[2001:db8::1]"), "2001:db8::1");
  EXPECT_EQ(Text("2001:db8::1"), "2001:db8::1");
  EXPECT_EQ(Text("::1"), "::1");
  EXPECT_EQ(Text("2001:db8::1:443"), "2001:db8::1:443");
}

// Rules out: zones and other odd text that a parser trips over or half-reads.
TEST(IpAddressTest, RefusesWhatIsNoAddress) {
  for (const char* text : {"",
                           " ",
                           "fe80::1%eth0.100",
                           "fe80::1%25eth0",
                           "::1%",
                           "1:2:3:4:5:6:7::%a.b",
                           "unknown",
                           "_hidden",
                           "1.2.3",
                           "1.2.3.4.5",
                           "01.2.3.4",
                           "1.2.3.256",
                           "1.2.3.4:",
                           "1.2.3.4:65536",
                           "1.2.3.4:+1",
                           "1.2.3.4 ",
                           "0x1.2.3.4",
                           "1.2.3.-4",
                           ":",
                           ":::",
                           "1::2::3",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "12345::",
                           "::g",
                           "1:",
                           ":1",
                           "1:2:3:4:5:6:7:8::",
                           "::1.2.3",
                           "[::1",
                           "[::1]443",
                           "[::1]:",
                           "[1.2.3.4]:80",
                           "::1.2.3.4:5",
                           "1:2:3:4:5:6:7:1.2.3.4",
                           "::-1",
                           "1::+2"}) {
    EXPECT_EQ(Text(text), "unreadable") << text;
  }
  EXPECT_EQ(Text(std::string_view("1.2.3.4\0", 8)), "unreadable");
}

TEST(IpAddressTest, WritesCanonicalText) {
  EXPECT_EQ(Text("2001:0DB8:0:0:0:0:0:1"), "2001:db8::1");
  EXPECT_EQ(Text("2001:db8:0:1:1:1:1:1"), "2001:db8:0:1:1:1:1:1");
  EXPECT_EQ(Text("2001:0:0:1:0:0:0:1"), "2001:0:0:1::1");
  EXPECT_EQ(Text("1:0:0:2:0:0:3:4"), "1::2:0:0:3:4");
  EXPECT_EQ(Text("1:2:3:4:5:6:7::"), "1:2:3:4:5:6:7:0");
  EXPECT_EQ(Text("::"), "::");
  EXPECT_EQ(Text("1::"), "1::");
  EXPECT_EQ(Text("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

TEST(IpAddressTest, AllAddressesOfAPrefixShareAKey) {
  EXPECT_EQ(Key("2001:db8:1:2:aaaa::1"), Key("2001:db8:1:2:bbbb::2"));
  EXPECT_NE(Key("2001:db8:1:2::1"), Key("2001:db8:1:3::1"));
  EXPECT_EQ(Key("2001:db8:1:2ff::1", 56), "2001:db8:1:200::/56");
  EXPECT_EQ(Key("2001:db8:1:2ff::1", 49), "2001:db8:1::/49");
  EXPECT_EQ(Key("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 127),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127");
}

TEST(IpBlocksTest, ContainsExactlyItsAddresses) {
  const std::vector<std::string> texts = {"10.0.0.0/8", "192.0.2.7", "2001:db8::/33"};
  const auto blocks = IpBlocks::Create(texts);
  ASSERT_TRUE(blocks.ok());
  const auto in = [&](const char* text) { return blocks->Contains(*IpAddress::Parse(text)); };

  EXPECT_TRUE(in("10.255.255.255"));
  EXPECT_TRUE(in("::ffff:10.1.2.3"));
  EXPECT_TRUE(in("192.0.2.7"));
  EXPECT_TRUE(in("2001:db8:7fff::1"));
  EXPECT_FALSE(in("11.0.0.0"));
  EXPECT_FALSE(in("192.0.2.6"));
  EXPECT_FALSE(in("2001:db8:8000::1"));
  EXPECT_FALSE(in("::1"));
}

TEST(IpBlocksTest, AnIpv6BlockNeverHoldsIpv4) {
  const std::vector<std::string> texts = {"::/0"};
  const auto blocks = IpBlocks::Create(texts);
  ASSERT_TRUE(blocks.ok());

  EXPECT_TRUE(blocks->Contains(*IpAddress::Parse("2001:db8::1")));
  EXPECT_FALSE(blocks->Contains(*IpAddress::Parse("192.0.2.1")));
}

TEST(IpBlocksTest, RefusesBadEntriesAndNamesThem) {
  for (const char* text :
       {"10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/+8", "2001:db8::/129", "2001:db8::1/64",
        "localhost", "", "10.0.0.0/8/8", "::ffff:0:0/64"}) {
    const std::vector<std::string> texts = {"127.0.0.1", text};
    const auto blocks = IpBlocks::Create(texts);
    ASSERT_FALSE(blocks.ok()) << text;
    EXPECT_NE(blocks.error().message.find('"' + std::string(text) + '"'), std::string::npos);
  }
}

TEST(IpBlocksTest, EmptyContainsNothing) {
  EXPECT_FALSE(IpBlocks().Contains(IpAddress()));
}

}  // namespace
}  // namespace flowguard::http
