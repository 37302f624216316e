// SPDX-License-Identifier: Apache-2.0
//
// How far one word is from another, to guess what was meant by a misspelt one.
#pragma once

#include <cstddef>
#include <string_view>

namespace flowguard::base {

// Longer words are not compared.
inline constexpr size_t kEditWordBytesMax = 64;

// Edits (insert, delete, replace, swap of neighbours) from one word to the other.
// Requires: neither is longer than kEditWordBytesMax.
// Cost: O(a.size() * b.size()); no allocation.
[[nodiscard]] size_t EditDistance(std::string_view a, std::string_view b) noexcept;

}  // namespace flowguard::base
