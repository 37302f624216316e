// SPDX-License-Identifier: Apache-2.0
//
// The value of a hot parameter that an exception of a param-flow rule is for.  It has a
// Java type, and only an argument of that type is equal to it: Integer 7 is neither
// Long 7 nor "7".
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "dialects/quantities.h"
#include "dialects/sentinel/rules.h"

namespace flowguard::dialects::sentinel {

// A UTF-16 code unit, as Java's char.
struct JavaChar {
  char16_t unit = 0;

  bool operator==(const JavaChar&) const = default;
};

using ParamValue =
    std::variant<std::string, bool, int8_t, int16_t, int32_t, int64_t, float, double, JavaChar>;

// The object of an item as its classType says; a class that is not known, or none: the
// text itself.
// Errors: why the text is no value of its class; Sentinel skips such an item.
[[nodiscard]] Read<ParamValue> ValueOf(const ParamFlowItem& item);

}  // namespace flowguard::dialects::sentinel
