// SPDX-License-Identifier: Apache-2.0
//
// Blocks of addresses, as rules write them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace flowguard::rules {

// An address block.  IPv4 is held as ::ffff:a.b.c.d, and so are IPv6 spellings of it.
// Ordered by first address, of one first address the wider block in front.
struct AddressBlock {
  std::array<uint8_t, 16> bytes{};
  int prefix_bits = 128;  // of the 128

  friend auto operator<=>(const AddressBlock&, const AddressBlock&) = default;
};

// "192.0.2.7", "192.0.2.0/24", "2001:db8::/32", "::ffff:1.2.3.4".  False: none.
// Bits behind the prefix are cleared; `had_host_bits` tells that some were set.
[[nodiscard]] bool ParseAddressBlock(std::string_view text, AddressBlock& block,
                                     bool* had_host_bits = nullptr) noexcept;

// "192.0.2.7", "2001:db8::/64": as the keys of requests have it, without a prefix where it
// is a whole address.
[[nodiscard]] std::string AddressText(const AddressBlock& block);

// The block of `prefix_bits` around the first address of `block`.
[[nodiscard]] AddressBlock BlockAround(const AddressBlock& block, int prefix_bits) noexcept;

// Whether `block` is of IPv4 addresses.
[[nodiscard]] bool IsIpv4(const AddressBlock& block) noexcept;

}  // namespace flowguard::rules
