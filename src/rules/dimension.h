// SPDX-License-Identifier: Apache-2.0
//
// A dimension as the engine sees it: what one part of a key is, and where a
// request has it.
//
// A rule's `by` names dimensions in one of these forms:
//   ip, method                        what every front door knows
//   user, tenant, origin              given by the application, unless declared
//   NAME                              declared in RuleSet::dimensions
//   header:NAME cookie:NAME query:NAME   read from the request
//   path:NAME                         what {NAME} captured in the rule's own route
//   param:NAME                        given by the application as "param:NAME", or
//                                     else the query parameter NAME
// A declaration's source takes the same forms, save bare names other than ip and
// method; an empty source means: given by the application only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flowguard/rule.h"

namespace flowguard::rules {

// The numeric values are part of every key: never change one.
enum class DimensionKind : uint8_t {
  kNamed = 1,  // by the application only, under Dimension::name
  kIp = 2,
  kMethod = 3,
  kHeader = 4,
  kCookie = 5,
  kQuery = 6,
  kPath = 7,
  kParam = 8,
  kResource = 9,
};

struct Dimension {
  std::string name;  // as `by` has it, header names in lower case: "tenant", "header:x-id"
  DimensionKind kind = DimensionKind::kNamed;
  std::string argument;  // "x-tenant-id" of header:x-tenant-id; header names in lower case
  MissingPolicy missing = MissingPolicy::kShare;
  std::string missing_value;
  bool trim = false;
  bool lower = false;
  uint16_t index = 0;  // its place in RuleTable::dimensions(), dense from 0
};

// Normalise, where it changes something.
[[nodiscard]] std::string_view Rewritten(const Dimension& dimension, std::string_view raw,
                                         std::span<char> scratch) noexcept;

// `raw` without ASCII white space at its ends if the dimension trims, and in ASCII
// lower case if it lowers.  A value that is longer than `scratch` is not lowered
// here: KeyBuilder and ValueList fold it where they compare it.
//
// A missing value (raw.data() == nullptr) becomes the missing_value, if there is
// one, as if the client had sent it; else it stays missing.  Policies kSkip and
// kRefuse are the caller's: look at raw.data() before.
//
// Cost: no allocation; copies only to lower.
// Requires: `scratch` holds at least kKeyValueInlineMax bytes and outlives the result.
[[nodiscard]] inline std::string_view Normalise(const Dimension& dimension, std::string_view raw,
                                                std::span<char> scratch) noexcept {
  if (raw.data() != nullptr && !dimension.trim && !dimension.lower) [[likely]] {
    return raw;
  }
  return Rewritten(dimension, raw, scratch);
}

// Whether an application that gives a value as `given` means the source of
// `dimension`: "header:X-Tenant" (in any case), "cookie:session", "query:page", "ip".
// A parameter may be given as "param:sku" or "query:sku".
[[nodiscard]] bool NamesSource(const Dimension& dimension, std::string_view given) noexcept;

// ASCII only; other bytes stay as they are.
[[nodiscard]] char AsciiLower(char c) noexcept;

}  // namespace flowguard::rules
