// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/param_value.h"

#include <string>

#include <gtest/gtest.h>

#include "dialects/sentinel/reading_test.h"

namespace flowguard::dialects::sentinel {
namespace {

Read<ParamValue> ValueIn(std::string object, std::string class_type) {
  return ValueOf({std::move(class_type), 1, std::move(object)});
}

template <typename T>
void ExpectValue(const std::string& object, const std::string& class_type, T expected) {
  const auto value = ValueIn(object, class_type);
  ASSERT_TRUE(value.ok()) << class_type << ": " << value.fault().message;
  EXPECT_EQ(*value, ParamValue(expected)) << object << " " << class_type;
}

TEST(ParamValueTest, ConvertsByClass) {
  for (const std::string type : {"int", "java.lang.Integer"})
    ExpectValue<int32_t>("-7", type, -7);
  for (const std::string type : {"long", "java.lang.Long"})
    ExpectValue<int64_t>("7", type, 7);
  for (const std::string type : {"short", "java.lang.Short"})
    ExpectValue<int16_t>("+7", type, 7);
  for (const std::string type : {"byte", "java.lang.Byte"})
    ExpectValue<int8_t>("-128", type, -128);
  for (const std::string type : {"double", "java.lang.Double"})
    ExpectValue<double>("1.5e3", type, 1500.0);
  for (const std::string type : {"float", "java.lang.Float"})
    ExpectValue<float>("0.1", type, 0.1F);
  for (const std::string type : {"boolean", "java.lang.Boolean"}) {
    ExpectValue<bool>("TRUE", type, true);
    ExpectValue<bool>("1", type, false);
    ExpectValue<bool>("t_rue", type, false);
  }
  ExpectValue<JavaChar>("abc", "char", JavaChar{u'a'});
  ExpectValue<JavaChar>("\xC3\xA9", "char", JavaChar{u'\u00e9'});
  ExpectValue<JavaChar>("\xF0\x9F\x98\x80", "char", JavaChar{0xD83D});
}

TEST(ParamValueTest, AClassThatIsNotKnownMeansTheTextItself) {
  for (const std::string type :
       {"", " ", "java.lang.String", "java.lang.Character", "Integer", "INT"}) {
    ExpectValue<std::string>("7", type, "7");
  }
}

TEST(ParamValueTest, ValuesOfDifferentClassesDiffer) {
  EXPECT_FALSE(*ValueIn("7", "int") == *ValueIn("7", "long"));
  EXPECT_FALSE(*ValueIn("7", "int") == *ValueIn("7", ""));
  EXPECT_TRUE(*ValueIn("7", "int") == *ValueIn("+07", "java.lang.Integer"));
}

TEST(ParamValueTest, SaysWhatDoesNotConvert) {
  EXPECT_EQ(ValueIn("128", "byte").fault().message,
            "found \"128\" of class byte; allowed: -128 to 127");
  EXPECT_EQ(ValueIn("2147483648", "int").fault().message,
            "found \"2147483648\" of class int; allowed: -2147483648 to 2147483647");
  for (const std::string none : {"", "1.0", " 1", "1 ", "+-1", "0x1", "a", "+"})
    EXPECT_FALSE(ValueIn(none, "int").ok()) << none;
  EXPECT_EQ(ValueIn("1e39", "float").fault().message,
            "found \"1e39\" of class float; allowed: a number such as 1.5");
  EXPECT_EQ(ValueIn("", "char").fault().message, "found \"\" of class char; allowed: a character");
  EXPECT_EQ(ValueOf({"int", 1, {}}).fault().message, "no object; a text is needed");
}

constexpr std::string_view kWithBadItems =
    "[{resource:'r',paramIdx:0,paramFlowItemList:[\n"
    "{object:'a',count:1,classType:'int'},\n"
    "{object:7,count:'2',classType:'int'},\n"
    "{object:'b',count:-1},\n"
    "{object:'c'},\n"
    "{count:3},\n"
    "null]}]";

TEST(ParamItemsTest, ItemsThatAreNotValidAreErrors) {
  EXPECT_EQ(ErrorOf(Kind::kParamFlow, kWithBadItems),
            "f:2:9: param-flow rule #1: paramFlowItemList[0].object: found \"a\" of class int; "
            "allowed: -2147483648 to 2147483647\n"
            "f:4:19: param-flow rule #1: paramFlowItemList[2].count: found -1; allowed: 0 or more\n"
            "f:5:1: param-flow rule #1: paramFlowItemList[3].count: found nothing; 0 or more is "
            "needed\n"
            "f:6:1: param-flow rule #1: paramFlowItemList[4].object: no object; a text is needed\n"
            "f:7:1: param-flow rule #1: paramFlowItemList[5].count: found nothing; 0 or more is "
            "needed");
}

TEST(ParamItemsTest, OrAreLeftOutAsSentinelDoes) {
  const auto read = ReadAs(Kind::kParamFlow, kWithBadItems, Profile::kCompat);

  ASSERT_TRUE(read.ok()) << read.error().message;
  const auto& rules = std::get<std::vector<Listed<ParamFlowRule>>>(read->rules);
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].rule.param_flow_item_list, (std::vector<ParamFlowItem>{{"int", 2, "7"}}));
  ASSERT_EQ(read->warnings.size(), 5u);
  EXPECT_EQ(read->warnings[1],
            "f:4:19: param-flow rule #1: paramFlowItemList[2].count: found -1; allowed: 0 or "
            "more; the item is left out, as Sentinel does");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
