// SPDX-License-Identifier: Apache-2.0
#include "text/yaml.h"

#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::text {
namespace {

std::string ErrorOf(std::string_view yaml) {
  const auto parsed = ParseYaml(yaml, "f.yaml");
  return parsed.ok() ? "ok" : parsed.error().message;
}

TEST(YamlTest, GivesKindsTextsAndPlaces) {
  const auto root = ParseYaml("a: 1\nb:\n  - x\n  - \"5\"\nc: {d: ~}\n", "f.yaml");

  ASSERT_TRUE(root.ok()) << root.error().message;
  ASSERT_TRUE(root->IsMap());
  EXPECT_EQ(root->Find("a")->scalar, "1");
  EXPECT_EQ(root->Find("a")->at, (Position{1, 4}));
  EXPECT_FALSE(root->Find("a")->quoted);
  const Node& list = *root->Find("b");
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[1].scalar, "5");
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(list.items[1].at, (Position{4, 5}));
  EXPECT_EQ(root->members[2].key_at, (Position{5, 1}));
  EXPECT_TRUE(root->Find("c")->Find("d")->IsNull());
  EXPECT_EQ(root->Find("absent"), nullptr);
}

TEST(YamlTest, ValueThatIsNotThereStandsAtItsKey) {
  const auto root = ParseYaml("a:\nb: 1\n", "f.yaml");

  ASSERT_TRUE(root.ok());
  EXPECT_TRUE(root->Find("a")->IsNull());
  EXPECT_EQ(root->Find("a")->at, (Position{1, 1}));
}

TEST(YamlTest, QuotedNullIsText) {
  const auto root = ParseYaml("a: \"null\"\nb: null\n", "f.yaml");

  ASSERT_TRUE(root.ok());
  EXPECT_TRUE(root->Find("a")->IsScalar());
  EXPECT_TRUE(root->Find("b")->IsNull());
}

// An empty or cut-off file must not pass for a file that says "nothing".
TEST(YamlTest, EmptyTextIsAnError) {
  EXPECT_EQ(ErrorOf(""), "f.yaml:1:1: the file is empty");
  EXPECT_EQ(ErrorOf("# only a comment\n"), "f.yaml:1:1: the file is empty");
  EXPECT_EQ(ErrorOf("\xEF\xBB\xBF"), "f.yaml:1:1: the file is empty");
}

TEST(YamlTest, EveryDuplicateKeyIsToldWithBothPlaces) {
  EXPECT_EQ(ErrorOf("a: 1\nb: {c: 1, c: 2}\na: 3\n"),
            "f.yaml:2:11: duplicate key \"c\"; it is at 2:5 already\n"
            "f.yaml:3:1: duplicate key \"a\"; it is at 1:1 already");
}

TEST(YamlTest, DuplicateKeyLeavesTheRestOfTheTreeReadable) {
  const auto document = ReadYaml("a: 1\na: 2\nb: 3\n", "f.yaml");

  ASSERT_TRUE(document.ok());
  ASSERT_EQ(document->faults.size(), 1u);
  ASSERT_EQ(document->root.members.size(), 2u);
  EXPECT_EQ(document->root.Find("a")->scalar, "1");
  EXPECT_EQ(document->root.Find("b")->scalar, "3");
}

// An alias bomb grows as the product of its levels; here it cannot be written down.
TEST(YamlTest, AnchorsAndAliasesAreRefused) {
  const std::string error = ErrorOf("a: &x [1, 2]\nb: [*x, *x]\n");

  EXPECT_EQ(error,
            "f.yaml:1:4: the anchor &x is not supported; write the value out where it is meant, "
            "or quote a value that begins with &\n"
            "f.yaml:2:5: aliases (*name) are not supported; write the value out, or quote a value "
            "that begins with *\n"
            "f.yaml:2:9: aliases (*name) are not supported; write the value out, or quote a value "
            "that begins with *");
}

TEST(YamlTest, BareStarIsExplained) {
  EXPECT_EQ(ErrorOf("a: *\n"),
            "f.yaml:1:5: not YAML: alias not found after *; quote a value that begins with * or &");
}

TEST(YamlTest, TagsAreRefused) {
  EXPECT_EQ(ErrorOf("a: !!int 5\n"),
            "f.yaml:1:4: the tag \"tag:yaml.org,2002:int\" is not supported; write a plain value");
  EXPECT_EQ(ErrorOf("a: !!str 5\n"), "ok");
}

TEST(YamlTest, SecondDocumentIsAnError) {
  EXPECT_EQ(ErrorOf("a: 1\n---\nb: 2\n"),
            "f.yaml:3:1: text after the end of the document; one document is allowed (check the "
            "indentation of this line)");
  EXPECT_EQ(ErrorOf("---\na: 1\n...\n"), "ok");
}

