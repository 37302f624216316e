// SPDX-License-Identifier: Apache-2.0
//
// System rules among other rules: what they refuse, what is counted for them, and that all of
// it comes back.
#include <atomic>
#include <deque>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using namespace std::chrono_literals;
using testing::FakeRequest;
using testing::LimitRule;
using testing::MostCpu;
using testing::MostInflight;
using testing::MostLoad;
using testing::MostMeanTime;
using testing::MostOf;
using testing::MostQps;
using testing::RuleOfSystem;

class SystemRuleTest : public testing::EngineFixture {
 protected:
  void TearDown() override { SettleAll(); }

  // True: the call goes on, and is in progress until SettleAll.
  bool EnterOne(const RequestView& request) {
    Attempt& attempt = calls_.emplace_back();
    Enter(attempt, request);
    if (attempt.entered()) return true;
    calls_.pop_back();
    return false;
  }
  bool EnterOne() { return EnterOne(FakeRequest("r")); }
  void SettleAll() {
    for (Attempt& call : calls_)
      Settle(call);
    calls_.clear();
  }
  // Calls of `took`, at one moment, that have ended.
  void Calls(int count, Duration took) {
    std::deque<Attempt> calls;
    for (int i = 0; i < count; ++i)
      Enter(calls.emplace_back(), FakeRequest("r"));
    now_ += took;
    for (Attempt& call : calls)
      Settle(call);
  }

  std::deque<Attempt> calls_;
};

TEST_F(SystemRuleTest, WhatIsNotKnownRefusesNothing) {
  Build({RuleOfSystem("machine", MostOf({MostLoad(0), MostCpu(0), MostMeanTime(0ns)}))});
  EXPECT_TRUE(Check().allowed());
  engine_->SetSystemReading(
      {.cpu = std::numeric_limits<double>::quiet_NaN(), .load = std::nullopt});
  EXPECT_TRUE(Check().allowed());
}

TEST_F(SystemRuleTest, CpuAboveTheNumberRefusesUntilItIsBelow) {
  Build({RuleOfSystem("machine", MostCpu(0.85))});
  engine_->SetSystemReading({.cpu = 0.85, .load = {}});
  EXPECT_TRUE(Check().allowed());
  engine_->SetSystemReading({.cpu = 0.86, .load = {}});
  const Decision refused = Check();
  EXPECT_FALSE(refused.allowed());
  EXPECT_EQ(refused.reason, Reason::kSystem);
  EXPECT_EQ(refused.retry_after, 1s);
  ASSERT_NE(refused.rule, nullptr);
  EXPECT_EQ(refused.rule->name, "machine");
  EXPECT_EQ(refused.rule->refuse.status, 503);
  EXPECT_EQ(CountersOf("machine").passed, 1u);
  EXPECT_EQ(CountersOf("machine").refused, 1u);
  engine_->SetSystemReading({});
  EXPECT_TRUE(Check().allowed());
}

TEST_F(SystemRuleTest, ACpuOfZeroRefusesAllOnceAnythingIsUsed) {
  Build({RuleOfSystem("machine", MostCpu(0))});
  engine_->SetSystemReading({.cpu = 0, .load = {}});
  EXPECT_TRUE(Check().allowed());
  engine_->SetSystemReading({.cpu = 0.01, .load = {}});
  EXPECT_FALSE(Check().allowed());
}

// Fault ruled out: the load of a whole machine refuses all in a container that is idle.
TEST_F(SystemRuleTest, AForeignLoadNeverRefusesOneCallAtATime) {
  Build({RuleOfSystem("machine", MostLoad(3))});
  engine_->SetSystemReading({.cpu = {}, .load = 60});
  for (int i = 0; i < 1'000; ++i) {
    Attempt call;
    Enter(call, FakeRequest("r"));
    ASSERT_TRUE(call.entered()) << i;
    now_ += 5ms;
    Settle(call);
  }
}

