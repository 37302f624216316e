// SPDX-License-Identifier: Apache-2.0
//
// What text is allowed to be: UTF-8 (Unicode's table 3-7), no control characters but
// tab and line ends.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/node.h"

namespace flowguard::text {

// Bytes of the well-formed character that begins at `at`, 0 when none does.
// Requires: at < text.size().
[[nodiscard]] size_t CharacterBytes(std::string_view text, size_t at) noexcept;

// The first byte that is not allowed in a text; text.size() when there is none.
[[nodiscard]] size_t FindForbiddenByte(std::string_view text) noexcept;

// At most `bytes_max` bytes that do not cut a character in two.
[[nodiscard]] size_t WholeCharacters(std::string_view text, size_t bytes_max) noexcept;

// Line and column of the byte `offset`.
[[nodiscard]] Position PositionOf(std::string_view text, size_t offset) noexcept;

// Without the byte order mark that some editors put first.
[[nodiscard]] std::string_view WithoutByteOrderMark(std::string_view text) noexcept;

}  // namespace flowguard::text
