// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/java_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace flowguard::dialects::sentinel {

using text::Describe;

namespace {

constexpr std::string_view kDigits = "0123456789";

// A decimal number in its parts.
struct Decimal {
  bool negative = false;
  std::string digits;   // of the whole part and the fraction, without zeros in front
  int64_t whole = 0;    // how many of the digits stand before the point; may be negative
  bool scaled = false;  // written with an exponent
};

std::string_view TakeDigits(std::string_view& text) {
  const std::string_view taken = text.substr(0, text.find_first_not_of(kDigits));
  text.remove_prefix(taken.size());
  return taken;
}

bool TakeSign(std::string_view& text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (negative || (!text.empty() && text.front() == '+')) text.remove_prefix(1);
  return negative;
}

// Beyond it a number is zero or does not fit, whatever its digits: no text is longer.
constexpr int64_t kExponentMax = int64_t{1} << 40;

std::optional<Decimal> ParseDecimal(std::string_view text) {
  Decimal decimal;
  decimal.negative = TakeSign(text);
  const std::string_view whole = TakeDigits(text);
  if (whole.empty()) return {};
  decimal.digits = std::string(whole);
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    decimal.digits += TakeDigits(text);
  }
  int64_t exponent = 0;
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    const bool negative = TakeSign(text);
    const std::string_view power = TakeDigits(text);
    if (power.empty()) return {};
    const auto read = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (read.ec != std::errc{} || exponent > kExponentMax) exponent = kExponentMax;
    if (negative) exponent = -exponent;
    decimal.scaled = true;
  }
  if (!text.empty()) return {};
  const size_t zeros = std::min(decimal.digits.find_first_not_of('0'), decimal.digits.size());
  decimal.digits.erase(0, zeros);
  decimal.whole = static_cast<int64_t>(whole.size()) - static_cast<int64_t>(zeros) + exponent;
  return decimal;
}

std::optional<int64_t> WholePartOf(const Decimal& decimal) {
  // Digits are added with their sign, so that the least number fits too.
  int64_t value = 0;
  if (decimal.digits.empty()) return value;
  for (int64_t i = 0; i < decimal.whole; ++i) {
    const auto at = static_cast<size_t>(i);
    const int digit = at < decimal.digits.size() ? decimal.digits[at] - '0' : 0;
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, decimal.negative ? -digit : digit, &value)) {
      return {};
    }
  }
  return value;
}

// Whether anything but zeros stands behind the point.
bool HasFraction(const Decimal& decimal) {
  const auto whole = static_cast<size_t>(std::max<int64_t>(decimal.whole, 0));
  return decimal.digits.find_first_not_of('0', whole) != std::string::npos;
}

// fastjson takes these texts for null where a number or boolean belongs.
bool IsNullText(const text::Node& node) {
  return node.IsNull() ||
         (node.quoted && (node.scalar.empty() || node.scalar == "null" || node.scalar == "NULL"));
}

// The text of a number: thousands may have commas within quotes, true is 1.
std::string NumberText(const text::Node& node) {
  if (!node.quoted && node.scalar == "true") return "1";
  if (!node.quoted && node.scalar == "false") return "0";
  std::string text = node.scalar;
  if (node.quoted) std::erase(text, ',');
  return text;
}

void WarnOfCommas(const Value& value, const std::string& number) {
  if (!value.node.quoted || value.node.scalar.find(',') == std::string::npos) return;
  value.problems.Warn(value.node.at, std::string(value.field) + ": " + Describe(value.node) +
                                         " is taken for " + number +
                                         "; commas are left out, as Sentinel does");
}

bool ReadWhole(const Value& value, int64_t min, int64_t max, int64_t& out) {
  const text::Node& node = value.node;
  const std::optional<Decimal> decimal =
      node.IsScalar() ? ParseDecimal(NumberText(node)) : std::nullopt;
  // Within quotes Java reads digits alone, or with a fraction of zeros.
  const bool java = decimal && (!node.quoted || (!decimal->scaled && !HasFraction(*decimal)));
  if (!java) {
    value.Fault("found " + Describe(node) + "; a whole number is allowed");
    return false;
  }
  const std::optional<int64_t> whole = WholePartOf(*decimal);
  if (!whole || *whole < min || *whole > max) {
    value.Fault("found " + Describe(node) + "; allowed: " + std::to_string(min) + " to " +
                std::to_string(max));
    return false;
  }
  WarnOfCommas(value, std::to_string(*whole));
  out = *whole;
  return true;
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool EqualsWord(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return Lower(a) == b; });
}

bool IsDash(char c) {
  return c == '_' || c == '-';
}

template <typename T>
bool ReadOptional(const Value& value, std::optional<T>& out) {
  if (IsNullText(value.node)) {
    out.reset();
    return true;
  }
  T read{};
  if (!ReadJava(value, read)) return false;
  out = read;
  return true;
}

}  // namespace

