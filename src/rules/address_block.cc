// SPDX-License-Identifier: Apache-2.0
#include "rules/address_block.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>

namespace flowguard::rules {

namespace {

// Clears what is behind the prefix; true if something was set there.
bool Mask(std::array<uint8_t, 16>& bytes, int prefix_bits) noexcept {
  bool cleared = false;
  for (int i = 0; i < 16; ++i) {
    const int bits = std::clamp(prefix_bits - i * 8, 0, 8);
    const auto mask = static_cast<uint8_t>(0xff00u >> bits);
    auto& byte = bytes[static_cast<size_t>(i)];
    cleared |= (byte & static_cast<uint8_t>(~mask)) != 0;
    byte &= mask;
  }
  return cleared;
}

}  // namespace

bool ParseAddressBlock(std::string_view text, AddressBlock& block, bool* had_host_bits) noexcept {
  const size_t slash = text.find('/');
  const std::string_view address = text.substr(0, slash);
  std::array<char, INET6_ADDRSTRLEN> terminated{};
  if (address.empty() || address.size() >= terminated.size()) return false;
  if (address.find('\0') != std::string_view::npos) return false;
  std::memcpy(terminated.data(), address.data(), address.size());
  const bool v6 = address.find(':') != std::string_view::npos;
  block.bytes = {};
  if (v6) {
    if (inet_pton(AF_INET6, terminated.data(), block.bytes.data()) != 1) return false;
  } else {
    block.bytes[10] = block.bytes[11] = 0xff;
    if (inet_pton(AF_INET, terminated.data(), block.bytes.data() + 12) != 1) return false;
  }
  block.prefix_bits = 128;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    int bits = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (error != std::errc() || end != digits.data() + digits.size()) return false;
    if (bits < 0 || bits > (v6 ? 128 : 32)) return false;
    block.prefix_bits = v6 ? bits : bits + 96;
  }
  const bool cleared = Mask(block.bytes, block.prefix_bits);
  if (had_host_bits != nullptr) *had_host_bits = cleared;
  return true;
}

std::string AddressText(const AddressBlock& block) {
  constexpr int kMappedBits = 96;
  const bool v4 = IsIpv4(block);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(v4 ? AF_INET : AF_INET6, block.bytes.data() + (v4 ? kMappedBits / 8 : 0), text.data(),
            text.size());
  std::string out(text.data());
  if (block.prefix_bits == AddressBlock{}.prefix_bits) return out;
  return out + "/" + std::to_string(block.prefix_bits - (v4 ? kMappedBits : 0));
}

AddressBlock BlockAround(const AddressBlock& block, int prefix_bits) noexcept {
  AddressBlock around = block;
  around.prefix_bits = prefix_bits;
  Mask(around.bytes, prefix_bits);
  return around;
}

bool IsIpv4(const AddressBlock& block) noexcept {
  static constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return block.prefix_bits >= 96 && std::equal(kMapped.begin(), kMapped.end(), block.bytes.begin());
}

}  // namespace flowguard::rules
