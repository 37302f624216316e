// SPDX-License-Identifier: Apache-2.0
#include "rules/cluster_key.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <system_error>
#include <type_traits>

#include "base/bounds.h"
#include "base/check.h"
#include "rules/key.h"

namespace flowguard::rules {

namespace {

template <typename Number>
std::optional<std::string> CanonicalNumber(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  Number value{};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  constexpr size_t kDigitsMax = 32;
  std::array<char, kDigitsMax> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), written.ptr);
}

}  // namespace

std::string_view ClusterKeyOf(std::string_view encoded) noexcept {
  constexpr size_t kIdentityBytes = 8;
  constexpr size_t kPartHead = 2;
  FG_DCHECK(encoded.size() >= kIdentityBytes);
  const std::string_view parts = encoded.substr(kIdentityBytes);
  if (parts.size() < kPartHead) return parts;
  const auto tag = static_cast<unsigned char>(parts[0]);
  const auto length = static_cast<unsigned char>(parts[1]);
  // A digest of the key, where it is too long for a store, has tag 0.
  const bool value = tag != 0 && (tag & kMissingTag) == 0 && length <= base::kKeyValueInlineMax;
  if (!value || parts.size() != kPartHead + length) return parts;
  return parts.substr(kPartHead);
}

std::optional<std::string> CanonicalText(ValueType type, std::string_view text) {
  switch (type) {
    case ValueType::kInt:
      return CanonicalNumber<int32_t>(text);
    case ValueType::kLong:
      return CanonicalNumber<int64_t>(text);
    case ValueType::kByte:
      return CanonicalNumber<int8_t>(text);
    case ValueType::kDouble:
      return CanonicalNumber<double>(text);
    case ValueType::kFloat:
      return CanonicalNumber<float>(text);
    case ValueType::kShort:
      return CanonicalNumber<int16_t>(text);
    case ValueType::kBool:
      if (text != "true" && text != "false") return std::nullopt;
      return std::string(text);
    case ValueType::kAny:
    case ValueType::kString:
      break;
  }
  return std::string(text);
}

std::string_view NameOf(ValueType type) noexcept {
  switch (type) {
    case ValueType::kAny:
      return "any";
    case ValueType::kInt:
      return "int";
    case ValueType::kLong:
      return "long";
    case ValueType::kByte:
      return "byte";
    case ValueType::kDouble:
      return "double";
    case ValueType::kFloat:
      return "float";
    case ValueType::kShort:
      return "short";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
  }
  return "unknown";
}

}  // namespace flowguard::rules
