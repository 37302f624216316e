// SPDX-License-Identifier: Apache-2.0
#include "http/client_address.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::http {
namespace {

struct Seen {
  std::string address;
  bool cut_short;
  friend bool operator==(const Seen&, const Seen&) = default;
};

void PrintTo(const Seen& seen, std::ostream* out) {
  *out << seen.address << (seen.cut_short ? " (cut short)" : "");
}

class ClientAddressTest : public ::testing::Test {
 protected:
  ClientAddressTest() { Trust({"10.0.0.0/8", "fd00::/8"}); }

  void Trust(const std::vector<std::string>& blocks) {
    auto made = IpBlocks::Create(blocks);
    ASSERT_TRUE(made.ok());
    config_.trusted = *std::move(made);
  }

  // What a request with these header lines from this peer is resolved to.
  Seen Resolve(std::string_view peer, std::string_view lines) {
    const std::string bytes = "GET / HTTP/1.1\r\nHost: x\r\n" + std::string(lines) + "\r\n";
    EXPECT_EQ(wire::ParseRequestHead(bytes, 0, head_), wire::ParseStatus::kDone);
    const ClientAddress client =
        ResolveClientAddress(*IpAddress::Parse(peer), head_.headers, config_);
    std::array<char, kIpTextMax> out;
    return {std::string(client.address.Format(out)), client.cut_short};
  }

  ClientAddressConfig config_;
  wire::RequestHead head_;
};

// Rules out: forwarded headers believed from a peer that is no trusted proxy.
TEST_F(ClientAddressTest, ByDefaultNobodyIsTrusted) {
  config_ = {};

  EXPECT_EQ(Resolve("203.0.113.9", "X-Forwarded-For: 1.1.1.1\r\n"), (Seen{"203.0.113.9", false}));
  EXPECT_EQ(Resolve("127.0.0.1", "X-Forwarded-For: 1.1.1.1\r\n"), (Seen{"127.0.0.1", false}));
}

TEST_F(ClientAddressTest, AnUntrustedPeerIsTheClientWhateverItClaims) {
  EXPECT_EQ(Resolve("203.0.113.9", "X-Forwarded-For: 1.1.1.1, 10.0.0.1\r\n"),
            (Seen{"203.0.113.9", false}));
}

TEST_F(ClientAddressTest, TheFirstUntrustedFromTheRightIsTheClient) {
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 10.0.0.2\r\n"),
            (Seen{"2.2.2.2", false}));
}

TEST_F(ClientAddressTest, AllTrustedMeansTheLeftmost) {
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 10.0.0.3,10.0.0.2\r\n"),
            (Seen{"10.0.0.3", false}));
}

TEST_F(ClientAddressTest, WithoutTheHeaderATrustedPeerIsTheClient) {
  EXPECT_EQ(Resolve("10.0.0.1", "Forwarded: for=1.1.1.1\r\n"), (Seen{"10.0.0.1", false}));
}

// Rules out: only the first of several lines of one name being read.
TEST_F(ClientAddressTest, RepeatedLinesAreOneListInOrder) {
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 2.2.2.2\r\n"),
            (Seen{"2.2.2.2", false}));
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 2.2.2.2\r\nX-FORWARDED-FOR: 10.0.0.2\r\n"),
            (Seen{"2.2.2.2", false}));
}

// Rules out: an unreadable hop falling through to entries that the client wrote.
TEST_F(ClientAddressTest, AnUnreadableHopEndsTheWalk) {
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 1.1.1.1, not-an-ip\r\n"),
            (Seen{"10.0.0.1", true}));
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 1.1.1.1, unknown, 10.0.0.2\r\n"),
            (Seen{"10.0.0.2", true}));
}

// Rules out: zones and odd text in the address making the resolver throw.
TEST_F(ClientAddressTest, ZonesAndOddTextLeaveThePeer) {
  for (const char* text : {"fe80::1%eth0.100", "fe80::1%25eth0", "::1%", "1:2:3:4:5:6:7::%a.b"}) {
    EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: " + std::string(text) + "\r\n"),
              (Seen{"10.0.0.1", true}))
        << text;
  }
}