std::optional<int64_t> WholePart(std::string_view number) {
  const std::optional<Decimal> decimal = ParseDecimal(number);
  return decimal ? WholePartOf(*decimal) : std::nullopt;
}

std::optional<double> DoubleOf(std::string_view number) {
  if (!ParseDecimal(number)) return {};
  if (number.front() == '+') number.remove_prefix(1);
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  if (read.ec != std::errc{}) return {};
  return value;
}

bool ReadJava(const Value& value, int32_t& out) {
  if (IsNullText(value.node)) return true;
  int64_t whole = 0;
  if (!ReadWhole(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(),
                 whole)) {
    return false;
  }
  out = static_cast<int32_t>(whole);
  return true;
}

bool ReadJava(const Value& value, int64_t& out) {
  return IsNullText(value.node) || ReadWhole(value, std::numeric_limits<int64_t>::min(),
                                             std::numeric_limits<int64_t>::max(), out);
}

bool ReadJava(const Value& value, double& out) {
  const text::Node& node = value.node;
  if (IsNullText(node)) return true;
  std::string number = node.IsScalar() ? NumberText(node) : std::string();
  if (node.quoted) {
    const size_t begin = std::min(number.find_first_not_of(' '), number.size());
    number = number.substr(begin, number.find_last_not_of(' ') + 1 - begin);
  }
  if (!ParseDecimal(number)) {
    value.Fault("found " + Describe(node) + "; a number is allowed");
    return false;
  }
  const std::optional<double> read = DoubleOf(number);
  if (!read) {
    value.Fault("found " + Describe(node) + "; allowed: numbers from 1e-307 to 1e308, and 0");
    return false;
  }
  WarnOfCommas(value, JavaText(*read));
  out = *read;
  return true;
}

bool ReadJava(const Value& value, bool& out) {
  const text::Node& node = value.node;
  if (IsNullText(node)) return true;
  if (node.IsScalar()) {
    const std::string_view text = node.scalar;
    for (const std::string_view yes : {"true", "1", "y", "t"}) {
      if (EqualsWord(text, yes)) return out = true, true;
    }
    for (const std::string_view no : {"false", "0", "n", "f"}) {
      if (EqualsWord(text, no)) return out = false, true;
    }
    // Of numbers, 1 is true and all others are false.
    const std::optional<int64_t> whole = node.quoted ? std::nullopt : WholePart(text);
    if (whole) return out = *whole == 1, true;
  }
  value.Fault("found " + Describe(node) + "; allowed: true, false");
  return false;
}

bool ReadJava(const Value& value, std::string& out) {
  if (value.node.IsNull()) {
    out.clear();
    return true;
  }
  return ReadString(value, out);
}

bool ReadJava(const Value& value, std::optional<int32_t>& out) {
  return ReadOptional(value, out);
}

bool ReadJava(const Value& value, std::optional<int64_t>& out) {
  return ReadOptional(value, out);
}

bool ReadJava(const Value& value, std::optional<std::string>& out) {
  if (value.node.IsNull()) {
    out.reset();
    return true;
  }
  std::string read;
  if (!ReadString(value, read)) return false;
  out = std::move(read);
  return true;
}

std::string JavaText(double value) {
  char shortest[40];
  const auto end =
      std::to_chars(shortest, shortest + sizeof shortest, value, std::chars_format::scientific).ptr;
  std::string_view text(shortest, static_cast<size_t>(end - shortest));
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(1, text.front());
  if (e > 2) digits += text.substr(2, e - 2);
  const std::string_view power = text.substr(e + 1);
  int exponent = 0;
  std::from_chars(power.data() + (power.front() == '+' ? 1 : 0), power.data() + power.size(),
                  exponent);
  if (value == 0) return out + "0.0";
  constexpr int kPlainMin = -3;  // 0.001
  constexpr int kPlainMax = 6;   // 9999999.0
  const auto with_fraction = [](std::string_view whole, std::string_view fraction) {
    return std::string(whole) + "." + std::string(fraction.empty() ? "0" : fraction);
  };
  if (exponent < kPlainMin || exponent > kPlainMax) {
    const std::string_view shown = digits;
    return out + with_fraction(shown.substr(0, 1), shown.substr(1)) + "E" +
           std::to_string(exponent);
  }
  if (exponent < 0) {
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  const std::string_view shown = digits;
  return out + with_fraction(shown.substr(0, whole), shown.substr(whole));
}

bool IsBlank(std::string_view text) noexcept {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

std::string SmartName(std::string_view name) {
  std::string smart;
  for (const char c : name) {
    if (!IsDash(c)) smart += Lower(c);
  }
  return smart;
}

bool SameSmartName(std::string_view a, std::string_view b) noexcept {
  while (true) {
    while (!a.empty() && IsDash(a.front()))
      a.remove_prefix(1);
    while (!b.empty() && IsDash(b.front()))
      b.remove_prefix(1);
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    if (Lower(a.front()) != Lower(b.front())) return false;
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
}

}  // namespace flowguard::dialects::sentinel
