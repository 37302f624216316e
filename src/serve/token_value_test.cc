// SPDX-License-Identifier: Apache-2.0
#include "serve/token_value.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flowguard::serve {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 0xf];
  }
  return text;
}

std::string Encoded(ValueType type, std::string_view text) {
  const auto value = EncodeTokenValue(type, text);
  return value ? Hex(*value) : "none";
}

TEST(TokenValueTest, EveryTypeHasItsKindAndItsBytes) {
  EXPECT_EQ(Encoded(ValueType::kInt, "7"), "0000000007");
  EXPECT_EQ(Encoded(ValueType::kInt, "-2147483648"), "0080000000");
  EXPECT_EQ(Encoded(ValueType::kLong, "-1"), "01ffffffffffffffff");
  EXPECT_EQ(Encoded(ValueType::kByte, "-128"), "0280");
  EXPECT_EQ(Encoded(ValueType::kDouble, "-2"), "03c000000000000000");
  EXPECT_EQ(Encoded(ValueType::kFloat, "0.5"), "043f000000");
  EXPECT_EQ(Encoded(ValueType::kShort, "258"), "050102");
  EXPECT_EQ(Encoded(ValueType::kBool, "true"), "0601");
  EXPECT_EQ(Encoded(ValueType::kBool, "false"), "0600");
  EXPECT_EQ(Encoded(ValueType::kString, "ab"), "07000000026162");
  EXPECT_EQ(Encoded(ValueType::kString, ""), "0700000000");
}

TEST(TokenValueTest, WhatIsNoValueOfTheTypeIsNone) {
  using Case = std::pair<ValueType, std::string_view>;
  for (const auto& [type, text] :
       {Case{ValueType::kInt, "2147483648"}, Case{ValueType::kInt, "7x"}, Case{ValueType::kInt, ""},
        Case{ValueType::kInt, "+7"}, Case{ValueType::kLong, "9223372036854775808"},
        Case{ValueType::kByte, "128"}, Case{ValueType::kShort, "1.5"},
        Case{ValueType::kDouble, "1,5"}, Case{ValueType::kFloat, " 1"},
        Case{ValueType::kBool, "TRUE"}}) {
    EXPECT_EQ(Encoded(type, text), "none") << text;
  }
}

std::vector<std::string> AllOf(ValueType type, std::string_view text) {
  std::vector<std::string> values;
  for (const std::string& value : EncodeTokenValues(type, text))
    values.push_back(Hex(value));
  return values;
}

TEST(TokenValueTest, ATextOfAnyTypeIsEveryValueThatItWrites) {
  EXPECT_THAT(AllOf(ValueType::kAny, "vip"), ElementsAre("0700000003766970"));
  EXPECT_THAT(AllOf(ValueType::kAny, "true"), ElementsAre("0601", "070000000474727565"));
  EXPECT_THAT(AllOf(ValueType::kAny, "300"),
              IsSupersetOf({"000000012c", "01000000000000012c", "05012c", "0700000003333030"}));
  EXPECT_THAT(AllOf(ValueType::kAny, "300"), Not(Contains(StartsWith("02"))));
  EXPECT_THAT(AllOf(ValueType::kAny, "0.5"),
              UnorderedElementsAre("033fe0000000000000", "043f000000", "0700000003302e35"));
  EXPECT_THAT(AllOf(ValueType::kInt, "7"), ElementsAre("0000000007"));
  EXPECT_THAT(AllOf(ValueType::kInt, "x"), IsEmpty());
}

}  // namespace
}  // namespace flowguard::serve
