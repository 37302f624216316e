// SPDX-License-Identifier: Apache-2.0
//
// The algorithms that warm up or pay forward, as rules: where their cells begin, callers
// that wait for less than the rule allows, and what a load keeps.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;

Rule Bursty(int64_t per_second) {
  return LimitRule("a", per_second, seconds(1), Algorithm::kSmoothBursty);
}

// Without a cold spacing, so that waits are plain.
Rule Even(int64_t per_second) {
  Rule rule = LimitRule("a", per_second, seconds(1), Algorithm::kWarmUp);
  rule.cold_factor = 1;
  return rule;
}

class WarmCellsTest : public testing::EngineFixture {
 protected:
  void LoadNow(std::vector<Rule> rules) {
    RuleSet set;
    set.rules = std::move(rules);
    const Result<void> loaded = engine_->Load(set, nullptr, now_);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }
  static FakeRequest Ann(int64_t cost = 0) { return FakeRequest("r", {{"user", "ann"}}, cost); }
};

TEST_F(WarmCellsTest, ANewRuleHasNothingStoredAndAKeySeenLaterWhatItCouldHave) {
  for (const bool keyed : {false, true}) {
    Rule rule = Bursty(5);
    if (keyed) rule.by = {"user"};
    Build({});
    LoadNow({rule});
    EXPECT_EQ(Peek(Ann()).remaining, 1);
    EXPECT_THAT(Check(Ann()), IsAllowed());
    EXPECT_EQ(Check(Ann()).retry_after, milliseconds(200));

    now_ += seconds(10);
    EXPECT_EQ(Peek(FakeRequest("r", {{"user", "bob"}})).remaining, 6);
    EXPECT_EQ(Peek(Ann()).remaining, 6);
  }
}

// Ruled out: a load of the same rule that gives or takes away what is stored.
TEST_F(WarmCellsTest, ALoadOfARuleThatWasThereIsNoNewStart) {
  Rule rule = Bursty(5);
  rule.by = {"user"};
  Build({});
  LoadNow({rule});
  now_ += seconds(10);
  for (const int64_t limit : {5, 6, 5}) {
    rule.rate.limit = limit;
    LoadNow({rule});
    EXPECT_EQ(Peek(Ann()).remaining, limit + 1);
  }
  LoadNow({});
  LoadNow({rule});
  EXPECT_EQ(Peek(Ann()).remaining, 6);
}

TEST_F(WarmCellsTest, ACallerThatWaitsForLessThanTheRuleAllowsTakesNothing) {
  for (const bool counts : {false, true}) {
    for (const bool keyed : {false, true}) {
      for (Rule rule : {Bursty(10), Even(10)}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(rule.algorithm)) + (keyed ? " keyed" : ""));
        rule.wait = seconds(30);
        rule.count_refused = counts;
        if (keyed) rule.by = {"user"};
        Build({rule});
        EXPECT_THAT(Check(Ann(21)), IsAllowed());
        const Duration owed = Peek(Ann(1)).wait;
        ASSERT_GE(owed, seconds(1));

        FakeRequest impatient = Ann(5);
        impatient.wait_max = owed - milliseconds(300);
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(Peek(impatient).retry_after, milliseconds(300));
          const Decision refused = Check(impatient);
          EXPECT_THAT(refused, IsRefusedBy("a", Reason::kLimit));
          EXPECT_EQ(refused.retry_after, milliseconds(300));
        }
        impatient.wait_max = owed;
        EXPECT_EQ(Check(impatient).wait, owed);
      }
    }
  }
}

TEST_F(WarmCellsTest, ARefusalByALaterRuleLeavesNoTurnAndNoWarmth) {
  for (Rule rule : {Bursty(10), LimitRule("a", 10, seconds(1), Algorithm::kWarmUp)}) {
    rule.by = {"user"};
    rule.wait = seconds(30);
    Build({rule});
    EXPECT_THAT(Check(Ann(12)), IsAllowed());
    const Duration owed = Peek(Ann(1)).wait;
    Load({rule, LimitRule("wall", 0, minutes(1))});
    for (int i = 0; i < 100; ++i)
      EXPECT_FALSE(Check(Ann(3)).allowed());
    Load({rule});
    EXPECT_EQ(Peek(Ann(1)).wait, owed);
  }
}

TEST_F(WarmCellsTest, AnOverLargeRequestIsPaidByThoseAfterIt) {
  for (Rule rule : {Bursty(10), Even(10)}) {
    rule.cost.reserve = 1000;
    Build({rule});
    EXPECT_THAT(Check(Ann()), IsAllowed());
    const Decision refused = Check(Ann(1));
    EXPECT_THAT(refused, IsRefusedBy("a", Reason::kLimit));
    EXPECT_GE(refused.retry_after, seconds(99));
  }
}

TEST_F(WarmCellsTest, ACallThatCostLessGivesTheRestBack) {
  for (Rule rule : {Bursty(10), Even(10)}) {
    rule.cost = {.reserve = 100, .settle = "", .max_debt = 50};
    Build({rule});
    Attempt less;
    Enter(less, Ann());
    Settle(less, Outcome::kOk, 20);
    const Duration after_less = Peek(Ann(1)).retry_after;
    EXPECT_LE(after_less, seconds(2));
    now_ += after_less;
    Attempt more;
    Enter(more, Ann(1));
    Settle(more, Outcome::kOk, 31);
    EXPECT_LE(Peek(Ann(1)).retry_after, milliseconds(3100));
    EXPECT_GE(Peek(Ann(1)).retry_after, milliseconds(2900));
  }
}

TEST_F(WarmCellsTest, SixteenThreadsAdmitExactlyWhatIsThere) {
  struct Case {
    Algorithm algorithm;
    int there;
  };
  for (const auto& [algorithm, there] :
       {Case{Algorithm::kSmoothBursty, 901}, Case{Algorithm::kWarmUp, 1},
        Case{Algorithm::kWarmUpWindow, 300}}) {
    for (const bool keyed : {false, true}) {
      Rule rule = LimitRule("a", 900, hours(1), algorithm);
      if (keyed) rule.by = {"user"};
      Build({rule});
      std::atomic<int> admitted{0};
      std::vector<std::thread> threads;
      for (int i = 0; i < 16; ++i) {
        threads.emplace_back([&] {
          for (int call = 0; call < 100; ++call)
            admitted.fetch_add(Check(Ann()).allowed() ? 1 : 0);
        });
      }
      for (std::thread& thread : threads)
        thread.join();
      EXPECT_EQ(admitted.load(), there) << static_cast<int>(algorithm);
    }
  }
}

// A rising window limit over reloads: warmth and counts stay while the window does.
TEST_F(WarmCellsTest, AWindowStaysWarmWhenItsLimitChanges) {
  Rule rule = LimitRule("a", 90, seconds(1), Algorithm::kWarmUpWindow);
  Build({rule});
  EXPECT_EQ(Peek(Ann()).remaining, 30);
  for (int second = 0; second < 40; ++second) {
    while (Check(Ann()).allowed()) {
    }
    now_ += seconds(1);
  }
  EXPECT_EQ(Peek(Ann()).remaining, 90);
  rule.rate.limit = 100;
  Load({rule});
  EXPECT_EQ(Peek(Ann()).remaining, 100);
  now_ += hours(1);
  EXPECT_EQ(Peek(Ann()).remaining, 33) << "cold again";
}

}  // namespace
}  // namespace flowguard::engine
