// SPDX-License-Identifier: Apache-2.0
//
// JSON values as fastjson 1.2 puts them into the fields of Java objects: null leaves a
// number or boolean as it is, text is taken for a number, a fraction is cut off for a
// whole number.  What fastjson refuses is refused, and so is what it would change
// silently: a number that does not fit (it takes the low bits), NaN, a list for a text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dialects/fields.h"

namespace flowguard::dialects::sentinel {

// Each reads the value into `out` and returns true, or notes a fault, returns false and
// leaves `out` alone.
bool ReadJava(const Value& value, int32_t& out);
bool ReadJava(const Value& value, int64_t& out);
bool ReadJava(const Value& value, double& out);
bool ReadJava(const Value& value, bool& out);
// null: empty.
bool ReadJava(const Value& value, std::string& out);
// null, and for numbers "" and "null": nothing.
bool ReadJava(const Value& value, std::optional<int32_t>& out);
bool ReadJava(const Value& value, std::optional<int64_t>& out);
bool ReadJava(const Value& value, std::optional<std::string>& out);

// Decimal text with a point and an exponent, the whole of it; the fraction is cut off.
// Nothing where it is no number, or does not fit.
[[nodiscard]] std::optional<int64_t> WholePart(std::string_view number);
// Nothing where it is no number, or beyond what a double holds.
[[nodiscard]] std::optional<double> DoubleOf(std::string_view number);

// As Java writes a double: always with a point, 1.0E7 from ten million on and 1.0E-4
// below a thousandth; as many digits as it takes to read the same value.
// Requires: the value is finite.
[[nodiscard]] std::string JavaText(double value);

// Whether text has nothing but spaces and the like.
[[nodiscard]] bool IsBlank(std::string_view text) noexcept;

// A name as fastjson compares it: small letters, without '_' and '-'.
[[nodiscard]] std::string SmartName(std::string_view name);
// SmartName(a) == SmartName(b), without making either.
[[nodiscard]] bool SameSmartName(std::string_view a, std::string_view b) noexcept;

}  // namespace flowguard::dialects::sentinel
