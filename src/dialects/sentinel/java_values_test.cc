// SPDX-License-Identifier: Apache-2.0
//
// How values are coerced, checked against what fastjson 1.2.83 makes of the same texts.
#include "dialects/sentinel/java_values.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "dialects/sentinel/reading_test.h"
#include "text/json.h"

namespace flowguard::dialects::sentinel {
namespace {

TEST(JavaValuesTest, DoublesAreReadAsFastjsonReadsThem) {
  const struct {
    std::string_view written;
    double read;
  } kCases[] = {
      {"5", 5},           {"20.5", 20.5},
      {"\"20.5\"", 20.5}, {"+5", 5},
      {"007", 7},         {"5.", 5},
      {"10L", 10},        {"1.5F", 1.5},
      {"1.5D", 1.5},      {"1e3", 1000},
      {"'1e3'", 1000},    {"' 7 '", 7},
      {"true", 1},        {"false", 0},
      {"-5e-1", -0.5},    {"12345678901234567890", 1.2345678901234567e19},
      {"0.1", 0.1},       {"'1,000.5'", 1000.5},
  };
  for (const auto& one : kCases) {
    const std::string json = "[{highestSystemLoad:" + std::string(one.written) + "}]";
    EXPECT_EQ(OneRule<SystemRule>(Kind::kSystem, json).highest_system_load, one.read) << json;
  }
}

TEST(JavaValuesTest, NullAndItsTextsLeaveNumbersAndBooleansAsTheyAre) {
  for (const std::string nothing : {"null", "\"\"", "'null'", "'NULL'"}) {
    const FlowRule rule =
        Flow("count:" + nothing + ",grade:" + nothing + ",regex:" + nothing +
             ",clusterConfig:{flowId:" + nothing + ",fallbackToLocalWhenFail:" + nothing + "}");
    EXPECT_EQ(rule.count, 0) << nothing;
    EXPECT_EQ(rule.grade, 1) << nothing;
    EXPECT_FALSE(rule.regex) << nothing;
    EXPECT_FALSE(rule.cluster_config->flow_id) << nothing;
    EXPECT_TRUE(rule.cluster_config->fallback_to_local_when_fail) << nothing;
    // 0 would refuse everything.
    EXPECT_EQ(OneRule<SystemRule>(Kind::kSystem, "[{qps:" + nothing + ",maxThread:5}]").qps, -1);
  }
}

TEST(JavaValuesTest, WholeNumbersAreCutOff) {
  const struct {
    std::string_view written;
    int32_t read;
  } kCases[] = {
      {"1", 1},
      {"1.9", 1},
      {"1.0", 1},
      {"\"1\"", 1},
      {"'1.0'", 1},
      {"'1.'", 1},
      {"'+3'", 3},
      {"+1", 1},
      {"007", 7},
      {"1e3", 1000},
      {"1.5e1", 15},
      {"19e-1", 1},
      {"0.9", 0},
      {"true", 1},
      {"1L", 1},
      {"1e-400", 0},
      {"0e9999", 0},
      {"'1,0'", 10},
      {"2147483647", 2147483647},
  };
  for (const auto& one : kCases) {
    const FlowRule rule = Flow("warmUpPeriodSec:" + std::string(one.written));
    EXPECT_EQ(rule.warm_up_period_sec, one.read) << one.written;
  }
  const std::string json = "[{maxThread:-1.9,avgRt:-9223372036854775808}]";
  EXPECT_EQ(OneRule<SystemRule>(Kind::kSystem, json).max_thread, -1);
  EXPECT_EQ(OneRule<SystemRule>(Kind::kSystem, json).avg_rt, std::numeric_limits<int64_t>::min());
}

// fastjson rejects some of these and takes the low 32 bits of others.
TEST(JavaValuesTest, WholeNumbersThatDoNotFitAreRefusedWithTheirBounds) {
  for (const std::string number :
       {"2147483648", "4294967301", "4294967301.0", "'4294967301'", "1e400", "-2147483649",
        "99999999999999999999", "1e99999999999999999999"}) {
    const std::string found = number.front() == '\'' ? "4294967301" : number;
    EXPECT_EQ(FlowError("grade:" + number), "f:1:24: flow rule #1: grade: found \"" + found +
                                                "\"; allowed: -2147483648 to 2147483647");
  }
  EXPECT_EQ(FlowError("clusterConfig:{flowId:9223372036854775808}"),
            "f:1:40: flow rule #1: clusterConfig.flowId: found \"9223372036854775808\"; allowed: "
            "-9223372036854775808 to 9223372036854775807");
}

TEST(JavaValuesTest, WhatIsNoNumberIsRefused) {
  for (const std::string value : {"'1.9'", "' 1'", "'1e0'", "'true'", "'abc'"}) {
    EXPECT_EQ(FlowError("grade:" + value), "f:1:24: flow rule #1: grade: found \"" +
                                               value.substr(1, value.size() - 2) +
                                               "\"; a whole number is allowed");
  }
  EXPECT_EQ(FlowError("grade:[1]"),
            "f:1:24: flow rule #1: grade: found a list; a whole number is allowed");
  for (const std::string value : {"abc", "NaN", "Infinity", "0x1p3", "5d", "", "1 2", ".5", "-"}) {
    if (value.empty()) continue;
    EXPECT_EQ(FlowError("count:'" + value + "'"),
              "f:1:24: flow rule #1: count: found \"" + value + "\"; a number is allowed");
  }
  EXPECT_EQ(FlowError("count:{}"), "f:1:24: flow rule #1: count: found a map; a number is allowed");
  EXPECT_EQ(FlowError("count:1e400"),
            "f:1:24: flow rule #1: count: found \"1e400\"; allowed: numbers from 1e-307 to 1e308, "
            "and 0");
}

TEST(JavaValuesTest, BooleansAsFastjsonReadsThem) {
  for (const std::string yes :
       {"true", "'true'", "'TRUE'", "'True'", "1", "1.0", "'1'", "'Y'", "'y'", "'T'"}) {
    EXPECT_TRUE(Flow("clusterConfig:{flowId:1},regex:" + yes).regex) << yes;
  }
  for (const std::string no : {"false", "'false'", "0", "2", "'0'", "'N'", "'F'", "-1", "0.5"})
    EXPECT_FALSE(Flow("regex:" + no).regex) << no;
  for (const std::string other : {"'yes'", "'2'", "'on'"}) {
    EXPECT_EQ(FlowError("regex:" + other), "f:1:24: flow rule #1: regex: found \"" +
                                               other.substr(1, other.size() - 2) +
                                               "\"; allowed: true, false");
  }
  EXPECT_EQ(FlowError("regex:[1]"),
            "f:1:24: flow rule #1: regex: found a list; allowed: true, false");
}

TEST(JavaValuesTest, TextsTakeNumbersAndBooleansAsWritten) {
  EXPECT_EQ(Flow("limitApp:123").limit_app, "123");
  EXPECT_EQ(Flow("limitApp:1.50").limit_app, "1.50");
  EXPECT_EQ(Flow("limitApp:true").limit_app, "true");
  EXPECT_EQ(Flow("limitApp:'null'").limit_app, "null");
  // fastjson makes the text [1,"a"] of it, which no origin equals.
  EXPECT_EQ(FlowError("limitApp:[1,'a']"),
            "f:1:27: flow rule #1: limitApp: found a list; one word or text is allowed");
}

TEST(JavaValuesTest, CommasInNumbersAreLeftOutWithAWarning) {
  EXPECT_EQ(WarningsOf(Kind::kFlow, "[{resource:'r',count:'1,5',strategy:'1,0'}]"),
            "f:1:22: flow rule #1: count: \"1,5\" is taken for 15.0; commas are left out, as "
            "Sentinel does\n"
            "f:1:37: flow rule #1: strategy: \"1,0\" is taken for 10; commas are left out, as "
            "Sentinel does\n"
            "f:1:37: flow rule #1: strategy: found 10; it is not known, and such a rule never "
            "limits anything; known: 0 direct, 1 relate, 2 chain");
}

TEST(JavaTextTest, IsThatOfJava) {
  const struct {
    double value;
    std::string_view text;
  } kCases[] = {
      {0, "0.0"},          {-0.0, "-0.0"},         {20, "20.0"},
      {0.5, "0.5"},        {-1, "-1.0"},           {1234567.125, "1234567.125"},
      {1e7, "1.0E7"},      {9999999, "9999999.0"}, {1e21, "1.0E21"},
      {1e-3, "0.001"},     {1e-4, "1.0E-4"},       {1.2345678901234567e19, "1.2345678901234567E19"},
      {0.1, "0.1"},        {100, "100.0"},         {0.0625, "0.0625"},
      {123e-7, "1.23E-5"}, {1000000, "1000000.0"},
  };
  for (const auto& one : kCases)
    EXPECT_EQ(JavaText(one.value), one.text);
}

TEST(JavaTextTest, ReadsBackAsTheSameDoubleAndIsJson) {
  std::mt19937_64 random(20'261'130);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isnormal(value)) continue;
    const std::string text = JavaText(value);
    ASSERT_EQ(DoubleOf(text), value) << text;
    ASSERT_TRUE(text::ParseJson("[" + text + "]", "t").ok()) << text;
    ASSERT_NE(text.find('.'), std::string::npos) << text;
  }
}

