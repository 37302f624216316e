// SPDX-License-Identifier: Apache-2.0
//
// IP addresses as bits, not as text: one client has one address however it is
// spelled.  IPv4-mapped IPv6 (::ffff:a.b.c.d) and NAT64 (64:ff9b::/96) are unwrapped
// to IPv4 when an address is made, before any prefix is applied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"

namespace flowguard::http {

// Room for any text that IpAddress and KeyText write.
inline constexpr size_t kIpTextMax = 48;

// A value of 16 bytes.  IPv4 is kept as ::ffff:a.b.c.d.
class IpAddress {
 public:
  IpAddress() = default;  // ::
  static IpAddress FromV4(std::span<const uint8_t, 4> bytes) noexcept;
  static IpAddress FromV6(std::span<const uint8_t, 16> bytes) noexcept;

  // "192.0.2.7" or "2001:db8::1".  Nothing else: no port, no brackets, no leading
  // zero in an IPv4 part, no zone (a zone means something on one host only).
  static std::optional<IpAddress> Parse(std::string_view text) noexcept;
  // As Parse, and also "192.0.2.7:443", "[2001:db8::1]" and "[2001:db8::1]:443"; the
  // port is checked and dropped.  "2001:db8::1:443" is an address without a port.
  static std::optional<IpAddress> ParseWithPort(std::string_view text) noexcept;

  [[nodiscard]] bool is_v4() const noexcept;
  [[nodiscard]] const std::array<uint8_t, 16>& bytes() const noexcept { return bytes_; }
  // IPv6 with all bits after `prefix` cleared; IPv4 unchanged.  Requires: 0..128.
  [[nodiscard]] IpAddress MaskedV6(int prefix) const noexcept;

  // Canonical text (RFC 5952), a view of `out`.
  [[nodiscard]] std::string_view Format(std::span<char, kIpTextMax> out) const noexcept;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;

 private:
  std::array<uint8_t, 16> bytes_{};
};

// What the dimension `ip` is: "192.0.2.7" for IPv4, "2001:db8:1:2::/64" for IPv6 cut to
// `v6_prefix` bits (a subscriber has a whole /64; "/128" is not written).  A view of
// `out`.  Requires: 1 <= v6_prefix <= 128.
std::string_view KeyText(const IpAddress& address, int v6_prefix,
                         std::span<char, kIpTextMax> out) noexcept;

// A set of address blocks.  Threads: immutable once made.  Cost: linear in blocks().
class IpBlocks {
 public:
  IpBlocks() = default;  // contains nothing

  // From "10.0.0.0/8", "2001:db8::/32", "192.0.2.7".
  // Errors: kInvalidArgument, names the entry: no address, prefix out of range, bits
  //         set behind the prefix, more than kIpBlocksMax entries.
  static Result<IpBlocks> Create(std::span<const std::string> texts);

  // An IPv6 block never contains an IPv4 address, be it ::/0.
  [[nodiscard]] bool Contains(const IpAddress& address) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }

 private:
  struct Block {
    IpAddress base;
    int prefix;  // of 128 bits
  };
  std::vector<Block> blocks_;
};

}  // namespace flowguard::http