TEST_F(SystemRuleTest, UnderLoadMoreCallsThanTheBestSecondHadRoomForAreRefused) {
  Build({RuleOfSystem("machine", MostLoad(3))});
  engine_->SetSystemReading({.cpu = {}, .load = 2});
  // The best second: 100 calls of 40 ms, room for 4.
  Calls(100, 40ms);
  now_ += 1s;
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(EnterOne());  // below the load that is limited, all go
  engine_->SetSystemReading({.cpu = {}, .load = 3.5});
  EXPECT_FALSE(EnterOne());
  now_ += 40ms;
  SettleAll();
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(EnterOne()) << i;
  EXPECT_FALSE(EnterOne());
  // The estimate is of a minute: what was done before the overload still counts 30 s later.
  now_ += 40ms;
  SettleAll();
  now_ += 30s;
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(EnterOne()) << i;
  EXPECT_FALSE(EnterOne());
}

TEST_F(SystemRuleTest, AMeanTimeAboveTheNumberRefusesForASecond) {
  Build({RuleOfSystem("machine", MostMeanTime(200ms))});
  Calls(3, 200ms);
  now_ += 100ms;
  EXPECT_TRUE(Check().allowed());
  Calls(3, 230ms);
  now_ += 100ms;
  EXPECT_FALSE(Check().allowed());
  now_ += 1100ms;
  EXPECT_TRUE(Check().allowed());
}

TEST_F(SystemRuleTest, CallsThatMeetNoRuleCountToo) {
  Rule rule = RuleOfSystem("machine", MostInflight(3));
  rule.on.resource = "dear";
  Build({rule});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(EnterOne(FakeRequest("cheap")));
  EXPECT_FALSE(EnterOne(FakeRequest("dear")));
  EXPECT_TRUE(EnterOne(FakeRequest("cheap")));  // it meets no rule
  SettleAll();
  EXPECT_TRUE(EnterOne(FakeRequest("dear")));
}

TEST_F(SystemRuleTest, RequestsThatMeetNoRuleCountToo) {
  Rule rule = RuleOfSystem("machine", MostQps(3));
  rule.on.resource = "dear";
  Build({rule});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(Check(FakeRequest("cheap")).allowed());
  EXPECT_FALSE(Check(FakeRequest("dear")).allowed());
  EXPECT_TRUE(Check(FakeRequest("cheap")).allowed());
  now_ += 1100ms;
  EXPECT_TRUE(Check(FakeRequest("dear")).allowed());
}

// A door that keeps no entry of a call which no rule met lets go of it at once.
TEST_F(SystemRuleTest, CallsThatNoRuleMeetsKeepTheTurnThatTheyTook) {
  Rule rule = RuleOfSystem("machine", MostQps(3));
  rule.on.resource = "dear";
  Build({rule});
  for (int i = 0; i < 3; ++i) {
    Attempt call;
    Enter(call, FakeRequest("cheap"));
    ASSERT_TRUE(call.only_counted());
    engine_->Abandon(call, now_);
  }
  EXPECT_FALSE(Check(FakeRequest("dear")).allowed());
}

TEST_F(SystemRuleTest, TheStrictestOfSeveralRulesCounts) {
  Build({RuleOfSystem("wide", MostOf({MostCpu(0.9), MostInflight(5)})),
         RuleOfSystem("narrow", MostInflight(2)), RuleOfSystem("cool", MostCpu(0.5))});
  EXPECT_TRUE(EnterOne());
  EXPECT_TRUE(EnterOne());
  EXPECT_FALSE(EnterOne());
  EXPECT_EQ(CountersOf("narrow").refused, 1u);
  SettleAll();
  engine_->SetSystemReading({.cpu = 0.6, .load = {}});
  EXPECT_FALSE(EnterOne());
  EXPECT_EQ(CountersOf("cool").refused, 1u);
  EXPECT_EQ(CountersOf("wide").refused, 0u);
}

TEST_F(SystemRuleTest, TheMostSpecificMatchDisplacesNoSystemRule) {
  Rule own = RuleOfSystem("own", MostInflight(9));
  own.on.resource = "r";
  RuleSet set;
  set.match = MatchMode::kMostSpecific;
  set.rules = {own, RuleOfSystem("all", MostInflight(1))};
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());
  EXPECT_TRUE(EnterOne());
  EXPECT_FALSE(EnterOne());
}

