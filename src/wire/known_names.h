// SPDX-License-Identifier: Apache-2.0
//
// The table of known header names, inline for the parser, which asks it of every line.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "wire/http1.h"

namespace flowguard::wire {
namespace internal {

inline constexpr auto kKnownCount = static_cast<size_t>(KnownHeader::kCount);

// In the order of KnownHeader.
inline constexpr std::array<std::string_view, kKnownCount> kNames = {
    "",
    "authorization",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "proxy-connection",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-real-ip",
};

// A perfect hash: the multiplier was searched for until no two names shared a slot,
// and BuildSlots fails to compile if they ever do.  One table load and one comparison
// replace a switch over lengths, whose jump the processor cannot foresee.
inline constexpr size_t kSlotBits = 6;

constexpr size_t SlotOf(std::string_view name) {
  const auto byte = [&name](size_t at) {
    return static_cast<uint32_t>(static_cast<unsigned char>(name[at]));
  };
  const size_t last = name.size() - 1;
  uint32_t ends = byte(last - 1) | byte(last) << 8;
  if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
    uint16_t both;  // the same by one load
    std::memcpy(&both, name.data() + last - 1, sizeof both);
    ends = both;
  }
  const uint32_t mixed =
      (static_cast<uint32_t>(name.size()) & 0xFFU) | byte(0) << 8 | ends << 16 | 0x20202000U;
  return (mixed * 0xDB9671DDU) >> (32 - kSlotBits);
}

constexpr std::array<KnownHeader, size_t{1} << kSlotBits> BuildSlots() {
  std::array<KnownHeader, size_t{1} << kSlotBits> slots{};
  for (size_t i = 1; i < kKnownCount; ++i) {
    KnownHeader& slot = slots[SlotOf(kNames[i])];
    if (slot != KnownHeader::kOther) throw "two header names share a slot";
    slot = static_cast<KnownHeader>(i);
  }
  return slots;
}

inline constexpr std::array<KnownHeader, size_t{1} << kSlotBits> kSlots = BuildSlots();

// As TokenIs, for a length known only at run time: two loads that may overlap, or more
// for long names.  Requires: lower has 2 bytes at least; `text` as many.
inline bool EqualsLower(const char* text, std::string_view lower) noexcept {
  const auto same = [&]<typename Word>(Word case_bits, size_t at) {
    Word a;
    Word b;
    std::memcpy(&a, text + at, sizeof(Word));
    std::memcpy(&b, lower.data() + at, sizeof(Word));
    return static_cast<Word>(a | case_bits) == b;
  };
  const size_t n = lower.size();
  if (n < 4) return same(uint16_t{0x2020}, 0) && same(uint16_t{0x2020}, n - 2);
  if (n < 8) return same(uint32_t{0x20202020}, 0) && same(uint32_t{0x20202020}, n - 4);
  constexpr uint64_t kCaseBits = 0x2020202020202020U;
  for (size_t at = 0; at + 8 < n; at += 8)
    if (!same(kCaseBits, at)) return false;
  return same(kCaseBits, n - 8);
}

}  // namespace internal

// Recognise, inline.  Most names that are not known meet an empty slot.
[[nodiscard]] inline KnownHeader KnownName(std::string_view name) noexcept {
  if (name.size() < 2) return KnownHeader::kOther;
  const KnownHeader known = internal::kSlots[internal::SlotOf(name)];
  if (known == KnownHeader::kOther) return known;
  const std::string_view candidate = internal::kNames[static_cast<size_t>(known)];
  return candidate.size() == name.size() && internal::EqualsLower(name.data(), candidate)
             ? known
             : KnownHeader::kOther;
}

}  // namespace flowguard::wire