TEST(YamlTest, TabIndentationIsExplained) {
  const std::string error = ErrorOf("rules:\n\t- a: 1\n");

  EXPECT_EQ(error.substr(0, 9), "f.yaml:2:");
  EXPECT_NE(error.find("indented by a tab, use spaces"), std::string::npos) << error;
}

TEST(YamlTest, ByteOrderMarkAndCarriageReturnsChangeNothing) {
  const auto root = ParseYaml(
      "\xEF\xBB\xBF"
      "a: x\r\nb:\r\n  - y\r\n",
      "f.yaml");

  ASSERT_TRUE(root.ok()) << root.error().message;
  EXPECT_EQ(root->members[0].key_at, (Position{1, 1}));
  EXPECT_EQ(root->Find("a")->scalar, "x");
  EXPECT_EQ(root->Find("b")->items[0].scalar, "y");
  EXPECT_EQ(root->Find("b")->items[0].at, (Position{3, 5}));
}

// The reader below takes byte 4 for the end of the file and would silently drop the
// rest; no control character gets that far.
TEST(YamlTest, ControlCharactersAreRefused) {
  EXPECT_EQ(ErrorOf(std::string("a: 1\nb: \x04\nc: 2\n")),
            "f.yaml:2:4: a byte that is no text (a control character, or not UTF-8); save the "
            "file as UTF-8");
  EXPECT_NE(ErrorOf(std::string("a: \0b", 5)), "ok");
}

TEST(YamlTest, TextThatIsNotUtf8IsRefused) {
  EXPECT_EQ(ErrorOf("a: \xFF"),
            "f.yaml:1:4: a byte that is no text (a control character, or not UTF-8); save the "
            "file as UTF-8");
  EXPECT_NE(ErrorOf("a: \xED\xA0\x80"), "ok");  // a surrogate
  EXPECT_NE(ErrorOf("a: \xC0\xAF"), "ok");      // an overlong slash
  EXPECT_EQ(ErrorOf("a: \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "ok");
}

TEST(YamlTest, DepthIsBounded) {
  const std::string deepest(base::kTextDepthMax, '[');
  const std::string closing(base::kTextDepthMax, ']');

  EXPECT_EQ(ErrorOf(deepest + closing), "ok");
  EXPECT_EQ(ErrorOf("[" + deepest + closing + "]"),
            "f.yaml:1:65: maps and lists within each other; at most 64 are allowed");
  EXPECT_NE(ErrorOf(std::string(200'000, '[')), "ok");
  EXPECT_NE(ErrorOf(std::string(200'000, '{')), "ok");
}

TEST(YamlTest, SizeIsBounded) {
  const std::string large(base::kRuleFileBytesMax + 1, ' ');

  EXPECT_EQ(ErrorOf(large), "f.yaml:1:1: 67108865 bytes; at most 67108864 are allowed");
}

TEST(YamlTest, KeysAreWords) {
  EXPECT_EQ(ErrorOf("? [a, b]\n: 1\n"), "f.yaml:1:3: a key is one word, not a list or a map");
  EXPECT_EQ(ErrorOf("{~: 1}"), "f.yaml:1:2: a key is missing before the colon");
}

TEST(YamlTest, SyntaxErrorSaysWhere) {
  EXPECT_EQ(ErrorOf("a: 1\nb: [1, 2\n").substr(0, 9), "f.yaml:3:");
}

// A file that was cut off within a text in quotes must not pass for a whole one.
TEST(YamlTest, QuoteThatIsNotClosedIsAnError) {
  EXPECT_EQ(ErrorOf("a: \"x\"\nb: \"open\n"), "f.yaml:2:4: the quote is not closed");
  EXPECT_EQ(ErrorOf("a: 'it''s\n"), "f.yaml:1:4: the quote is not closed");
  EXPECT_EQ(ErrorOf("a: \"open\\\"\n"), "f.yaml:1:4: the quote is not closed");
  EXPECT_EQ(ErrorOf("a: \"open"), "f.yaml:1:9: not YAML: illegal EOF in scalar");
  EXPECT_EQ(ErrorOf("a: 'it''s'\n"), "ok");
  EXPECT_EQ(ErrorOf("a: \"x\\\\\"\n"), "ok");
}

TEST(NodeTest, DescribesWhatWasFound) {
  const auto root = ParseYaml("[a, [], {}, ~]", "f.yaml");

  ASSERT_TRUE(root.ok());
  EXPECT_EQ(Describe(root->items[0]), "\"a\"");
  EXPECT_EQ(Describe(root->items[1]), "a list");
  EXPECT_EQ(Describe(root->items[2]), "a map");
  EXPECT_EQ(Describe(root->items[3]), "nothing");
}

TEST(NodeTest, QuotesLongTextCutAtACharacter) {
  const std::string text = std::string(59, 'x') + "\xC3\xA9 and more";

  EXPECT_EQ(Quote(text), "\"" + std::string(59, 'x') + "...\"");
  EXPECT_EQ(Quote("a\nb"), "\"a b\"");
}

}  // namespace
}  // namespace flowguard::text
