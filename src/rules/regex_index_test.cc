// SPDX-License-Identifier: Apache-2.0
#include "rules/regex_index.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/std_regex.h"

namespace flowguard::rules {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Entry EntryOf(uint32_t rule) {
  return {kAnyMethod, rule, 0, rule, RuleKind::kLimit, false, false, false, false};
}

class RegexIndexTest : public ::testing::Test {
 protected:
  void Make(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      const auto added = index_.Add(pattern, EntryOf(rules_++), engine_);
      ASSERT_TRUE(added.ok()) << added.error().message;
    }
    index_.Finish();
  }
  std::vector<uint32_t> RulesOf(std::string_view resource) {
    std::vector<uint32_t> rules;
    index_.Walk(resource, [&](std::span<const Entry> found) {
      for (const Entry& entry : found)
        rules.push_back(entry.rule);
    });
    return rules;
  }

  testing::StdRegexEngine engine_;
  RegexIndex index_;
  uint32_t rules_ = 0;
};

TEST_F(RegexIndexTest, FindsWhatMatchesTheWholeName) {
  Make({"order:.*", "order:(create|pay)", "user:[0-9]+"});

  EXPECT_THAT(RulesOf("order:pay"), ElementsAre(0, 1));
  EXPECT_THAT(RulesOf("order:payment"), ElementsAre(0));
  EXPECT_THAT(RulesOf("user:12"), ElementsAre(2));
  EXPECT_THAT(RulesOf("a user:12"), IsEmpty());
}

TEST_F(RegexIndexTest, RulesOfOnePatternShareIt) {
  Make({"a.*", "b", "a.*"});

  EXPECT_THAT(RulesOf("ab"), ElementsAre(0, 2));
  EXPECT_EQ(engine_.asked(), 2);
}

TEST_F(RegexIndexTest, AsksOnceForAName) {
  Make({"a.*", "b.*"});

  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(RulesOf("abc"), ElementsAre(0));
  EXPECT_EQ(engine_.asked(), 2);
  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(RulesOf("none"), IsEmpty()) << "that none matches is remembered too";
  EXPECT_EQ(engine_.asked(), 4);
}

// More names than there are slots take each other's: the answers stay right.
TEST_F(RegexIndexTest, NamesThatTakeEachOthersPlacesAreAnsweredRight) {
  Make({"[0-9]*0", "[0-9]*[02468]"});

  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 20'000; ++i) {
      std::vector<uint32_t> expected;
      if (i % 10 == 0) expected.push_back(0);
      if (i % 2 == 0) expected.push_back(1);
      ASSERT_EQ(RulesOf(std::to_string(i)), expected) << i;
    }
  }
}

TEST_F(RegexIndexTest, ThreadsThatRememberAtOnceAreAnsweredRight) {
  Make({"[0-9]*0", "[0-9]*[02468]"});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 9'000; ++i) {
        const size_t expected = (i % 10 == 0 ? 1u : 0u) + (i % 2 == 0 ? 1u : 0u);
        if (RulesOf(std::to_string(i)).size() != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(RegexIndexTest, SaysWhatTheEngineSaysOfABadPattern) {
  const auto added = index_.Add("a(", EntryOf(0), engine_);

  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace flowguard::rules
