// SPDX-License-Identifier: Apache-2.0
#include "serve/token_value.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "rules/cluster_key.h"
#include "wire/token_frames.h"

namespace flowguard::serve {
namespace {

using wire::token::ParamKind;

// All of the text is the number; nothing: it is not.
template <typename Number>
std::optional<Number> Parse(std::string_view text) noexcept {
  Number number{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last) return std::nullopt;
  return number;
}

// Big-endian.
template <typename Unsigned>
std::string Encoded(ParamKind kind, Unsigned payload) {
  std::string bytes(1, static_cast<char>(kind));
  for (size_t left = sizeof payload; left > 0; --left)
    bytes += static_cast<char>(payload >> (8 * (left - 1)));
  return bytes;
}

template <typename Integer>
std::optional<std::string> EncodeInteger(ParamKind kind, std::string_view text) {
  const auto number = Parse<Integer>(text);
  if (!number) return std::nullopt;
  return Encoded(kind, static_cast<std::make_unsigned_t<Integer>>(*number));
}

template <typename Bits, typename Real>
std::optional<std::string> EncodeReal(ParamKind kind, std::string_view text) {
  const auto number = Parse<Real>(text);
  if (!number) return std::nullopt;
  return Encoded(kind, std::bit_cast<Bits>(*number));
}

}  // namespace

std::optional<std::string> EncodeTokenValue(ValueType type, std::string_view text) {
  switch (type) {
    case ValueType::kInt:
      return EncodeInteger<int32_t>(ParamKind::kInt, text);
    case ValueType::kLong:
      return EncodeInteger<int64_t>(ParamKind::kLong, text);
    case ValueType::kByte:
      return EncodeInteger<int8_t>(ParamKind::kByte, text);
    case ValueType::kShort:
      return EncodeInteger<int16_t>(ParamKind::kShort, text);
    case ValueType::kDouble:
      return EncodeReal<uint64_t, double>(ParamKind::kDouble, text);
    case ValueType::kFloat:
      return EncodeReal<uint32_t, float>(ParamKind::kFloat, text);
    case ValueType::kBool:
      if (text != "true" && text != "false") return std::nullopt;
      return Encoded(ParamKind::kBool, static_cast<uint8_t>(text == "true" ? 1 : 0));
    case ValueType::kAny:
    case ValueType::kString:
      break;
  }
  std::string bytes;
  wire::token::AppendStringValue(text, bytes);
  return bytes;
}

std::vector<std::string> EncodeTokenValues(ValueType type, std::string_view text) {
  constexpr std::array kTypes = {ValueType::kInt,    ValueType::kLong,  ValueType::kByte,
                                 ValueType::kDouble, ValueType::kFloat, ValueType::kShort,
                                 ValueType::kBool,   ValueType::kString};
  std::vector<std::string> values;
  for (const ValueType one : kTypes) {
    if (type != one && type != ValueType::kAny) continue;
    if (type != one && rules::CanonicalText(one, text) != text) continue;
    if (auto value = EncodeTokenValue(one, text)) values.push_back(*std::move(value));
  }
  return values;
}

}  // namespace flowguard::serve
