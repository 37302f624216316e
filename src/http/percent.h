// SPDX-License-Identifier: Apache-2.0
//
// Percent escapes, one at a time.
#pragma once

#include <string_view>

namespace flowguard::http {

// The value of a hex digit, or -1.
[[nodiscard]] constexpr int HexDigit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte that `text` starts with when that is "%XX", or -1.
[[nodiscard]] constexpr int EscapedByte(std::string_view text) noexcept {
  if (text.size() < 3 || text[0] != '%') return -1;
  const int high = HexDigit(text[1]);
  const int low = HexDigit(text[2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace flowguard::http
