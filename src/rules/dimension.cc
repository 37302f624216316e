// SPDX-License-Identifier: Apache-2.0
#include "rules/dimension.h"

#include <algorithm>

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

bool HasForm(std::string_view given, std::string_view prefix, std::string_view argument) noexcept {
  return given.starts_with(prefix) && given.substr(prefix.size()) == argument;
}

}  // namespace

bool NamesSource(const Dimension& dimension, std::string_view given) noexcept {
  constexpr std::string_view kHeader = "header:";
  switch (dimension.kind) {
    case DimensionKind::kHeader:
      return given.starts_with(kHeader) &&
             std::ranges::equal(given.substr(kHeader.size()), dimension.argument,
                                [](char a, char b) { return AsciiLower(a) == b; });
    case DimensionKind::kCookie:
      return HasForm(given, "cookie:", dimension.argument);
    case DimensionKind::kQuery:
      return HasForm(given, "query:", dimension.argument);
    case DimensionKind::kParam:
      return HasForm(given, "param:", dimension.argument) ||
             HasForm(given, "query:", dimension.argument);
    case DimensionKind::kIp:
      return given == "ip";
    case DimensionKind::kMethod:
    case DimensionKind::kResource:
    case DimensionKind::kPath:
    case DimensionKind::kNamed:
      return false;  // the engine knows these, or they have a name only
  }
  return false;
}

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