TEST_F(SystemRuleTest, AShadowRuleCountsWhatItWouldHaveRefused) {
  Rule shadow = RuleOfSystem("shadow", MostOf({MostCpu(0.5), MostInflight(1), MostQps(2)}));
  shadow.shadow = true;
  Build({shadow});
  EXPECT_TRUE(EnterOne());
  EXPECT_EQ(CountersOf("shadow").shadow_refused, 0u);
  EXPECT_TRUE(EnterOne());  // the second at one time
  EXPECT_EQ(CountersOf("shadow").shadow_refused, 1u);
  SettleAll();
  EXPECT_TRUE(Check().allowed());  // the third of its second
  EXPECT_EQ(CountersOf("shadow").shadow_refused, 2u);
  now_ += 2s;
  engine_->SetSystemReading({.cpu = 0.6, .load = {}});
  EXPECT_TRUE(Check().allowed());
  EXPECT_EQ(CountersOf("shadow").shadow_refused, 3u);
}

TEST_F(SystemRuleTest, ARuleThatDegradesMarksWhatIsTooMuch) {
  Rule rule = RuleOfSystem("machine", MostInflight(1));
  rule.degrade.enabled = true;
  Build({rule});
  ASSERT_TRUE(EnterOne());
  EXPECT_FALSE(calls_.back().decision().degraded);
  ASSERT_TRUE(EnterOne());
  EXPECT_TRUE(calls_.back().decision().degraded);
  EXPECT_EQ(CountersOf("machine").degraded, 1u);
}

TEST_F(SystemRuleTest, WhatALaterRuleRefusesTakesNothing) {
  Build({RuleOfSystem("machine", MostOf({MostInflight(2), MostQps(2)})), LimitRule("none", 0, 1s)});
  for (int i = 0; i < 5; ++i) {
    Attempt attempt;
    Enter(attempt, FakeRequest("r"));
    EXPECT_EQ(attempt.decision().reason, Reason::kLimit);
  }
  Load({RuleOfSystem("machine", MostOf({MostInflight(2), MostQps(2)}))});
  EXPECT_TRUE(EnterOne());
  EXPECT_TRUE(EnterOne());
  EXPECT_FALSE(EnterOne());
}

TEST_F(SystemRuleTest, WhatItRefusesTakesNothingOfOtherRules) {
  Rule per_user = LimitRule("per-user", 5, 1s);
  per_user.by = {"user"};
  const FakeRequest ann("r", {{"user", "ann"}});
  Build({per_user, testing::ConcurrencyRule("slots", 5), RuleOfSystem("machine", MostInflight(0))});
  for (int i = 0; i < 10; ++i) {
    Attempt attempt;
    Enter(attempt, ann);
    EXPECT_EQ(attempt.decision().reason, Reason::kSystem);
  }

  Load({per_user, testing::ConcurrencyRule("slots", 5)});

  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(EnterOne(ann)) << i;
  EXPECT_FALSE(EnterOne(ann));
}

TEST_F(SystemRuleTest, WhoIsNotLetInTakesNothing) {
  Rule access;
  access.name = "access";
  access.kind = RuleKind::kAccess;
  access.allow = {{"user", {"ann"}}};
  Build({RuleOfSystem("machine", MostQps(1)), access});
  EXPECT_EQ(Check(FakeRequest("r", {{"user", "bob"}})).reason, Reason::kAccess);
  EXPECT_TRUE(Check(FakeRequest("r", {{"user", "ann"}})).allowed());
  EXPECT_EQ(Check(FakeRequest("r", {{"user", "ann"}})).reason, Reason::kSystem);
}

TEST_F(SystemRuleTest, WhatIsCancelledIsGivenBack) {
  Build({RuleOfSystem("machine", MostOf({MostInflight(1), MostQps(1)}))});
  for (int i = 0; i < 3; ++i) {
    Attempt attempt;
    Enter(attempt, FakeRequest("r"));
    ASSERT_TRUE(attempt.entered()) << i;
    engine_->Cancel(attempt, now_);
  }
}

TEST_F(SystemRuleTest, AfterItsEndACallGivesNothingBack) {
  Build({RuleOfSystem("machine", MostOf({MostInflight(1), MostQps(1)}))});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));
  Settle(attempt);
  Settle(attempt);
  engine_->Cancel(attempt, now_);
  EXPECT_EQ(Check().reason, Reason::kSystem);  // it was the one of this second
}

