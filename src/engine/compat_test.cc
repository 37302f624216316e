// SPDX-License-Identifier: Apache-2.0
//
// A set that is to count as Sentinel does, among sets that are not.
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeRequest;
using testing::LimitRule;

class CompatTest : public testing::EngineFixture {
 protected:
  void LoadAs(Compat compat, std::vector<Rule> rules) {
    RuleSet set;
    set.rules = std::move(rules);
    set.compat = compat;
    const Result<void> loaded = engine_->Load(set);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }
  int Greedy(const FakeRequest& request = FakeRequest("r")) {
    int passed = 0;
    while (passed < 1'000 && Check(request).allowed())
      ++passed;
    return passed;
  }
  bool Fails(int times) {
    for (int i = 0; i < times; ++i) {
      Attempt attempt;
      Enter(attempt, FakeRequest("r"));
      if (!attempt.entered()) return false;
      Settle(attempt, Outcome::kError);
    }
    return true;
  }
};

TEST_F(CompatTest, AChangeOfTheCountingStartsCellsAnewAndTheSameKeepsThem) {
  const Rule rule = LimitRule("a", 10, seconds(1), Algorithm::kSlidingLog);
  Build({rule});
  EXPECT_EQ(Greedy(), 10);
  LoadAs(Compat::kSentinel, {rule});
  EXPECT_EQ(Greedy(), 10) << "counts of the one say nothing of the other";
  LoadAs(Compat::kSentinel, {rule, LimitRule("new", 100, seconds(1))});
  EXPECT_EQ(Greedy(), 0);
  EXPECT_EQ(engine_->Rules().compat, Compat::kSentinel) << "as loaded";
  EXPECT_EQ(engine_->Rules().rules[0].algorithm, Algorithm::kSlidingLog) << "as written";
}

TEST_F(CompatTest, AChangeOfTheCountingIsANewBreaker) {
  const Rule rule = testing::ErrorCountBreaker("b", 2, 3);
  Build({rule});
  ASSERT_TRUE(Fails(3));
  EXPECT_FALSE(Fails(1));
  LoadAs(Compat::kSentinel, {rule});
  EXPECT_TRUE(Fails(3));
  EXPECT_FALSE(Fails(1));
  LoadAs(Compat::kSentinel, {rule, LimitRule("new", 100, seconds(1))});
  EXPECT_FALSE(Fails(1)) << "the same breaker";
}

// One cell a value, and what a later rule refuses is given back to it.
TEST_F(CompatTest, ValuesHaveBucketsOfTheirOwnAndGetBackWhatWasNotUsed) {
  Rule values = LimitRule("values", 2, seconds(1));
  values.by = {"user"};
  values.overrides = {{"hot", {5, seconds(1)}, {}}};
  Build({});
  LoadAs(Compat::kSentinel, {values, LimitRule("all", 6, seconds(1), Algorithm::kSlidingLog)});
  EXPECT_EQ(Greedy(FakeRequest("r", {{"user", "a"}})), 2);
  EXPECT_EQ(Greedy(FakeRequest("r", {{"user", "hot"}})), 4) << "six of all";
  now_ += milliseconds(1000);
  EXPECT_EQ(Greedy(FakeRequest("r", {{"user", "hot"}})), 1) << "the one that was given back";
  now_ += milliseconds(1);
  EXPECT_EQ(Greedy(FakeRequest("r", {{"user", "hot"}})), 5);
}

}  // namespace
}  // namespace flowguard::engine
