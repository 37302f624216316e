// SPDX-License-Identifier: Apache-2.0
//
// Rules that change while requests are decided by them.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "testing/engine_fixture.h"
#include "testing/load_hold.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;

using ReloadTest = testing::EngineFixture;

TEST_F(ReloadTest, StateOfAnUnchangedRuleIsKept) {
  Rule keyed = LimitRule("keyed", 5, minutes(1));
  keyed.by = {"user"};
  Build({LimitRule("single", 10, minutes(1)), keyed});
  const FakeRequest ann("r", {{"user", "ann"}});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(Check(ann).allowed());

  Load({keyed, LimitRule("new", 100, minutes(1)), LimitRule("single", 10, minutes(1))});

  EXPECT_EQ(Peek(ann).remaining, 2);
  EXPECT_EQ(Peek(FakeRequest("r", {{"user", "bob"}})).remaining, 5);
}

TEST_F(ReloadTest, ALoweredLimitHoldsAtTheNextRequestForEveryAlgorithm) {
  for (const Algorithm algorithm : testing::kEveryAlgorithm) {
    Rule rule = LimitRule("a", 100, minutes(1), algorithm);
    rule.by = {"user"};
    const FakeRequest ann("r", {{"user", "ann"}});
    Build({rule});
    now_ = Instant(std::chrono::hours(24 * 8));
    EXPECT_TRUE(Check(ann).allowed());

    rule.rate.limit = 2;
    Load({rule});

    int allowed = 0;
    for (int i = 0; i < 5; ++i) {
      const Decision decision = Check(ann);
      EXPECT_EQ(decision.limit, 2) << "algorithm " << static_cast<int>(algorithm);
      allowed += decision.allowed() ? 1 : 0;
    }
    EXPECT_GE(allowed, 1) << "algorithm " << static_cast<int>(algorithm);
    EXPECT_LE(allowed, 2) << "algorithm " << static_cast<int>(algorithm);
  }
}

TEST_F(ReloadTest, ALogKeepsWhatIsUsedWhenItsLimitChanges) {
  Rule rule = LimitRule("a", 3, minutes(1));
  rule.algorithm = Algorithm::kSlidingLog;
  Build({rule});
  Spend(2);

  rule.rate.limit = 5;
  Load({rule});
  const Decision raised = Peek();
  rule.rate.limit = 2;
  Load({rule});

  EXPECT_EQ(raised.remaining, 3);
  EXPECT_THAT(Check(), IsRefusedBy("a", Reason::kLimit));
}

TEST_F(ReloadTest, ARaisedLimitLetsWhatItAddsThroughAtOnceForALog) {
  Rule rule = LimitRule("a", 3, minutes(1));
  rule.algorithm = Algorithm::kSlidingLog;
  Build({rule});
  Spend(4);

  rule.rate.limit = 5;
  Load({rule});
  Spend(2);

  EXPECT_THAT(Check(), IsRefusedBy("a", Reason::kLimit));
  EXPECT_EQ(CountersOf("a").passed, 5U);
}

TEST_F(ReloadTest, ALogThatComesBackToItsFirstLimitKeepsWhatWasTakenMeanwhile) {
  Rule rule = LimitRule("a", 5, minutes(1));
  rule.algorithm = Algorithm::kSlidingLog;
  rule.by = {"user"};
  const FakeRequest ann("r", {{"user", "ann"}});
  Build({rule});
  EXPECT_TRUE(Check(ann).allowed());

  rule.rate.limit = 6;
  Load({rule});
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(Check(ann).allowed());
  rule.rate.limit = 5;
  Load({rule});

  EXPECT_THAT(Check(ann), IsRefusedBy("a", Reason::kLimit));
}

TEST_F(ReloadTest, ACallSettlesOnTheStateThatALogHasByThen) {
  Rule rule = LimitRule("a", 10, minutes(1));
  rule.algorithm = Algorithm::kSlidingLog;
  rule.cost = {.reserve = 2, .settle = "", .max_debt = 0};
  Build({rule});
  Attempt less;
  Enter(less, FakeRequest("r"));
  Attempt more;
  Enter(more, FakeRequest("r"));

  rule.rate.limit = 20;
  Load({rule});
  Spend();
  ASSERT_EQ(Peek().remaining, 14);
  Settle(less, Outcome::kOk, 1);
  EXPECT_EQ(Peek().remaining, 15);
  Settle(more, Outcome::kOk, 5);

  EXPECT_EQ(Peek().remaining, 12);
}

