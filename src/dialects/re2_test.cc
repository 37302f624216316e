// SPDX-License-Identifier: Apache-2.0
//
// RE2 as an engine for resource_regex: what it matches, and its bounds.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "base/bounds.h"

namespace flowguard {
namespace {

bool Matches(std::string_view pattern, std::string_view text) {
  const auto regex = Re2().Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.error().message;
  return (*regex)->MatchesWhole(text);
}

std::string ErrorOf(std::string_view pattern) {
  const auto regex = Re2().Compile(pattern);
  if (regex.ok()) return "ok";
  EXPECT_EQ(regex.error().code, ErrorCode::kInvalidArgument);
  return regex.error().message;
}

TEST(Re2Test, MatchesTheWholeText) {
  EXPECT_TRUE(Matches("order:(create|pay)", "order:pay"));
  EXPECT_FALSE(Matches("order:(create|pay)", "order:payment"));
  EXPECT_FALSE(Matches("order:(create|pay)", "my-order:pay"));
  EXPECT_FALSE(Matches("a|ab", "abc"));
  EXPECT_TRUE(Matches("a|ab", "ab"));
  EXPECT_FALSE(Matches("Order:.*", "order:x"));
  EXPECT_TRUE(Matches("(?i)Order:.*", "order:x"));
  EXPECT_TRUE(Matches(".*", ""));
}

TEST(Re2Test, TextIsUtf8) {
  EXPECT_TRUE(Matches("f.r", "f\xC3\xBCr"));
  EXPECT_FALSE(Matches("f.r", "f\xC3r"));
}

TEST(Re2Test, ATextWithAZeroByteIsWhole) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(Matches("ab", "ab\0c"sv));
  EXPECT_TRUE(Matches("ab\\x00c", "ab\0c"sv));
}

TEST(Re2Test, SaysWhatIsWrong) {
  EXPECT_EQ(ErrorOf("order:("), "missing ): order:(; write it in the syntax of RE2");
  EXPECT_EQ(ErrorOf("(?=a)b"), "invalid perl operator: (?=; write it in the syntax of RE2");
  EXPECT_EQ(ErrorOf("(a)\\1"), "invalid escape sequence: \\1; write it in the syntax of RE2");
  EXPECT_EQ(ErrorOf(""), "empty");
}

TEST(Re2Test, AnExpressionIsBounded) {
  EXPECT_EQ(ErrorOf(std::string(base::kResourceBytesMax, 'a')), "ok");
  EXPECT_EQ(ErrorOf(std::string(base::kResourceBytesMax + 1, 'a')), "longer than 1024 bytes");
  EXPECT_NE(ErrorOf("(a{1000}){1000}"), "ok");
  EXPECT_NE(ErrorOf("((a{100}){10}){9}"), "ok");
  EXPECT_NE(ErrorOf("[\\x{80}-\\x{10ffff}]{900}"), "ok");
}

// What takes a backtracking engine 2^40 steps.
TEST(Re2Test, TimeIsLinear) {
  EXPECT_FALSE(Matches("(a+)+b", std::string(100'000, 'a')));
  EXPECT_FALSE(Matches("(a|aa)*(a|aa)*(a|aa)*b", std::string(100'000, 'a')));
}

TEST(Re2Test, OneExpressionMayMatchOnManyThreads) {
  const auto regex = Re2().Compile("(a|b|ab)*c");
  ASSERT_TRUE(regex.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&regex, t] {
      for (size_t i = 0; i < 500; ++i) {
        std::string text(i % 50, t % 2 == 0 ? 'a' : 'b');
        EXPECT_FALSE((*regex)->MatchesWhole(text));
        EXPECT_TRUE((*regex)->MatchesWhole(text + "c"));
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace
}  // namespace flowguard
