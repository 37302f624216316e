// SPDX-License-Identifier: Apache-2.0
#include "text/lenient_json.h"

#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::text {
namespace {

std::string ErrorOf(std::string_view json) {
  const auto read = ReadLenientJson(json, "rules");
  return read.ok() ? "ok" : read.error().message;
}

// The tree on one line, as strict JSON with every scalar in quotes; or the error.
std::string Shown(const Node& node) {
  std::string shown;
  switch (node.kind) {
    case Kind::kNull:
      return "null";
    case Kind::kScalar:
      return node.quoted ? "'" + node.scalar + "'" : node.scalar;
    case Kind::kSequence:
      for (const Node& item : node.items)
        shown += (shown.empty() ? "" : ",") + Shown(item);
      return "[" + shown + "]";
    case Kind::kMap:
      for (const Member& member : node.members)
        shown += (shown.empty() ? "" : ",") + member.key + ":" + Shown(member.value);
      return "{" + shown + "}";
  }
  return shown;
}

std::string Read(std::string_view json) {
  const auto read = ReadLenientJson(json, "rules");
  return read.ok() ? Shown(read->root) : read.error().message;
}

TEST(LenientJsonTest, TakesWhatFastjsonTakesBeyondJson) {
  const struct {
    std::string_view json;
    std::string_view tree;
  } kCases[] = {
      {"['a', \"b\"]", "['a','b']"},
      {"{a: 1, $b_2: 'x', 'c': 2}", "{a:1,$b_2:'x',c:2}"},
      {"{1: 2}", "{1:2}"},
      {"[1,2,]", "[1,2]"},
      {"[,1,,2,,]", "[1,2]"},
      {"{,a:1,,b:2,}", "{a:1,b:2}"},
      {"/* one */[1, // two\n 2]// three", "[1,2]"},
      {"[1/**/,/***/2]", "[1,2]"},
      {"['it''s']", "rules:1:6: not JSON: found \"'\"; a comma or ] is allowed"},
      {"['it\\'s', \"a'b\", 'a\"b']", "['it's','a'b','a\"b']"},
      {"['a\nb\tc']", "['a\nb\tc']"},
      {"['\\x41\\101']",
       "['A\x01"
       "01']"},
      {"[+5, 007, 5., 10L, 1.5F, 1.5D, 1e3, -0]", "[+5,007,5.,10,1.5,1.5,1e3,-0]"},
      {"\xEF\xBB\xBF[]", "[]"},
  };
  for (const auto& one : kCases)
    EXPECT_EQ(Read(one.json), one.tree) << one.json;
}

TEST(LenientJsonTest, NoTextIsNull) {
  EXPECT_EQ(Read(""), "null");
  EXPECT_EQ(Read(" \n\t"), "null");
  EXPECT_EQ(Read("// nothing\n/* at all */"), "null");
  EXPECT_EQ(Read("null"), "null");
}

TEST(LenientJsonTest, GivesPlacesAlsoBehindCommentsAndLineEndsInQuotes) {
  const auto read = ReadLenientJson("/* x\n */ {a: 'p\nq', b: [1,\n  2]}", "rules");

  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->root.at, (Position{2, 5}));
  EXPECT_EQ(read->root.members[0].key_at, (Position{2, 6}));
  EXPECT_EQ(read->root.members[0].value.at, (Position{2, 9}));
  EXPECT_EQ(read->root.members[1].key_at, (Position{3, 5}));
  EXPECT_EQ(read->root.members[1].value.items[1].at, (Position{4, 3}));
}

TEST(LenientJsonTest, TheLastOfDuplicateKeysCountsAndTheOthersAreTold) {
  const auto read = ReadLenientJson("{\"a\": 1, \"b\": 2,\n a: 3, 'a': 4}", "rules");

  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(Shown(read->root), "{b:2,a:4}");
  ASSERT_EQ(read->duplicates.size(), 2u);
  EXPECT_EQ(read->duplicates[0].message, "duplicate key \"a\"; the last one counts, at 2:8");
  EXPECT_EQ(read->duplicates[0].at, (Position{2, 2}));
  EXPECT_EQ(read->duplicates[1].at, (Position{1, 2}));
}

TEST(LenientJsonTest, ToldDuplicatesAreBounded) {
  std::string json = "{";
  for (size_t i = 0; i < 3 * base::kTextFaultsMax; ++i)
    json += "a:1,";
  const auto read = ReadLenientJson(json + "}", "rules");

  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->duplicates.size(), base::kTextFaultsMax);
  EXPECT_EQ(read->root.members.size(), 1u);
}

