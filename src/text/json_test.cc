// SPDX-License-Identifier: Apache-2.0
#include "text/json.h"

#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::text {
namespace {

std::string ErrorOf(std::string_view json) {
  const auto parsed = ParseJson(json, "body");
  return parsed.ok() ? "ok" : parsed.error().message;
}

TEST(JsonTest, GivesKindsTextsAndPlaces) {
  const auto root =
      ParseJson("{\"a\": 1,\n \"b\\\"\": [true, \"x\\n\\u00e9\", null],\n \"c\": {}}", "body");

  ASSERT_TRUE(root.ok()) << root.error().message;
  EXPECT_EQ(root->Find("a")->scalar, "1");
  EXPECT_EQ(root->Find("a")->at, (Position{1, 7}));
  EXPECT_FALSE(root->Find("a")->quoted);
  EXPECT_EQ(root->members[1].key, "b\"");
  EXPECT_EQ(root->members[1].key_at, (Position{2, 2}));
  const Node& list = root->members[1].value;
  EXPECT_EQ(list.at, (Position{2, 9}));
  EXPECT_EQ(list.items[0].scalar, "true");
  EXPECT_EQ(list.items[1].scalar, "x\n\xC3\xA9");
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(list.items[1].at, (Position{2, 16}));
  EXPECT_TRUE(list.items[2].IsNull());
  EXPECT_EQ(root->Find("c")->at, (Position{3, 7}));
}

// 2^63 and more must reach the reader's range check unrounded.
TEST(JsonTest, NumbersKeepTheirDigits) {
  const auto root =
      ParseJson("[98765432198765432198765, -9223372036854775809, 1.50, 4294967301]", "body");

  ASSERT_TRUE(root.ok()) << root.error().message;
  EXPECT_EQ(root->items[0].scalar, "98765432198765432198765");
  EXPECT_EQ(root->items[1].scalar, "-9223372036854775809");
  EXPECT_EQ(root->items[2].scalar, "1.50");
  EXPECT_EQ(root->items[3].scalar, "4294967301");
}

TEST(JsonTest, SyntaxErrorSaysWhere) {
  EXPECT_EQ(ErrorOf("{\"a\":\n  x}").substr(0, 18), "body:2:3: not JSON");
  EXPECT_EQ(ErrorOf("{\"a\": 1").substr(0, 5), "body:");
  EXPECT_EQ(ErrorOf("[1] 2").substr(0, 8), "body:1:5");
}

TEST(JsonTest, EmptyTextIsAnError) {
  EXPECT_EQ(ErrorOf(""), "body:1:1: the text is empty");
  EXPECT_EQ(ErrorOf(" \n"), "body:1:1: the text is empty");
}

TEST(JsonTest, DuplicateKeyIsAnError) {
  EXPECT_EQ(ErrorOf("{\"a\": 1, \"a\": 2}"),
            "body:1:10: duplicate key \"a\"; it is at 1:2 already");
}

TEST(JsonTest, DepthIsBounded) {
  const std::string deepest(base::kTextDepthMax, '[');
  const std::string closing(base::kTextDepthMax, ']');

  EXPECT_EQ(ErrorOf(deepest + closing), "ok");
  EXPECT_EQ(ErrorOf("[" + deepest + closing + "]"),
            "body:1:65: objects and arrays within each other; at most 64 are allowed");
  EXPECT_NE(ErrorOf(std::string(1'000'000, '[')), "ok");
}

TEST(JsonTest, TextThatIsNotUtf8IsRefused) {
  EXPECT_NE(ErrorOf("\"\xFF\""), "ok");
}

TEST(JsonTest, NothingHidesBehindANulByte) {
  EXPECT_EQ(ErrorOf({"[1]\n\0{\xFF", 7}), "body:2:1: not JSON: a NUL byte");
  EXPECT_EQ(ErrorOf({"[1]\0", 4}), "body:1:4: not JSON: a NUL byte");
  EXPECT_EQ(ErrorOf("[\"\\u0000\"]"), "ok");
}

TEST(JsonTest, OneByteOrderMarkIsSkippedASecondRefused) {
  EXPECT_TRUE(ParseJson("\xEF\xBB\xBF"
                        "9",
                        "f")
                  .ok());
  EXPECT_EQ(ErrorOf("\xEF\xBB\xBF\xEF\xBB\xBF"
                    "9"),
            "body:1:1: not JSON: a second byte order mark");
}

TEST(JsonTest, NumberOutOfEveryRangeIsAnErrorNotACrash) {
  EXPECT_EQ(ErrorOf("[1e999999]").substr(0, 5), "body:");
}

}  // namespace
}  // namespace flowguard::text
