// SPDX-License-Identifier: Apache-2.0
#include "rules/cluster_key.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "rules/key.h"

namespace flowguard::rules {
namespace {

constexpr std::string_view kMissing;
constexpr uint64_t kIdentity = 0x1122334455667788;

Dimension Named(std::string name) {
  Dimension dimension;
  dimension.name = std::move(name);
  return dimension;
}

// What a client says for the key of these values.
std::string TextFor(const std::vector<std::string_view>& values, uint64_t identity = kIdentity) {
  KeyBuilder key;
  key.Start(identity, kSharedKeySeed);
  for (const std::string_view value : values)
    key.Add(Named("d"), value);
  return std::string(ClusterKeyOf(key.encoded()));
}

TEST(ClusterKeyTest, OneDimensionIsItsValue) {
  const std::string longest(base::kKeyValueInlineMax, 'x');
  for (const std::string_view value :
       {std::string_view("acme"), std::string_view(""), std::string_view("\0\x01\xff", 3),
        std::string_view(longest)})
    EXPECT_EQ(TextFor({value}), value);
}

// Of a rule that another process has under another window, so with another identity, too.
TEST(ClusterKeyTest, TheRulesIdentityIsNoPartOfIt) {
  for (const auto& values :
       std::vector<std::vector<std::string_view>>{{"acme"}, {"acme", "7"}, {kMissing}, {}}) {
    EXPECT_EQ(TextFor(values, 1), TextFor(values, 2));
  }
}

TEST(ClusterKeyTest, OtherKeysAreToldApart) {
  const std::string longer(base::kKeyValueInlineMax + 1, 'x');
  const std::string other = longer + "y";
  const std::vector<std::vector<std::string_view>> keys = {
      {"ab"}, {"a", "b"}, {"", "ab"}, {"ab", ""},    {kMissing},    {kMissing, "ab"},
      {"a"},  {longer},   {other},    {"a", longer}, {longer, "a"}, {"ab", kMissing}};
  std::set<std::string> texts;
  for (const auto& key : keys)
    texts.insert(TextFor(key));
  EXPECT_EQ(texts.size(), keys.size());
}

// A key that is too long for a store stands there as a digest, which is no value.
TEST(ClusterKeyTest, ADigestIsSaidAsItIs) {
  const std::string encoded =
      std::string(8, 'i') + std::string(1, '\0') + "\x0f" + std::string(15, 'd');
  EXPECT_EQ(ClusterKeyOf(encoded), std::string_view(encoded).substr(8));
}

TEST(CanonicalTextTest, WholeNumbersFitTheirType) {
  EXPECT_EQ(CanonicalText(ValueType::kInt, "+07"), "7");
  EXPECT_EQ(CanonicalText(ValueType::kInt, "-2147483648"), "-2147483648");
  EXPECT_EQ(CanonicalText(ValueType::kInt, "2147483648"), std::nullopt);
  EXPECT_EQ(CanonicalText(ValueType::kLong, "2147483648"), "2147483648");
  EXPECT_EQ(CanonicalText(ValueType::kByte, "128"), std::nullopt);
  EXPECT_EQ(CanonicalText(ValueType::kByte, "-128"), "-128");
  EXPECT_EQ(CanonicalText(ValueType::kShort, "32767"), "32767");
  EXPECT_EQ(CanonicalText(ValueType::kShort, "32768"), std::nullopt);
  for (const char* text : {"", "7.0", "x", " 7", "7 ", "+-7", "0x7"})
    EXPECT_EQ(CanonicalText(ValueType::kInt, text), std::nullopt) << text;
}

TEST(CanonicalTextTest, FractionsHaveTheFewestDigitsOfTheirType) {
  EXPECT_EQ(CanonicalText(ValueType::kDouble, "2.50"), "2.5");
  EXPECT_EQ(CanonicalText(ValueType::kDouble, "1e0"), "1");
  EXPECT_EQ(CanonicalText(ValueType::kFloat, "0.1"), "0.1");
  EXPECT_EQ(CanonicalText(ValueType::kFloat, "0.10000000149011612"), "0.1");
  EXPECT_EQ(CanonicalText(ValueType::kDouble, "0.10000000149011612"), "0.10000000149011612");
  EXPECT_NE(CanonicalText(ValueType::kDouble, "-0.0"), CanonicalText(ValueType::kDouble, "0"));
  for (const char* text : {"", "nan", "inf", "1e999", "1,5", "x"})
    EXPECT_EQ(CanonicalText(ValueType::kDouble, text), std::nullopt) << text;
}

TEST(CanonicalTextTest, OtherTypes) {
  EXPECT_EQ(CanonicalText(ValueType::kBool, "true"), "true");
  EXPECT_EQ(CanonicalText(ValueType::kBool, "True"), std::nullopt);
  EXPECT_EQ(CanonicalText(ValueType::kString, "+07"), "+07");
  EXPECT_EQ(CanonicalText(ValueType::kAny, "+07"), "+07");
}

}  // namespace
}  // namespace flowguard::rules
