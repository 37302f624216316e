// SPDX-License-Identifier: Apache-2.0
#include "dialects/fields.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace flowguard::dialects {

using text::Describe;
using text::Quote;

namespace {

// Capitals and the two dashes make no difference to what was meant.
std::string Folded(std::string_view word) {
  std::string folded(word);
  for (char& c : folded) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return folded;
}

}  // namespace

void Value::Fault(std::string_view message, size_t offset) const {
  text::Position at = node.at;
  if (offset > 0) at.column += static_cast<int>(offset) + (node.quoted ? 1 : 0);
  problems.Fault(at, std::string(field) + ": " + std::string(message));
}

std::string_view NearestWord(std::string_view word, std::span<const std::string_view> allowed) {
  if (word.empty() || word.size() > base::kEditWordBytesMax) return {};
  const std::string folded = Folded(word);
  std::string_view nearest;
  size_t least = std::min<size_t>(3, word.size() / 2 + 1);
  for (const std::string_view candidate : allowed) {
    if (candidate.size() > base::kEditWordBytesMax) continue;
    const size_t distance = base::EditDistance(folded, Folded(candidate));
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string UnknownWord(std::string_view what, std::string_view word,
                        std::span<const std::string_view> allowed) {
  std::string message = "unknown " + std::string(what) + " " + Quote(word) + "; ";
  const std::string_view nearest = NearestWord(word, allowed);
  if (!nearest.empty()) message += "did you mean " + Quote(nearest) + "? ";
  message += "allowed: ";
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (i > 0) message += ", ";
    message += allowed[i];
  }
  return message;
}

bool IsMap(const Value& value) {
  if (value.node.IsMap()) return true;
  value.Fault("found " + Describe(value.node) + "; a map is allowed");
  return false;
}

bool IsSequence(const Value& value) {
  if (value.node.IsSequence()) return true;
  value.Fault("found " + Describe(value.node) + "; a list is allowed");
  return false;
}

bool ReadString(const Value& value, std::string& out) {
  if (!value.node.IsScalar()) {
    value.Fault("found " + Describe(value.node) + "; one word or text is allowed");
    return false;
  }
  out = value.node.scalar;
  return true;
}

bool ReadBool(const Value& value, bool& out) {
  if (value.node.IsScalar() && (value.node.scalar == "true" || value.node.scalar == "false")) {
    out = value.node.scalar == "true";
    return true;
  }
  value.Fault("found " + Describe(value.node) + "; allowed: true, false");
  return false;
}

bool ReadInteger(const Value& value, CountBounds bounds, int64_t& out) {
  if (!value.node.IsScalar()) {
    value.Fault("found " + Describe(value.node) + "; a whole number is allowed");
    return false;
  }
  const Read<int64_t> count = ReadCount(value.node.scalar, bounds);
  if (!count.ok()) {
    value.Fault(count.fault().message);
    return false;
  }
  out = *count;
  return true;
}

bool ReadSmallInteger(const Value& value, CountBounds bounds, int& out) {
  int64_t wide = 0;
  if (!ReadInteger(value, bounds, wide)) return false;
  out = static_cast<int>(wide);
  return true;
}

bool ReadTime(const Value& value, DurationBounds bounds, Duration& out) {
  if (!value.node.IsScalar()) {
    value.Fault("found " + Describe(value.node) + "; a duration such as 300ms is allowed");
    return false;
  }
  const Read<Duration> duration = ReadDuration(value.node.scalar, bounds);
  if (!duration.ok()) {
    value.Fault(duration.fault().message, duration.fault().offset);
    return false;
  }
  out = *duration;
  return true;
}

bool ReadFraction(const Value& value, double& ratio) {
  if (!value.node.IsScalar()) {
    value.Fault("found " + Describe(value.node) + "; a part such as 0.5 or 50% is allowed");
    return false;
  }
  const Read<double> read = ReadRatio(value.node.scalar);
  if (!read.ok()) {
    value.Fault(read.fault().message, read.fault().offset);
    return false;
  }
  ratio = *read;
  return true;
}

bool ReadSize(const Value& value, CountBounds bounds, int64_t& bytes) {
  if (!value.node.IsScalar()) {
    value.Fault("found " + Describe(value.node) + "; a size such as 64MiB is allowed");
    return false;
  }
  const Read<int64_t> size = ReadBytes(value.node.scalar, bounds);
  if (!size.ok()) {
    value.Fault(size.fault().message, size.fault().offset);
    return false;
  }
  bytes = *size;
  return true;
}

bool ReadStrings(const Value& value, std::vector<std::string>& out) {
  std::vector<std::string> strings;
  if (value.node.IsScalar()) {
    strings.push_back(value.node.scalar);
  } else if (value.node.IsSequence()) {
    for (const text::Node& item : value.node.items) {
      std::string one;
      if (!ReadString(value.Part(value.field, item), one)) return false;
      strings.push_back(std::move(one));
    }
  } else {
    value.Fault("found " + Describe(value.node) + "; a list of words is allowed");
    return false;
  }
  out = std::move(strings);
  return true;
}

}  // namespace flowguard::dialects
