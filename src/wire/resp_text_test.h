// SPDX-License-Identifier: Apache-2.0
//
// A value as text, and words as they were before they were encoded, for tests to compare.
#pragma once

#include <string>
#include <vector>

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

inline std::vector<std::string> WordsOf(const EncodedWords& words) {
  const std::string command = "*" + std::to_string(words.count) + "\r\n" + std::string(words.bytes);
  std::vector<std::string> decoded;
  Reader reader;
  if (reader.Read(command) != Reader::Status::kDone || reader.consumed() != command.size())
    return {"not so many words as are said to be encoded"};
  for (const Value& word : reader.value().items)
    decoded.emplace_back(word.text);
  return decoded;
}

}  // namespace flowguard::wire::resp