TEST(WholePartTest, IsExactWhateverTheDigits) {
  EXPECT_EQ(WholePart("9007199254740993.9"), 9007199254740993);  // no double in between
  EXPECT_EQ(WholePart("9223372036854775807.9"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(WholePart("0." + std::string(1000, '0') + "12e1002"), 12);
  EXPECT_EQ(WholePart("12" + std::string(1000, '0') + "e-1000"), 12);
  EXPECT_FALSE(WholePart("1" + std::string(1000, '0')));
  EXPECT_FALSE(WholePart("9223372036854775808"));
  for (const std::string_view none : {"", "-", ".5", "1e", "1e+", "1x", "0x1", "1 ", "--1"})
    EXPECT_FALSE(WholePart(none)) << none;
}

TEST(SmartNameTest, NamesAreComparedAsTheyAreFolded) {
  const std::string_view names[] = {"", "_", "a", "A-", "ab", "a_B", "-aB_-", "ba", "abc"};
  for (const std::string_view a : names) {
    for (const std::string_view b : names)
      EXPECT_EQ(SameSmartName(a, b), SmartName(a) == SmartName(b)) << a << " " << b;
  }
}

TEST(SmartNameTest, DropsCapitalsAndDashes) {
  EXPECT_EQ(SmartName("maxQueueingTimeMs"), "maxqueueingtimems");
  EXPECT_EQ(SmartName("max_queueing-TIME_ms"), "maxqueueingtimems");
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
