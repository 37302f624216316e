// SPDX-License-Identifier: Apache-2.0
#include "rules/dimension.h"

namespace flowguard::rules {

namespace {

bool IsSpace(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string_view Trimmed(std::string_view text) noexcept {
  while (!text.empty() && IsSpace(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back()))
    text.remove_suffix(1);
  return text;
}

}  // namespace

char AsciiLower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

std::string_view Rewritten(const Dimension& dimension, std::string_view raw,
                           std::span<char> scratch) noexcept {
  if (raw.data() == nullptr) {
    if (dimension.missing_value.empty()) return {};
    return dimension.missing_value;
  }
  if (dimension.trim) raw = Trimmed(raw);
  if (!dimension.lower || raw.size() > scratch.size()) return raw;
  for (size_t i = 0; i < raw.size(); ++i)
    scratch[i] = AsciiLower(raw[i]);
  return {scratch.data(), raw.size()};
}

}  // namespace flowguard::rules
