// SPDX-License-Identifier: Apache-2.0
//
// A number of 48 bits and the turn that it belongs to in one atomic word, so that a slot
// of a ring can change its turn under those who add to it and those who read it: whoever
// meets another turn than expected knows that the number is not the one it wants.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace flowguard::stats {

using Tag = uint16_t;

inline constexpr int kTaggedBits = 48;
inline constexpr uint64_t kTaggedMax = (uint64_t{1} << kTaggedBits) - 1;

[[nodiscard]] constexpr uint64_t Tagged(Tag tag, uint64_t value) noexcept {
  return uint64_t{tag} << kTaggedBits | value;
}
[[nodiscard]] constexpr Tag TagOf(uint64_t word) noexcept {
  return static_cast<Tag>(word >> kTaggedBits);
}
[[nodiscard]] constexpr uint64_t ValueOf(uint64_t word) noexcept {
  return word & kTaggedMax;
}

// Whether `a` is of an earlier turn than `b`.  Turns count on by one and wrap, so the
// answer is right while they are less than 2^15 apart.
[[nodiscard]] constexpr bool IsOlder(Tag a, Tag b) noexcept {
  return static_cast<int16_t>(static_cast<Tag>(b - a)) > 0;
}

// A number as a word holds it: below zero is zero, and it stays at its maximum.
[[nodiscard]] constexpr uint64_t Clamped(int64_t value) noexcept {
  return std::min(static_cast<uint64_t>(std::max<int64_t>(value, 0)), kTaggedMax);
}

// What is done to a number.  Plus stays at the maximum.
struct Plus {
  uint64_t amount;  // at most kTaggedMax
  [[nodiscard]] uint64_t operator()(uint64_t value) const noexcept {
    return std::min(value + amount, kTaggedMax);
  }
};
struct Least {
  uint64_t amount;
  [[nodiscard]] uint64_t operator()(uint64_t value) const noexcept {
    return std::min(value, amount);
  }
};
struct Most {
  uint64_t amount;
  [[nodiscard]] uint64_t operator()(uint64_t value) const noexcept {
    return std::max(value, amount);
  }
};

}  // namespace flowguard::stats
