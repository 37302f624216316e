// SPDX-License-Identifier: Apache-2.0
#include "http/fields.h"

#include <algorithm>
#include <cstring>

#include "http/percent.h"

namespace flowguard::http {
namespace {

// Takes the first byte of `encoded`, which is not empty, with %XX and '+' decoded.
char TakeDecoded(std::string_view& encoded) noexcept {
  const int byte = EscapedByte(encoded);
  const char raw = encoded.front();
  encoded.remove_prefix(byte >= 0 ? 3 : 1);
  if (byte >= 0) return static_cast<char>(byte);
  return raw == '+' ? ' ' : raw;
}

// True when `encoded`, decoded, equals `plain`.
bool DecodesTo(std::string_view encoded, std::string_view plain) noexcept {
  for (const char wanted : plain)
    if (encoded.empty() || TakeDecoded(encoded) != wanted) return false;
  return encoded.empty();
}

bool DecodeToTheSame(std::string_view a, std::string_view b) noexcept {
  if (a == b) return true;
  while (!a.empty() && !b.empty())
    if (TakeDecoded(a) != TakeDecoded(b)) return false;
  return a.empty() && b.empty();
}

FieldValue Decode(std::string_view encoded, std::span<char> scratch) noexcept {
  if (encoded.find_first_of("%+") == std::string_view::npos) return {FieldStatus::kFound, encoded};
  size_t written = 0;
  while (!encoded.empty()) {
    if (written == scratch.size()) return {FieldStatus::kTooLong, {}};
    scratch[written++] = TakeDecoded(encoded);
  }
  return {FieldStatus::kFound, {scratch.data(), written}};
}

std::string_view TrimBlanks(std::string_view text) noexcept {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string_view WithoutQuotes(std::string_view text) noexcept {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

bool Matches(const wire::Header& line, std::string_view lower_name) noexcept {
  return wire::EqualsIgnoreCase(line.name, lower_name);
}

// Joins the value found so far with another one, in the scratch space.
FieldValue Append(std::string_view so_far, std::string_view more,
                  std::span<char> scratch) noexcept {
  const size_t size = so_far.size() + 2 + more.size();
  if (size > scratch.size()) return {FieldStatus::kTooLong, {}};
  char* to = scratch.data();
  if (so_far.data() != to && !so_far.empty()) std::memcpy(to, so_far.data(), so_far.size());
  to += so_far.size();
  *to++ = ',';
  *to++ = ' ';
  if (!more.empty()) std::memcpy(to, more.data(), more.size());
  return {FieldStatus::kFound, {scratch.data(), size}};
}

}  // namespace

FieldValue FindHeader(const wire::HeaderList& headers, std::string_view lower_name,
                      RepeatedLines repeated, std::span<char> scratch) noexcept {
  FieldValue found;
  for (const wire::Header& line : headers.all()) {
    if (!Matches(line, lower_name)) continue;
    if (found.status == FieldStatus::kAbsent) {
      found = {FieldStatus::kFound, line.value};
      if (repeated == RepeatedLines::kFirst) return found;
    } else if (repeated == RepeatedLines::kJoin) {
      found = Append(found.value, line.value, scratch);
      if (found.status != FieldStatus::kFound) return found;
    } else if (line.value != found.value) {
      return {FieldStatus::kAmbiguous, {}};
    }
  }
  return found;
}

FieldValue FindCookie(const wire::HeaderList& headers, std::string_view name) noexcept {
  FieldValue found;
  if (!headers.Has(wire::KnownHeader::kCookie)) return found;
  for (const wire::Header& line : headers.all()) {
    if (line.known != wire::KnownHeader::kCookie) continue;
    std::string_view rest = line.value;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      const std::string_view pair = TrimBlanks(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const size_t equals = pair.find('=');
      if (equals == std::string_view::npos) continue;
      if (TrimBlanks(pair.substr(0, equals)) != name) continue;
      const std::string_view value = WithoutQuotes(TrimBlanks(pair.substr(equals + 1)));
      if (found.status == FieldStatus::kFound && value != found.value)
        return {FieldStatus::kAmbiguous, {}};
      found = {FieldStatus::kFound, value};
    }
  }
  return found;
}

FieldValue FindQueryParameter(std::string_view query, std::string_view name,
                              std::span<char> scratch) noexcept {
  FieldValue found;  // as it came
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.empty() || !DecodesTo(pair.substr(0, equals), name)) continue;
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    if (found.status == FieldStatus::kFound && !DecodeToTheSame(value, found.value))
      return {FieldStatus::kAmbiguous, {}};
    found = {FieldStatus::kFound, value};
  }
  return found.status == FieldStatus::kFound ? Decode(found.value, scratch) : found;
}

}  // namespace flowguard::http
