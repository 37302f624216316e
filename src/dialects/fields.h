// SPDX-License-Identifier: Apache-2.0
//
// Maps with known fields, read by a table: name -> what to do with the value.  An
// unknown field, a value of the wrong kind or out of range is noted with its place,
// what was found and what is allowed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/problems.h"
#include "dialects/quantities.h"
#include "text/node.h"

namespace flowguard::dialects {

// One field as it stands in the file.
struct Value {
  std::string_view field;
  const text::Node& node;
  Problems& problems;

  // Notes `limit: MESSAGE` at the value, or `offset` bytes into it.
  void Fault(std::string_view message, size_t offset = 0) const;
  // The same value under another name, or a part of it.
  [[nodiscard]] Value Part(std::string_view name, const text::Node& part) const {
    return {name, part, problems};
  }
};

enum class Told : uint8_t { kYes, kNo };

// A field of a map that is read into a T.  Fields that are known only to say what is
// wrong with them are not told among the allowed ones.
template <typename T>
struct Field {
  std::string_view name;
  void (*read)(const Value&, T&);
  Told told = Told::kYes;
};

// The word that was probably meant, or none.
[[nodiscard]] std::string_view NearestWord(std::string_view word,
                                           std::span<const std::string_view> allowed);

// `unknown field "algoritm"; did you mean "algorithm"? allowed: name, ...`
[[nodiscard]] std::string UnknownWord(std::string_view what, std::string_view word,
                                      std::span<const std::string_view> allowed);

// False, noted, when the value is no map (no list).
bool IsMap(const Value& value);
bool IsSequence(const Value& value);

// Reads each member of a map by its table; false when the value is no map.
template <typename T, size_t kCount>
bool ReadMap(const Value& value, const Field<T> (&fields)[kCount], T& out) {
  if (!IsMap(value)) return false;
  for (const text::Member& member : value.node.members) {
    const Field<T>* field = nullptr;
    for (const Field<T>& candidate : fields) {
      if (candidate.name == member.key) field = &candidate;
    }
    if (field != nullptr) {
      field->read({field->name, member.value, value.problems}, out);
      continue;
    }
    std::vector<std::string_view> allowed;
    for (const Field<T>& candidate : fields) {
      if (candidate.told == Told::kYes) allowed.push_back(candidate.name);
    }
    value.problems.Fault(member.key_at, UnknownWord("field", member.key, allowed));
  }
  return true;
}

// Each reads the value into `out`, or notes why it cannot and leaves `out` alone.
bool ReadString(const Value& value, std::string& out);
bool ReadBool(const Value& value, bool& out);
bool ReadInteger(const Value& value, CountBounds bounds, int64_t& out);
bool ReadSmallInteger(const Value& value, CountBounds bounds, int& out);
bool ReadTime(const Value& value, DurationBounds bounds, Duration& out);
bool ReadFraction(const Value& value, double& ratio);
bool ReadSize(const Value& value, CountBounds bounds, int64_t& bytes);
// One string, or a list of strings.
bool ReadStrings(const Value& value, std::vector<std::string>& out);

// A word of a closed set.
template <typename E>
struct Word {
  std::string_view word;
  E value;
};

template <typename E, size_t kCount>
bool ReadWord(const Value& value, const Word<E> (&words)[kCount], E& out) {
  std::string found;
  if (!ReadString(value, found)) return false;
  std::vector<std::string_view> allowed;
  for (const Word<E>& word : words) {
    if (word.word == found) {
      out = word.value;
      return true;
    }
    allowed.push_back(word.word);
  }
  value.Fault(UnknownWord("value", found, allowed));
  return false;
}

template <typename E, size_t kCount>
[[nodiscard]] std::string_view WordOf(const Word<E> (&words)[kCount], E value) {
  for (const Word<E>& word : words) {
    if (word.value == value) return word.word;
  }
  return {};
}

}  // namespace flowguard::dialects
