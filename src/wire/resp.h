// SPDX-License-Identifier: Apache-2.0
//
// The Redis serialization protocol, versions 2 and 3: replies as values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace flowguard::wire::resp {

// One reply, or a part of one.  Views the bytes that it was read from, and the items
// belong to the reader.
struct Value {
  enum class Type : uint8_t {
    kNull,
    kString,   // simple, bulk, verbatim (without its format) and big numbers
    kError,    // simple and bulk
    kInteger,  // and booleans, as 0 and 1
    kDouble,   // `text` as it was sent
    kArray,    // and sets
    kMap,      // keys and values in turn
    kPush,     // out of band
  };
  Type type = Type::kNull;
  std::string_view text;
  int64_t integer = 0;
  std::span<const Value> items;
};

}  // namespace flowguard::wire::resp
