// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON by appending to a string: no tree is built first.
//
//   std::string out;
//   JsonWriter json(out);
//   json.BeginObject().Key("code").Int(429).Key("success").Bool(false).EndObject();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flowguard::text {

// Appends `value` in quotes, escaped.  Bytes that are not UTF-8 become U+FFFD, so
// what a client sent can never make the document invalid.
void AppendJsonString(std::string& out, std::string_view value);

// Puts the commas.  That Begin and End pair up, and that keys and values alternate
// within an object, is the caller's part.
//
// Memory:  appends to `out`, which must outlive the writer; nothing else.
// Threads: one owner.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) noexcept : out_(out) {}

  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginArray() { return Begin('['); }
  JsonWriter& EndArray() { return End(']'); }

  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  // Text that is a number in JSON already.
  JsonWriter& Number(std::string_view number);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

 private:
  JsonWriter& Begin(char bracket);
  JsonWriter& End(char bracket);
  JsonWriter& Plain(std::string_view text);
  void Separate();

  std::string& out_;
  bool comma_ = false;  // the next key or value needs a comma before it
};

}  // namespace flowguard::text