TEST_F(ReloadTest, WarningsOfTheRulesThatWereLoadedAreTold) {
  Rule odd = LimitRule("odd", 1, seconds(1));
  odd.algorithm = Algorithm::kFixedWindow;
  Build({});
  RuleSet set;
  set.rules = {odd, LimitRule("plain", 1, seconds(1))};
  std::vector<std::string> warnings = {"of another set"};

  ASSERT_TRUE(engine_->Load(set, &warnings).ok());

  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("\"odd\""), std::string::npos);
}

// The old window must not go on blocking.
TEST_F(ReloadTest, AShorterWindowHoldsFromTheNextRequestOn) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kFixedWindow}) {
    Rule rule = LimitRule("a", 1, seconds(60));
    rule.algorithm = algorithm;
    Build({rule});
    Spend();
    now_ += seconds(1);

    rule.rate.window = seconds(1);
    Load({rule});

    Spend();
    now_ += seconds(1);
    EXPECT_THAT(Check(), IsAllowed()) << "algorithm " << static_cast<int>(algorithm);
  }
}

// What lies up to 10 s beyond the new capacity could be of a late stamp, and is kept.
TEST_F(ReloadTest, AFasterRateIsHeldUpByOldDebtForTenSecondsAtMost) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kLeakyBucket}) {
    for (const int window : {2, 10, 11, 60, 3'600}) {
      Rule rule = LimitRule("a", 1, seconds(window));
      rule.algorithm = algorithm;
      Build({rule});
      Spend();

      rule.rate = {1'000, seconds(1)};
      Load({rule});
      const Decision first = Check();

      EXPECT_LE(first.retry_after, seconds(10) + milliseconds(1)) << window;
      now_ += first.retry_after;
      EXPECT_THAT(Check(), IsAllowed()) << window;
    }
  }
}

TEST_F(ReloadTest, AnotherWindowStartsNewCellsForWhatCountsByWindowsAndIsToldOf) {
  for (const Algorithm algorithm : testing::kEveryAlgorithm) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)));
    const bool kept = algorithm == Algorithm::kTokenBucket || algorithm == Algorithm::kLeakyBucket;
    Rule rule = LimitRule("a", 1, minutes(1));
    rule.algorithm = algorithm;
    rule.by = {"user"};
    const FakeRequest ann("r", {{"user", "ann"}});
    Build({rule});
    EXPECT_TRUE(Check(ann).allowed());
    EXPECT_FALSE(Check(ann).allowed());

    rule.rate.window = minutes(2);
    RuleSet set;
    set.rules = {rule};
    std::vector<std::string> warnings;
    ASSERT_TRUE(engine_->Load(set, &warnings).ok());

    const auto told = std::any_of(warnings.begin(), warnings.end(), [](const std::string& line) {
      return line.find("\"a\": rate: the window") != std::string::npos &&
             line.find("start anew") != std::string::npos;
    });
    EXPECT_EQ(told, !kept);
    EXPECT_EQ(Check(ann).allowed(), !kept);
    ASSERT_TRUE(engine_->Load(set, &warnings).ok());
    EXPECT_FALSE(std::any_of(warnings.begin(), warnings.end(), [](const std::string& line) {
      return line.find("start anew") != std::string::npos;
    })) << "the window is the same";
  }
}

TEST_F(ReloadTest, ARuleOfWhichNotOneStateFitsIsAnError) {
  EngineOptions options;
  options.state_bytes = base::kStateBytesMin;
  engine_ = *Engine::Create(options);
  RuleSet set;
  set.rules = {LimitRule("log", 100'000, minutes(1)), LimitRule("plain", 1, minutes(1))};
  set.rules[0].algorithm = Algorithm::kSlidingLog;

  const Result<void> loaded = engine_->Load(set);

  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("\"log\""), std::string::npos) << loaded.error().message;
  EXPECT_EQ(engine_->Counters().reload_failures, 1u);
}

TEST_F(ReloadTest, AnotherKeyStartsNewCells) {
  Rule rule = LimitRule("a", 1, minutes(1));
  rule.by = {"user"};
  Build({rule});
  const FakeRequest request("r", {{"user", "ann"}, {"tenant", "ann"}});
  EXPECT_TRUE(Check(request).allowed());
  EXPECT_FALSE(Check(request).allowed());

  rule.by = {"tenant"};
  Load({rule});

  EXPECT_TRUE(Check(request).allowed());
}

TEST_F(ReloadTest, OfSeveralRulesForOneKeyThoseThatStayKeepTheirState) {
  for (const Algorithm algorithm : testing::kEveryAlgorithm) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)));
    const auto band = [algorithm](std::string name, int64_t limit, Duration window) {
      Rule rule = LimitRule(std::move(name), limit, window, algorithm);
      rule.by = {"user"};
      return rule;
    };
    const Rule minute = band("minute", 500, minutes(1));
    const FakeRequest ann("r", {{"user", "ann"}});
    const auto left = [&](const std::string& rule) -> int64_t {
      for (const Explanation& told : engine_->Explain(ann, now_)) {
        if (told.rule == rule) return told.decision.remaining;
      }
      return -1;
    };
    Build({band("second", 10, seconds(1)), minute, band("hour", 10'000, std::chrono::hours(1))});
    for (int i = 0; i < 5; ++i)
      EXPECT_TRUE(Check(ann).allowed());

    Load({minute, band("half-hour", 300, minutes(30))});

    EXPECT_EQ(left("minute"), 495);
    EXPECT_EQ(left("half-hour"), 300);
    EXPECT_EQ(left("second"), -1);
    for (int i = 0; i < 300; ++i)
      EXPECT_TRUE(Check(ann).allowed());
    EXPECT_THAT(Check(ann), IsRefusedBy("half-hour", Reason::kLimit));
  }
}

TEST_F(ReloadTest, ASetWithAnErrorChangesNothingAndIsCounted) {
  Build({LimitRule("a", 1, minutes(1))});
  RuleSet bad;
  bad.rules = {LimitRule("a", 5, minutes(1)), LimitRule("b", -5, minutes(1))};

  const Result<void> result = engine_->Load(bad);

  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("\"b\""), std::string::npos) << result.error().message;
  EXPECT_EQ(Peek().limit, 1);
  EXPECT_EQ(engine_->Counters().reload_failures, 1u);
  EXPECT_EQ(engine_->Rules().rules.size(), 1u);
}