TEST_F(SystemRuleTest, AWaitHoldsNoPlaceAndTakesOneWhenItIsOver) {
  Rule queue = LimitRule("queue", 1, 1s, Algorithm::kLeakyBucket);
  queue.wait = 5s;
  Build({RuleOfSystem("machine", MostInflight(1)), queue});
  Attempt first;
  Enter(first, FakeRequest("r"));
  ASSERT_TRUE(first.entered());
  Settle(first);
  Attempt waits;
  Enter(waits, FakeRequest("r"));
  ASSERT_TRUE(waits.waiting());
  Load({RuleOfSystem("machine", MostInflight(1))});
  EXPECT_TRUE(EnterOne());  // the place is free
  now_ += 1s;
  engine_->Continue(waits, now_);
  EXPECT_FALSE(waits.entered());
  EXPECT_EQ(waits.decision().reason, Reason::kSystem);
  SettleAll();
  EXPECT_TRUE(EnterOne());
}

TEST_F(SystemRuleTest, ACheckLooksAtCallsAndAPeekTakesNothing) {
  Build({RuleOfSystem("machine", MostOf({MostInflight(1), MostQps(3)}))});
  EXPECT_TRUE(Check().allowed());
  EXPECT_TRUE(EnterOne());
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(Peek().reason, Reason::kSystem);
  EXPECT_EQ(Check().reason, Reason::kSystem);
  SettleAll();
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(Peek().allowed());
  EXPECT_TRUE(Check().allowed());  // the third; the refused one took nothing
  EXPECT_EQ(Peek().reason, Reason::kSystem);
}

TEST_F(SystemRuleTest, CallsInProgressAreKnownToTheRulesOfALaterSet) {
  Build({RuleOfSystem("machine", MostInflight(5))});
  EXPECT_TRUE(EnterOne());
  EXPECT_TRUE(EnterOne());
  Load({RuleOfSystem("other", MostInflight(2))});
  EXPECT_FALSE(EnterOne());
  SettleAll();
  EXPECT_TRUE(EnterOne());
}

TEST_F(SystemRuleTest, ExplainTellsWhatTheRuleSays) {
  Build({RuleOfSystem("machine", MostCpu(0.5))});
  engine_->SetSystemReading({.cpu = 0.6, .load = {}});
  const std::vector<Explanation> told = engine_->Explain(FakeRequest("r"), now_);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].decision.reason, Reason::kSystem);
}

TEST_F(SystemRuleTest, SixteenThreadsAtTenTimesTheNumbersAreAdmittedExactly) {
  constexpr int kCalls = 160;
  constexpr int kThreads = 16;
  const auto run = [this](const SystemRule& most) {
    Build({RuleOfSystem("machine", most), LimitRule("other", 1'000'000, 1h)});
    std::vector<std::deque<Attempt>> calls(kThreads);
    std::atomic<int> admitted{0};
    std::vector<std::thread> threads;
    for (std::deque<Attempt>& own : calls) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10 * kCalls / kThreads; ++i) {
          Attempt& attempt = own.emplace_back();
          Enter(attempt, FakeRequest("r"));
          if (attempt.entered()) {
            ++admitted;
          } else {
            own.pop_back();
          }
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (std::deque<Attempt>& own : calls) {
      for (Attempt& attempt : own)
        Settle(attempt);
    }
    return admitted.load();
  };
  EXPECT_EQ(run(MostInflight(kCalls)), kCalls);
  EXPECT_EQ(CountersOf("machine").refused, 9u * kCalls);
  for (int i = 0; i < kCalls; ++i)  // every place came back
    ASSERT_TRUE(EnterOne()) << i;
  EXPECT_FALSE(EnterOne());
  SettleAll();
  EXPECT_EQ(run(MostQps(kCalls)), kCalls);
  EXPECT_EQ(CountersOf("machine").refused, 9u * kCalls);
}

// Threads that come and go never see a number exceeded, and leave nothing behind.
TEST_F(SystemRuleTest, SixteenThreadsThatComeAndGoStayWithinTheCalls) {
  Build({RuleOfSystem("machine", MostInflight(5))});
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 500; ++n) {
        Attempt attempt;
        Enter(attempt, FakeRequest("r"));
        if (!attempt.entered()) continue;
        const int now = ++inside;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --inside;
        n % 3 == 0 ? engine_->Cancel(attempt, now_) : Settle(attempt);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_LE(most.load(), 5);
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(EnterOne());
  EXPECT_FALSE(EnterOne());
}

}  // namespace
}  // namespace flowguard::engine
