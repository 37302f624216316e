// SPDX-License-Identifier: Apache-2.0
#include "dialects/sentinel/java_regex.h"

#include <string>

#include <gtest/gtest.h>

namespace flowguard::dialects::sentinel {
namespace {

TEST(JavaRegexTest, TakesWhatJavaCompiles) {
  for (const std::string_view pattern : {"",
                                         "a",
                                         "/orders/.*",
                                         "/a/\\d+(/b)?",
                                         "(?:a|b)+?c*+",
                                         "[a-z&&[^b]]{2,3}",
                                         "[]a]",
                                         "[^]]",
                                         "a{2}",
                                         "a{2,}",
                                         "a{2}{3}",
                                         "}",
                                         "]",
                                         "a||b",
                                         "(|a)",
                                         "^*",
                                         "(?i)a",
                                         "(?i:a)",
                                         "(?<n>a)\\k<n>",
                                         "(?<=a)b(?<!c)",
                                         "(?=a)*",
                                         "\\Q[(*\\E",
                                         "\\Q[(",
                                         "[\\Q]\\E]",
                                         "\\x41\\u0041\\x{1F600}\\cA\\01",
                                         "\\p{L}\\pL\\P{Lu}",
                                         "(?x)( # no ) needed\n)",
                                         "(?-i)a",
                                         "\xC3\xA9+",
                                         "\\.",
                                         "\\R\\h\\b"}) {
    const auto fault = FindRegexFault(pattern);
    EXPECT_FALSE(fault) << pattern << ": " << (fault ? fault->what : "");
  }
}

TEST(JavaRegexTest, SaysWhatIsWrongAndWhere) {
  const struct {
    std::string_view pattern;
    size_t offset;
    std::string_view what;
  } kCases[] = {
      {"a(b", 3, "a ( without its )"},
      {"a)b", 1, "a ) without its ("},
      {"a[b", 1, "a [ without its ]"},
      {"[]", 0, "a [ without its ]"},
      {"[a[b]", 0, "a [ without its ]"},
      {"*a", 0, "nothing stands before the *"},
      {"(+a)", 1, "nothing stands before the +"},
      {"a|?", 2, "nothing stands before the ?"},
      {"a**", 2, "nothing stands before the *"},
      {"a(?i)*", 5, "nothing stands before the *"},
      {"a{2}*", 4, "nothing stands before the *"},
      {"/users/{id}", 7, "a { without a count behind it; write \\{ for the character"},
      {"a{2", 1, "a { without its }"},
      {"a{3,2}", 1, "a count whose end is below its begin"},
      {"a\\", 1, "a \\ at the end"},
      {"\\y", 0, "an escape that is not known, \\y"},
      {"[\\y]", 1, "an escape that is not known, \\y"},
      {"\\x4", 0, "an escape without its digits"},
      {"\\u004", 0, "an escape without its digits"},
      {"\\0", 0, "an escape without its digits"},
      {"\\c", 0, "an escape without its character"},
      {"\\p", 0, "an escape without its name"},
      {"\\p{}", 0, "an escape without its name"},
      {"\\k", 0, "an escape without its name"},
      {"(?<>a)", 0, "a group without a name between < and >"},
      {"(?<a", 0, "a group without a name between < and >"},
      {"(?P<n>a)", 0, "a group of an unknown kind"},
      {"(?i", 0, "a ( without its )"},
  };
  for (const auto& one : kCases) {
    const auto fault = FindRegexFault(one.pattern);
    ASSERT_TRUE(fault) << one.pattern;
    EXPECT_EQ(fault->what, one.what) << one.pattern;
    EXPECT_EQ(fault->offset, one.offset) << one.pattern;
  }
}

}  // namespace
}  // namespace flowguard::dialects::sentinel