TEST_F(ReloadTest, CountersBelongToTheNameAndNeverFall) {
  Build({LimitRule("a", 1, minutes(1))});
  Spend(3);

  Load({});
  Spend();
  EXPECT_FALSE(CountersOf("a").loaded);
  Load({LimitRule("a", 7, minutes(1))});
  now_ += minutes(10);
  Spend();

  EXPECT_TRUE(CountersOf("a").loaded);
  EXPECT_EQ(CountersOf("a").passed, 2u);
  EXPECT_EQ(CountersOf("a").refused, 2u);
}

TEST_F(ReloadTest, ACallSettlesOnTheCellsThatItEnteredBy) {
  Build({ConcurrencyRule("slots", 2)});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  for (int i = 0; i < 100; ++i) {
    Load({});
    Load({ConcurrencyRule("slots", 2 + i % 3)});
  }
  EXPECT_EQ(CountersOf("slots").inflight, 1);
  EXPECT_EQ(engine_->Counters().snapshots, 1u) << "a call keeps no rule set alive";
  Settle(attempt);

  EXPECT_EQ(CountersOf("slots").inflight, 0);
  EXPECT_EQ(Peek().remaining, Peek().limit);
}

TEST_F(ReloadTest, CountersAndRulesAreToldWhileALoadIsInProgress) {
  Build({LimitRule("first", 10, minutes(1))});
  Spend(3);
  const LoadHold load(*engine_);  // whoever waits for it waits for ever

  const EngineCounters counters = engine_->Counters();
  EXPECT_EQ(counters.generation, 1u);
  ASSERT_EQ(counters.rules.size(), 1u);
  EXPECT_EQ(counters.rules[0].rule, "first");
  EXPECT_TRUE(counters.rules[0].loaded);
  EXPECT_EQ(counters.rules[0].passed, 3u);
  EXPECT_EQ(engine_->Rules().rules.size(), 1u);
  EXPECT_EQ(Peek().remaining, 7);
}

TEST_F(ReloadTest, ALoadThatFailsIsCountedWhileAnotherIsInProgress) {
  Build({LimitRule("first", 10, minutes(1))});
  RuleSet wrong;
  wrong.rules = {LimitRule("negative", -1, minutes(1))};
  const LoadHold load(*engine_);

  EXPECT_FALSE(engine_->Load(wrong).ok());
  EXPECT_EQ(engine_->Counters().reload_failures, 1u);
}

// A rule map that is cleared and filled again has a moment without rules.
TEST_F(ReloadTest, ARuleThatRefusesAllNeverLetsOneThroughWhileItIsReloaded) {
  Rule wall = LimitRule("wall", 0, seconds(1));
  Build({wall});
  std::atomic<bool> stop{false};
  std::atomic<int64_t> admitted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        if (Check().allowed()) admitted.fetch_add(1);
      }
    });
  }
  for (int i = 0; i < 10'000; ++i) {
    wall.refuse.message = i % 2 == 0 ? "even" : "odd";
    Load({wall});
  }
  stop.store(true);
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(admitted.load(), 0);
  EXPECT_EQ(engine_->Counters().snapshots, 1u);
  EXPECT_EQ(engine_->Counters().generation, 10'001u);
}

}  // namespace
}  // namespace flowguard::engine