TEST_F(ClientAddressTest, EntriesMayHavePortsAndOddSpacing) {
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: \t1.2.3.4:5678 , ,\r\n"),
            (Seen{"1.2.3.4", false}));
  EXPECT_EQ(Resolve("fd00::1", "X-Forwarded-For: [2001:db8::1]:5678\r\n"),
            (Seen{"2001:db8::1", false}));
  EXPECT_EQ(Resolve("::ffff:10.0.0.1", "X-Forwarded-For: ::ffff:1.2.3.4\r\n"),
            (Seen{"1.2.3.4", false}));
}

TEST_F(ClientAddressTest, TheWalkIsBounded) {
  std::string line = "X-Forwarded-For: 6.6.6.6";
  for (size_t i = 0; i <= base::kForwardedHopsMax; ++i)
    line += ",10.0.0.2";

  EXPECT_EQ(Resolve("10.0.0.1", line + "\r\n"), (Seen{"10.0.0.2", true}));
}

TEST_F(ClientAddressTest, ForwardedIsReadWithQuotesAndPorts) {
  config_.header = ClientHeader::kForwarded;

  EXPECT_EQ(
      Resolve("10.0.0.1",
              "Forwarded: for=9.9.9.9, For=\"[2001:db8::1]:4711\";proto=https;by=10.0.0.1\r\n"),
      (Seen{"2001:db8::1", false}));
  EXPECT_EQ(Resolve("10.0.0.1", "Forwarded: proto=http;for=192.0.2.60;by=203.0.113.43\r\n"),
            (Seen{"192.0.2.60", false}));
  EXPECT_EQ(Resolve("10.0.0.1", "Forwarded: for=\"1.2.3.4:80\"\r\nForwarded: for=10.0.0.9\r\n"),
            (Seen{"1.2.3.4", false}));
  EXPECT_EQ(Resolve("10.0.0.1", "Forwarded: for=2.2.2.2;host=\"a,b;for=6.6.6.6\"\r\n"),
            (Seen{"2.2.2.2", false}));
}

TEST_F(ClientAddressTest, ForwardedWithoutAnAddressEndsTheWalk) {
  config_.header = ClientHeader::kForwarded;

  for (const char* entry : {"for=unknown", "for=_SEVKISEK", "for=\"_gazonk\"", "proto=https",
                            "for=1.1.1.1;for=2.2.2.2", "for=\"1.1.1.1", "for= 1.1.1.1", "for="}) {
    EXPECT_EQ(Resolve("10.0.0.1", "Forwarded: for=6.6.6.6, " + std::string(entry) + "\r\n"),
              (Seen{"10.0.0.1", true}))
        << entry;
  }
}

// Rules out: an open quote of the client's swallowing what a proxy appended.
TEST_F(ClientAddressTest, AnOpenQuoteOnTheLeftHidesNothingOnTheRight) {
  config_.header = ClientHeader::kForwarded;

  EXPECT_EQ(Resolve("10.0.0.1", "Forwarded: for=\"6.6.6.6, for=2.2.2.2\r\n"),
            (Seen{"2.2.2.2", false}));
  EXPECT_EQ(Resolve("10.0.0.1", "Forwarded: for=\"6.6.6.6\\\r\nForwarded: for=\"2.2.2.2\"\r\n"),
            (Seen{"2.2.2.2", false}));
}

TEST_F(ClientAddressTest, RealIpIsOneLineWithOneAddress) {
  config_.header = ClientHeader::kXRealIp;

  EXPECT_EQ(Resolve("10.0.0.1", "X-Real-IP: 1.2.3.4\r\n"), (Seen{"1.2.3.4", false}));
  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 1.2.3.4\r\n"), (Seen{"10.0.0.1", false}));
  EXPECT_EQ(Resolve("10.0.0.1", "X-Real-IP: 1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n"),
            (Seen{"10.0.0.1", true}));
  EXPECT_EQ(Resolve("10.0.0.1", "X-Real-IP: 1.2.3.4, 5.6.7.8\r\n"), (Seen{"10.0.0.1", true}));
}

TEST_F(ClientAddressTest, NoHeaderConfiguredMeansThePeer) {
  config_.header = ClientHeader::kNone;

  EXPECT_EQ(Resolve("10.0.0.1", "X-Forwarded-For: 1.2.3.4\r\n"), (Seen{"10.0.0.1", false}));
}

}  // namespace
}  // namespace flowguard::http
