// SPDX-License-Identifier: Apache-2.0
#include "text/json_writer.h"

#include <charconv>

#include "text/utf8.h"

namespace flowguard::text {

namespace {

void AppendEscaped(std::string& out, char c) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '\\';
  switch (c) {
    case '"':
    case '\\':
      out += c;
      return;
    case '\n':
      out += 'n';
      return;
    case '\r':
      out += 'r';
      return;
    case '\t':
      out += 't';
      return;
    default:
      out += "u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 0xF];
  }
}

bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

}  // namespace

void AppendJsonString(std::string& out, std::string_view value) {
  out += '"';
  size_t at = 0;
  while (at < value.size()) {
    size_t end = at;
    while (end < value.size() && IsPlain(value[end]))
      ++end;
    out.append(value, at, end - at);
    at = end;
    if (at == value.size()) break;
    if (static_cast<unsigned char>(value[at]) < 0x80) {
      AppendEscaped(out, value[at++]);
      continue;
    }
    const size_t bytes = CharacterBytes(value, at);
    if (bytes == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
    } else {
      out.append(value, at, bytes);
      at += bytes;
    }
  }
  out += '"';
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  AppendJsonString(out_, key);
  out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  AppendJsonString(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return Plain({digits, static_cast<size_t>(end - digits)});
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return Plain({digits, static_cast<size_t>(end - digits)});
}

JsonWriter& JsonWriter::Number(std::string_view number) {
  return Plain(number);
}

JsonWriter& JsonWriter::Bool(bool value) {
  return Plain(value ? "true" : "false");
}

JsonWriter& JsonWriter::Null() {
  return Plain("null");
}

JsonWriter& JsonWriter::Begin(char bracket) {
  Separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::End(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Plain(std::string_view text) {
  Separate();
  out_ += text;
  return *this;
}

void JsonWriter::Separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

}  // namespace flowguard::text
