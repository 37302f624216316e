// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/param_value.h"

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "dialects/sentinel/java_values.h"
#include "text/utf8.h"

namespace flowguard::dialects::sentinel {

namespace {

using text::Quote;

TextFault Refused(std::string_view text, std::string_view class_type, std::string_view allowed) {
  return {0, "found " + Quote(text) + " of class " + std::string(class_type) +
                 "; allowed: " + std::string(allowed)};
}

template <typename Int>
Read<ParamValue> Whole(std::string_view text, std::string_view class_type) {
  constexpr Int kMin = std::numeric_limits<Int>::min();
  constexpr Int kMax = std::numeric_limits<Int>::max();
  std::string_view digits = text;
  if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
  Int value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool two_signs = digits.size() < text.size() && !digits.empty() && digits.front() == '-';
  if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size() || two_signs) {
    return Refused(text, class_type, std::to_string(kMin) + " to " + std::to_string(kMax));
  }
  return ParamValue(value);
}

template <typename Float>
Read<ParamValue> Fraction(std::string_view text, std::string_view class_type) {
  const std::optional<double> value = DoubleOf(text);
  if (!value || *value > std::numeric_limits<Float>::max() ||
      *value < std::numeric_limits<Float>::lowest()) {
    return Refused(text, class_type, "a number such as 1.5");
  }
  return ParamValue(static_cast<Float>(*value));
}

bool IsTrue(std::string_view text) {
  return SmartName(text) == "true" && text.size() == 4;
}

// The first UTF-16 unit of the text.
Read<ParamValue> FirstUnit(std::string_view text, std::string_view class_type) {
  if (text.empty()) return Refused(text, class_type, "a character");
  const size_t bytes = text::CharacterBytes(text, 0);
  constexpr uint32_t kLeadMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t point = static_cast<unsigned char>(text[0]) & kLeadMask[bytes];
  for (size_t i = 1; i < bytes; ++i)
    point = (point << 6) | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  if (point >= 0x10000) point = 0xD800 + ((point - 0x10000) >> 10);
  return ParamValue(JavaChar{static_cast<char16_t>(point)});
}

}  // namespace

Read<ParamValue> ValueOf(const ParamFlowItem& item) {
  if (!item.object) return TextFault{0, "no object; a text is needed"};
  const std::string_view text = *item.object;
  const std::string_view type = item.class_type;
  const auto is = [type](std::string_view primitive, std::string_view boxed) {
    return type == primitive || type == boxed;
  };
  if (is("int", "java.lang.Integer")) return Whole<int32_t>(text, type);
  if (is("long", "java.lang.Long")) return Whole<int64_t>(text, type);
  if (is("short", "java.lang.Short")) return Whole<int16_t>(text, type);
  if (is("byte", "java.lang.Byte")) return Whole<int8_t>(text, type);
  if (is("double", "java.lang.Double")) return Fraction<double>(text, type);
  if (is("float", "java.lang.Float")) return Fraction<float>(text, type);
  if (is("boolean", "java.lang.Boolean")) return ParamValue(IsTrue(text));
  if (type == "char") return FirstUnit(text, type);
  return ParamValue(*item.object);
}

}  // namespace flowguard::dialects::sentinel
