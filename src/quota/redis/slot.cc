// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/slot.h"

#include <array>

namespace flowguard::quota::redis {
namespace {

constexpr uint16_t kPolynomial = 0x1021;

constexpr std::array<uint16_t, 256> MakeTable() noexcept {
  std::array<uint16_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 0x8000) != 0 ? (crc << 1) ^ kPolynomial : crc << 1;
    table[byte] = static_cast<uint16_t>(crc);
  }
  return table;
}

constexpr std::array<uint16_t, 256> kTable = MakeTable();

}  // namespace

uint16_t SlotOf(std::string_view key) noexcept {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close != open + 1)
      key = key.substr(open + 1, close - open - 1);
  }
  unsigned crc = 0;
  for (const char byte : key)
    crc = (crc << 8 & 0xffff) ^ kTable[(crc >> 8 ^ static_cast<unsigned char>(byte)) & 0xff];
  return static_cast<uint16_t>(crc % kSlots);
}

}  // namespace flowguard::quota::redis
