// SPDX-License-Identifier: Apache-2.0
//
// Comparison of short texts without a call: a path segment, a method or the name of a
// dimension is too short for memcmp to be worth one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace flowguard::base {

template <typename Word>
[[nodiscard]] inline Word LoadWord(const char* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// a == b, in words that may overlap.
[[nodiscard]] inline bool SameText(std::string_view a, std::string_view b) noexcept {
  const size_t size = a.size();
  if (size != b.size()) return false;
  const char* x = a.data();
  const char* y = b.data();
  const auto same = [&]<typename Word>(Word, size_t at) {
    return LoadWord<Word>(x + at) == LoadWord<Word>(y + at);
  };
  if (size >= 8) {
    for (size_t at = 0; at < size - 8; at += 8) {
      if (!same(uint64_t{}, at)) return false;
    }
    return same(uint64_t{}, size - 8);
  }
  if (size >= 4) return same(uint32_t{}, 0) && same(uint32_t{}, size - 4);
  if (size >= 2) return same(uint16_t{}, 0) && same(uint16_t{}, size - 2);
  return size == 0 || *x == *y;
}

}  // namespace flowguard::base