TEST(LenientJsonTest, NumbersKeepTheirDigits) {
  EXPECT_EQ(Read("[98765432198765432198765, -9223372036854775809, 1.50, 1e999999]"),
            "[98765432198765432198765,-9223372036854775809,1.50,1e999999]");
}

TEST(LenientJsonTest, CharactersBeyondAsciiAreKeptOrDecoded) {
  EXPECT_EQ(Read("['\\u00e9\\ud83d\\ude00 \xC3\xA9']"), "['\xC3\xA9\xF0\x9F\x98\x80 \xC3\xA9']");
  EXPECT_EQ(Read("{\xC3\xA9: 1}"), "{\xC3\xA9:1}");
}

TEST(LenientJsonTest, FaultSaysWhereAndWhat) {
  const struct {
    std::string_view json;
    std::string_view error;
  } kCases[] = {
      {"[1", "rules:1:3: not JSON: the text ends here; a comma or ] is allowed"},
      {"[1] 2", "rules:1:5: not JSON: text after the end of the document"},
      {"[1 2]", "rules:1:4: not JSON: found \"2\"; a comma or ] is allowed"},
      {"{\"a\"\n 1}", "rules:2:2: not JSON: found \"1\"; a : is allowed after the key"},
      {"{a:}", "rules:1:4: not JSON: found \"}\"; a value is allowed"},
      {"{[1]}", "rules:1:2: not JSON: found \"[\"; a key or } is allowed"},
      {"{a-b: 1}", "rules:1:3: not JSON: found \"-\"; a : is allowed after the key"},
      {"[abc]",
       "rules:1:2: not JSON: found \"abc\"; allowed: true, false, null, numbers, text in quotes"},
      {"['a]", "rules:1:2: not JSON: the text in quotes has no end"},
      {"[1 /* x]", "rules:1:4: not JSON: the comment has no end"},
      {"[1 / 2]", "rules:1:4: not JSON: a / that begins no comment"},
      {"[1.2.3]", "rules:1:2: not JSON: \"1.2\" is not a number"},
      {"[-]", "rules:1:2: not JSON: \"-\" is not a number"},
      {"[1e]", "rules:1:2: not JSON: \"1e\" is not a number"},
      {"[12ab]", "rules:1:2: not JSON: \"12ab\" is not a number"},
      {"['\\q']", "rules:1:3: not JSON: an escape that is not known"},
      {"['\\", "rules:1:3: not JSON: an escape that is not known"},
      {"['\\u12']", "rules:1:3: not JSON: \\u needs four hexadecimal digits"},
      {"['\\u12", "rules:1:3: not JSON: \\u needs four hexadecimal digits"},
      {"['\\xg']", "rules:1:3: not JSON: \\x needs two hexadecimal digits"},
      {"['\\ud83d']", "rules:1:3: not JSON: half of a character (a surrogate without its other)"},
      {"['\\ude00']", "rules:1:3: not JSON: half of a character (a surrogate without its other)"},
      {"['\xFF']",
       "rules:1:3: a byte that is no text (a control character, or not UTF-8); save the file as "
       "UTF-8"},
  };
  for (const auto& one : kCases)
    EXPECT_EQ(ErrorOf(one.json), one.error) << one.json;
}

TEST(LenientJsonTest, DepthIsBounded) {
  const std::string deepest(base::kTextDepthMax, '[');
  const std::string closing(base::kTextDepthMax, ']');

  EXPECT_EQ(ErrorOf(deepest + closing), "ok");
  EXPECT_EQ(ErrorOf("[" + deepest + closing + "]"),
            "rules:1:65: objects and arrays within each other; at most 64 are allowed");
  EXPECT_NE(ErrorOf(std::string(1'000'000, '[')), "ok");
}

TEST(LenientJsonTest, EveryPrefixOfADocumentEndsWithATreeOrAnErrorWithAPlace) {
  const std::string json =
      "/* c */ [{'a': 1.5e3, \"b\\u00e9\": [true, null, 'x\\n'], c: {d: -2,},}, // e\n 3,]";
  ASSERT_TRUE(ReadLenientJson(json, "rules").ok());
  for (size_t size = 0; size <= json.size(); ++size) {
    const auto read = ReadLenientJson(std::string_view(json).substr(0, size), "rules");
    if (!read.ok()) {
      EXPECT_EQ(read.error().message.substr(0, 6), "rules:");
    }
  }
}

}  // namespace
}  // namespace flowguard::text
