// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <algorithm>

namespace flowguard::text {

namespace {

unsigned ByteAt(std::string_view text, size_t at) noexcept {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

bool Within(unsigned byte, unsigned low, unsigned high) noexcept {
  return byte >= low && byte <= high;
}

}  // namespace

size_t CharacterBytes(std::string_view text, size_t at) noexcept {
  const unsigned b0 = ByteAt(text, at);
  const unsigned b1 = ByteAt(text, at + 1);
  if (b0 < 0x80) return 1;
  if (Within(b0, 0xC2, 0xDF)) return Within(b1, 0x80, 0xBF) ? 2 : 0;
  const bool third = Within(ByteAt(text, at + 2), 0x80, 0xBF);
  if (Within(b0, 0xE0, 0xEF)) {
    // No overlong forms, no surrogates.
    const unsigned low = b0 == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = b0 == 0xED ? 0x9F : 0xBF;
    return Within(b1, low, high) && third ? 3 : 0;
  }
  if (Within(b0, 0xF0, 0xF4)) {
    const unsigned low = b0 == 0xF0 ? 0x90 : 0x80;
    const unsigned high = b0 == 0xF4 ? 0x8F : 0xBF;
    const bool fourth = Within(ByteAt(text, at + 3), 0x80, 0xBF);
    return Within(b1, low, high) && third && fourth ? 4 : 0;
  }
  return 0;
}

size_t FindForbiddenByte(std::string_view text) noexcept {
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    const bool control = static_cast<unsigned char>(c) < 0x20;
    if (control && c != '\t' && c != '\n' && c != '\r') return at;
    const size_t bytes = CharacterBytes(text, at);
    if (bytes == 0) return at;
    at += bytes;
  }
  return text.size();
}

size_t WholeCharacters(std::string_view text, size_t bytes_max) noexcept {
  size_t at = std::min(text.size(), bytes_max);
  if (at == text.size()) return at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u)
    --at;
  return at;
}

Position PositionOf(std::string_view text, size_t offset) noexcept {
  Position at;
  for (const char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
  }
  return at;
}

std::string_view WithoutByteOrderMark(std::string_view text) noexcept {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.substr(0, kMark.size()) == kMark) text.remove_prefix(kMark.size());
  return text;
}

}  // namespace flowguard::text
