// SPDX-License-Identifier: Apache-2.0
//
// A value as text, for tests to compare.
#pragma once

#include <string>

#include "wire/resp.h"

namespace flowguard::wire::resp {

inline std::string ToText(const Value& value) {
  std::string text;
  switch (value.type) {
    case Value::Type::kNull:
      return "null";
    case Value::Type::kString:
      return "'" + std::string(value.text) + "'";
    case Value::Type::kError:
      return "error '" + std::string(value.text) + "'";
    case Value::Type::kInteger:
      return std::to_string(value.integer);
    case Value::Type::kDouble:
      return "double " + std::string(value.text);
    case Value::Type::kArray:
      text = "[";
      break;
    case Value::Type::kMap:
      text = "map[";
      break;
    case Value::Type::kPush:
      text = "push[";
      break;
  }
  for (const Value& item : value.items)
    text += (text.back() == '[' ? "" : " ") + ToText(item);
  return text + "]";
}

}  // namespace flowguard::wire::resp
