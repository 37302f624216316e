// SPDX-License-Identifier: Apache-2.0
#include "rules/dimension.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::rules {
namespace {

class NormaliseTest : public testing::Test {
 protected:
  std::string_view Run(std::string_view raw) { return Normalise(dimension_, raw, scratch_); }

  Dimension dimension_;
  std::array<char, base::kKeyValueInlineMax> scratch_{};
};

TEST_F(NormaliseTest, LeavesValuesAloneUnlessTold) {
  EXPECT_EQ(Run(" Victim@X.org\t"), " Victim@X.org\t");
}

// Rules out that spaces and case give one account several buckets, where asked.
TEST_F(NormaliseTest, TrimsAndLowers) {
  dimension_.trim = true;
  dimension_.lower = true;

  EXPECT_EQ(Run(" Victim@X.org\t\r\n"), "victim@x.org");
  EXPECT_EQ(Run("victim@x.org"), "victim@x.org");
}

TEST_F(NormaliseTest, InvalidUtf8IsKeptByteForByte) {
  dimension_.lower = true;

  EXPECT_EQ(Run("A\xff\xc3Z"), "a\xff\xc3z");
}

TEST_F(NormaliseTest, BlankIsEmptyAndNotMissing) {
  dimension_.trim = true;
  dimension_.missing_value = "anonymous";

  EXPECT_EQ(Run("  "), "");
  EXPECT_NE(Run("  ").data(), nullptr);
}

TEST_F(NormaliseTest, MissingTakesTheMissingValueIfThereIsOne) {
  EXPECT_EQ(Run({}).data(), nullptr);

  dimension_.missing_value = "anonymous";
  EXPECT_EQ(Run({}), "anonymous");
}

TEST_F(NormaliseTest, ValueLongerThanTheScratchIsNotCut) {
  dimension_.lower = true;
  const std::string value(1000, 'X');

  EXPECT_EQ(Run(value), value);
}

TEST(NamesSourceTest, FindsEachKindByItsSource) {
  const auto names = [](DimensionKind kind, const char* argument, std::string_view given) {
    Dimension dimension;
    dimension.name = "declared";
    dimension.kind = kind;
    dimension.argument = argument;
    return NamesSource(dimension, given);
  };
  EXPECT_TRUE(names(DimensionKind::kHeader, "x-id", "header:X-Id"));
  EXPECT_FALSE(names(DimensionKind::kHeader, "x-id", "header:x-idx"));
  EXPECT_TRUE(names(DimensionKind::kCookie, "Session", "cookie:Session"));
  EXPECT_FALSE(names(DimensionKind::kCookie, "Session", "cookie:session"));
  EXPECT_TRUE(names(DimensionKind::kQuery, "page", "query:page"));
  EXPECT_FALSE(names(DimensionKind::kQuery, "page", "param:page"));
  EXPECT_TRUE(names(DimensionKind::kParam, "sku", "param:sku"));
  EXPECT_TRUE(names(DimensionKind::kParam, "sku", "query:sku"));
  EXPECT_TRUE(names(DimensionKind::kIp, "", "ip"));
  EXPECT_FALSE(names(DimensionKind::kIp, "", "ipv6"));
  EXPECT_FALSE(names(DimensionKind::kNamed, "", "declared"));
}

}  // namespace
}  // namespace flowguard::rules
