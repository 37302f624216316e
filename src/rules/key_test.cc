// SPDX-License-Identifier: Apache-2.0
#include "rules/key.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::rules {
namespace {

constexpr uint64_t kSeed = 42;

Dimension Of(std::string name, DimensionKind kind) {
  Dimension dimension;
  dimension.name = std::move(name);
  dimension.kind = kind;
  return dimension;
}

const Dimension kUser = Of("user", DimensionKind::kNamed);
const Dimension kIp = Of("ip", DimensionKind::kIp);
const Dimension kPath = Of("path:p", DimensionKind::kPath);
const Dimension kHeader = Of("header:x-user", DimensionKind::kHeader);

using Parts = std::vector<std::pair<const Dimension*, std::string_view>>;

std::string Encoded(uint64_t identity, const Parts& parts) {
  KeyBuilder key;
  key.Start(identity, kSeed);
  for (const auto& [dimension, value] : parts)
    key.Add(*dimension, value);
  return std::string(key.encoded());
}

base::Hash128 Hashed(uint64_t identity, uint64_t seed, const Parts& parts) {
  KeyHash key;
  key.Start(identity, seed);
  for (const auto& [dimension, value] : parts)
    key.Add(*dimension, value);
  return key.Hash();
}

// Different keys, by tuple and by hash.
void ExpectDistinct(const std::vector<Parts>& keys) {
  std::set<std::string> tuples;
  std::set<std::pair<uint64_t, uint64_t>> hashes;
  for (const Parts& parts : keys) {
    const base::Hash128 hash = Hashed(1, kSeed, parts);
    tuples.insert(Encoded(1, parts));
    hashes.insert({hash.low, hash.high});
  }
  EXPECT_EQ(tuples.size(), keys.size());
  EXPECT_EQ(hashes.size(), keys.size());
}

// Rules out parts that run into each other.
TEST(KeyTest, NoValueIsASeparator) {
  using std::string_view;
  ExpectDistinct({
      {{&kUser, "a:b"}, {&kPath, "c"}},
      {{&kUser, "a"}, {&kPath, "b:c"}},
      {{&kUser, "ab:"}, {&kPath, "c"}},
      {{&kUser, "a:bc"}, {&kPath, ""}},
      {{&kUser, ""}, {&kPath, "a:bc"}},
      {{&kUser, string_view("a\x07\x01", 3)}, {&kPath, "c"}},
      {{&kUser, "a"},
       {&kPath, string_view("\x07\x01"
                            "c",
                            3)}},
      {{&kIp, "1.1.1.1"}, {&kPath, "1/x"}},
      {{&kIp, "1.1.1.11"}, {&kPath, "/x"}},
  });
}

// Rules out that a user who calls himself by an address shares its bucket.
TEST(KeyTest, KindsOfDimensionsAreApart) {
  ExpectDistinct({{{&kUser, "127.0.0.1"}},
                  {{&kIp, "127.0.0.1"}},
                  {{&kHeader, "127.0.0.1"}},
                  {{&kPath, "127.0.0.1"}}});
}

// Rules out that a later part hides an earlier one, or that their order is lost.
TEST(KeyTest, EveryPartCounts) {
  ExpectDistinct({{{&kUser, "a"}},
                  {{&kUser, "a"}, {&kUser, ""}},
                  {{&kUser, "a"}, {&kUser, {}}},
                  {{&kUser, "a"}, {&kIp, "b"}},
                  {{&kUser, "b"}, {&kIp, "b"}},
                  {{&kIp, "b"}, {&kUser, "a"}},
                  {{&kUser, "a"}, {&kIp, "b"}, {&kPath, "c"}},
                  {{&kUser, "b"}, {&kIp, "b"}, {&kPath, "c"}}});
}

TEST(KeyTest, EmptyIsNotMissing) {
  ExpectDistinct({{{&kUser, ""}}, {{&kUser, {}}}, {}, {{&kUser, "nil"}}});
}

TEST(KeyTest, EveryCharacterCounts) {
  using std::string_view;
  ExpectDistinct({{{&kHeader, "a+b"}},
                  {{&kHeader, "a b"}},
                  {{&kHeader, "a%20b"}},
                  {{&kHeader, "a\"b"}},
                  {{&kHeader, "a\tb"}},
                  {{&kHeader, "A+b"}},
                  {{&kHeader, string_view("a\0b", 3)}},
                  {{&kHeader, string_view("a", 1)}},
                  {{&kHeader, "\xff\xfe"}}});
}

TEST(KeyTest, RulesAreApart) {
  EXPECT_NE(Encoded(1, {{&kUser, "u"}}), Encoded(2, {{&kUser, "u"}}));
  EXPECT_NE(Hashed(1, kSeed, {{&kUser, "u"}}), Hashed(2, kSeed, {{&kUser, "u"}}));
  EXPECT_NE(Hashed(1, kSeed, {}), Hashed(2, kSeed, {}));
}

TEST(KeyTest, SeedChangesHashesAndNotShortTuples) {
  KeyBuilder a;
  KeyBuilder b;
  a.Start(1, 1);
  b.Start(1, 2);
  a.Add(kUser, "u");
  b.Add(kUser, "u");

  EXPECT_EQ(a.encoded(), b.encoded());
  EXPECT_NE(Hashed(1, 1, {{&kUser, "u"}}), Hashed(1, 2, {{&kUser, "u"}}));
}

// Rules out key text without bound, and keys made of a prefix of a credential.
TEST(KeyTest, LongValuesAreBoundedAndCountWhole) {
  std::vector<std::string> values;
  for (const char last : {'a', 'b', 'c', 'd', 'e'}) {
    values.push_back("tess_live_" + std::string(64 * 1024, 'x') + last);
    values.push_back(std::string(1, last) + std::string(128, 'x'));
    values.push_back(std::string(127, 'x') + last);
  }
  std::vector<Parts> keys;
  for (const std::string& value : values)
    keys.push_back({{&kHeader, value}});

  ExpectDistinct(keys);
  for (const Parts& parts : keys)
    EXPECT_LT(Encoded(1, parts).size(), 256u);
}

TEST(KeyTest, EightLongestPartsFit) {
  const std::string value(base::kKeyValueInlineMax, 'v');
  const Parts parts(base::kDimensionsPerKeyMax, {&kHeader, value});

  EXPECT_EQ(Encoded(1, parts).size(), kKeyBytesMax);
}

TEST(KeyTest, LongValuesFoldLikeShortOnes) {
  Dimension lower = kHeader;
  lower.lower = true;
  const std::string small = std::string(1000, 'x') + "end";
  const std::string big = std::string(1000, 'X') + "End";

  EXPECT_EQ(Encoded(1, {{&lower, small}}), Encoded(1, {{&lower, big}}));
  EXPECT_NE(Encoded(1, {{&kHeader, small}}), Encoded(1, {{&kHeader, big}}));
  EXPECT_NE(Encoded(1, {{&lower, small}}), Encoded(1, {{&lower, small + "."}}));
  EXPECT_NE(Encoded(1, {{&lower, "y" + small.substr(1)}}), Encoded(1, {{&lower, small}}));
  EXPECT_EQ(Hashed(1, kSeed, {{&lower, small}}), Hashed(1, kSeed, {{&lower, big}}));
  EXPECT_NE(Hashed(1, kSeed, {{&kHeader, small}}), Hashed(1, kSeed, {{&kHeader, big}}));
  EXPECT_NE(Hashed(1, kSeed, {{&lower, small}}), Hashed(1, kSeed, {{&lower, small + "."}}));
}

// The tuple is what stores in other processes key by: it must not change.
TEST(KeyTest, TupleIsAsDocumented) {
  const std::string key = Encoded(0x0102030405060708, {{&kIp, "::1"}, {&kUser, {}}});

  EXPECT_EQ(key, std::string("\x08\x07\x06\x05\x04\x03\x02\x01"
                             "\x02\x03::1"
                             "\x81\x00",
                             15));
}

TEST(KeyTest, ReadableKeysEscapeWhatCouldBeMisread) {
  std::string text;
  AppendReadable(kIp, "192.0.2.7", text);
  AppendReadable(kUser, "a, b=\x01%", text);
  AppendReadable(kHeader, {}, text);

  EXPECT_EQ(text, "ip=192.0.2.7, user=a%2C%20b%3D%01%25, header:x-user missing");
}

TEST(KeyTest, ReadableKeysAreBounded) {
  std::string text;
  AppendReadable(kUser, std::string(100'000, 'x'), text);

  EXPECT_LT(text.size(), 400u);
  EXPECT_NE(text.find("(100000 bytes)"), std::string::npos);
}

}  // namespace
}  // namespace flowguard::rules
