// SPDX-License-Identifier: Apache-2.0
#include "text/json_writer.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "text/json.h"

namespace flowguard::text {
namespace {

TEST(JsonWriterTest, PutsCommasBetweenMembersAndItems) {
  std::string out;
  JsonWriter json(out);

  json.BeginObject().Key("a").BeginArray().Int(1).Int(-2).BeginObject().EndObject().EndArray();
  json.Key("b").Bool(false).Key("c").Null().Key("d").String("x").EndObject();

  EXPECT_EQ(out, R"({"a":[1,-2,{}],"b":false,"c":null,"d":"x"})");
}

TEST(JsonWriterTest, WritesExtremeNumbers) {
  std::string out;

  JsonWriter(out).BeginArray().Int(INT64_MIN).Int(INT64_MAX).Uint(UINT64_MAX).EndArray();

  EXPECT_EQ(out, "[-9223372036854775808,9223372036854775807,18446744073709551615]");
}

TEST(JsonWriterTest, EscapesWhatAStringMayNotHold) {
  std::string out;

  AppendJsonString(out, std::string_view("\"\\\n\r\t\0\x1f", 7));

  EXPECT_EQ(out, R"("\"\\\n\r\t\u0000\u001f")");
}

// What a client sends as a key or path may be any bytes.
TEST(JsonWriterTest, ReplacesBytesThatAreNotUtf8) {
  std::string out;

  AppendJsonString(out,
                   "a\xFF\xC3\xA9\xED\xA0\x80"
                   "b\xC3");

  EXPECT_EQ(out,
            "\"a\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\"");
}

TEST(JsonWriterTest, EveryByteReadsBack) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string out;
    JsonWriter(out).BeginArray().String(std::string(1, static_cast<char>(byte))).EndArray();

    const auto root = ParseJson(out, "written");

    ASSERT_TRUE(root.ok()) << byte << ": " << root.error().message;
    const std::string expected =
        byte < 0x80 ? std::string(1, static_cast<char>(byte)) : "\xEF\xBF\xBD";
    EXPECT_EQ(root->items[0].scalar, expected) << byte;
  }
}

}  // namespace
}  // namespace flowguard::text
