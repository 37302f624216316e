// SPDX-License-Identifier: Apache-2.0
//
// Rules that relate to a resource: its calls are counted and never refused, and those that
// the target matches are refused while the count is used up.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
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
using testing::Waits;

const FakeRequest kRead("db:read");
const FakeRequest kWrite("db:write");

Rule Related(Rule rule) {
  rule.on.resource = "db:read";
  rule.relate_to = "db:write";
  return rule;
}

// Algorithms that can be used up.
std::vector<Rule> EveryRelatedLimit(int64_t limit) {
  std::vector<Rule> rules;
  for (const Algorithm algorithm : testing::kEveryLocalAlgorithm) {
    if (algorithm == Algorithm::kSmoothBursty || algorithm == Algorithm::kWarmUp) continue;
    Rule rule = Related(LimitRule("reads", limit, minutes(1), algorithm));
    rule.wait = {};
    rules.push_back(rule);
  }
  return rules;
}

class RelatedTest : public testing::EngineFixture {
 protected:
  bool Reads() { return Check(kRead).allowed(); }
  int Writes(int times) {
    int allowed = 0;
    for (int i = 0; i < times; ++i)
      allowed += Check(kWrite).allowed() ? 1 : 0;
    return allowed;
  }
};

TEST_F(RelatedTest, AreRefusedFromTheCallThatUsesItUp) {
  Build({Related(LimitRule("reads", 3, seconds(3)))});
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(Reads()) << "reads take nothing";
  EXPECT_EQ(Writes(2), 2);
  EXPECT_TRUE(Reads());

  EXPECT_EQ(Writes(1), 1);

  const Decision refused = Check(kRead);
  EXPECT_THAT(refused, IsRefusedBy("reads", Reason::kLimit));
  EXPECT_EQ(refused.retry_after, seconds(1));
  EXPECT_EQ(refused.remaining, 0);
  now_ += seconds(1);
  EXPECT_TRUE(Reads());
}

TEST_F(RelatedTest, NeverRefusesWhatItCounts) {
  for (const Rule& rule : EveryRelatedLimit(20)) {
    Build({rule});

    EXPECT_EQ(Writes(1'000), 1'000) << static_cast<int>(rule.algorithm);
    EXPECT_FALSE(Reads()) << static_cast<int>(rule.algorithm);
  }
}

// Rules out that many calls keep the others away for long after they have stopped.
TEST_F(RelatedTest, WhatIsBeyondTheLimitIsNoDebt) {
  for (const Rule& rule : EveryRelatedLimit(20)) {
    Build({rule});
    EXPECT_EQ(Writes(1'000), 1'000);

    now_ += minutes(2);

    EXPECT_TRUE(Reads()) << static_cast<int>(rule.algorithm);
  }
}

// The bound that docs/rules.md states, for an algorithm that counts each call.
TEST_F(RelatedTest, OfASlidingLogTheCallsOfTheWindowDecide) {
  Build({Related(LimitRule("reads", 3, seconds(10), Algorithm::kSlidingLog))});
  std::vector<Instant> writes;
  for (int step = 0; step < 400; ++step) {
    now_ += milliseconds(100 + 137 * (step % 23));
    if (step % 3 != 0) {
      EXPECT_EQ(Writes(1), 1);
      writes.push_back(now_);
    }
    // A call that found the log full left no entry: it is the three that did which count.
    std::vector<Instant> kept;
    for (const Instant at : writes) {
      int before = 0;
      for (const Instant other : kept)
        before += at - other < seconds(10) ? 1 : 0;
      if (before < 3) kept.push_back(at);
    }
    int in_window = 0;
    for (const Instant at : kept)
      in_window += now_ - at < seconds(10) ? 1 : 0;
    ASSERT_EQ(Reads(), in_window < 3) << step;
  }
}

TEST_F(RelatedTest, ACallCountsAsItsCost) {
  Build({Related(LimitRule("reads", 10, minutes(1)))});

  EXPECT_TRUE(Check(FakeRequest("db:write", {}, 7)).allowed());
  EXPECT_EQ(Peek(kRead).remaining, 3);
  EXPECT_TRUE(Check(FakeRequest("db:write", {}, 7)).allowed()) << "takes the 3 that are left";

  EXPECT_EQ(Peek(kRead).remaining, 0);
  EXPECT_FALSE(Reads());
}

TEST_F(RelatedTest, ACostlyReadNeedsOneUnitAndTakesNone) {
  Build({Related(LimitRule("reads", 3, minutes(1)))});

  EXPECT_TRUE(Check(FakeRequest("db:read", {}, 100)).allowed());
  EXPECT_EQ(Peek(kRead).remaining, 3);
}

TEST_F(RelatedTest, TheCallsThatItCountsAreToldNothingOfIt) {
  Build({Related(LimitRule("reads", 3, minutes(1)))});

  EXPECT_EQ(Check(kWrite).rule, nullptr);
  EXPECT_EQ(Peek(kWrite).rule, nullptr);
  EXPECT_EQ(Peek(kRead).remaining, 2) << "and a peek counts nothing";
  EXPECT_EQ(CountersOf("reads").passed, 1u);
}

TEST_F(RelatedTest, ACallThatAnotherRuleRefusesDoesNotCount) {
  Rule writes = LimitRule("writes", 1, minutes(1));
  writes.on.resource = "db:write";
  Build({Related(LimitRule("reads", 2, minutes(1))), writes});

  EXPECT_EQ(Writes(5), 1);

  EXPECT_EQ(Peek(kRead).remaining, 1);
  Build({writes, Related(LimitRule("reads", 2, minutes(1)))});
  EXPECT_EQ(Writes(5), 1);
  EXPECT_EQ(Peek(kRead).remaining, 1) << "in whatever order they are written";
}

TEST_F(RelatedTest, ACancelledCallIsGivenBackAndASettledCostIsNot) {
  Build({Related(LimitRule("reads", 10, minutes(1)))});
  Attempt cancelled;
  Enter(cancelled, FakeRequest("db:write", {}, 4));
  engine_->Cancel(cancelled, now_);
  EXPECT_EQ(Peek(kRead).remaining, 10);
  Attempt settled;
  Enter(settled, FakeRequest("db:write", {}, 4));

  Settle(settled, Outcome::kOk, 1);

  EXPECT_EQ(Peek(kRead).remaining, 6);
}

TEST_F(RelatedTest, CallsInProgressOfAnotherResource) {
  Build({Related(ConcurrencyRule("reads", 2))});
  Attempt one;
  Attempt two;
  Attempt three;
  Enter(one, kWrite);
  EXPECT_TRUE(Reads());
  Enter(two, kWrite);
  EXPECT_THAT(Check(kRead), IsRefusedBy("reads", Reason::kConcurrency));

  Enter(three, kWrite);

  EXPECT_TRUE(three.entered()) << "never refused by it";
  EXPECT_EQ(CountersOf("reads").inflight, 3);
  Settle(one);
  EXPECT_FALSE(Reads()) << "two are in progress";
  Settle(two);
  EXPECT_TRUE(Reads());
  Attempt read;
  Enter(read, kRead);
  EXPECT_TRUE(read.entered());
  EXPECT_EQ(CountersOf("reads").inflight, 1) << "a read is none of them";
  Settle(read);
  Settle(three);
  EXPECT_EQ(CountersOf("reads").inflight, 0);
}

// Rules out that the slot which a waiting call takes at its turn is refused to it.
TEST_F(RelatedTest, ACallThatHadToWaitIsCountedWhenItGoes) {
  Rule pace = LimitRule("pace", 1, seconds(1));
  pace.on.resource = "db:write";
  pace.wait = seconds(5);
  Build({Related(ConcurrencyRule("reads", 1)), pace});
  Attempt first;
  Attempt second;
  Enter(first, kWrite);
  Enter(second, kWrite);
  ASSERT_TRUE(second.waiting());
  EXPECT_EQ(CountersOf("reads").inflight, 1);

  now_ += seconds(1);
  engine_->Continue(second, now_);

  EXPECT_TRUE(second.entered());
  EXPECT_EQ(CountersOf("reads").inflight, 2);
  Settle(first);
  EXPECT_FALSE(Reads());
  Settle(second);
  EXPECT_TRUE(Reads());
}

TEST_F(RelatedTest, ACallOfTheResourceThatTheTargetMatchesTooIsNotRefused) {
  Rule rule = Related(LimitRule("reads", 1, minutes(1)));
  rule.on.resource = "db:*";
  Build({rule});

  EXPECT_EQ(Writes(5), 5);
  EXPECT_FALSE(Reads());
}

TEST_F(RelatedTest, InShadowItRefusesNoneAndCounts) {
  Rule rule = Related(LimitRule("reads", 1, minutes(1)));
  rule.shadow = true;
  Build({rule});

  EXPECT_EQ(Writes(3), 3);

  EXPECT_TRUE(Reads());
  EXPECT_EQ(CountersOf("reads").shadow_refused, 1u);
}

TEST_F(RelatedTest, MayDegradeInstead) {
  Rule rule = Related(LimitRule("reads", 1, minutes(1)));
  rule.degrade.enabled = true;
  Build({rule});
  EXPECT_EQ(Writes(1), 1);

  const Decision decision = Check(kRead);

  EXPECT_TRUE(decision.allowed());
  EXPECT_TRUE(decision.degraded);
  EXPECT_FALSE(Check(kWrite).degraded);
}

TEST_F(RelatedTest, AReloadKeepsTheCountUnlessItIsOfAnotherResource) {
  Rule rule = Related(LimitRule("reads", 5, minutes(1), Algorithm::kSlidingLog));
  Build({rule});
  EXPECT_EQ(Writes(3), 3);

  rule.rate.limit = 3;
  Load({rule, LimitRule("other", 100, minutes(1))});
  EXPECT_FALSE(Reads()) << "three of three";
  rule.relate_to = "db:delete";
  Load({rule});

  EXPECT_TRUE(Reads());
  EXPECT_EQ(Check(kWrite).rule, nullptr);
  EXPECT_EQ(Peek(kRead).remaining, 3) << "writes count no longer";
}

// The calls that are in progress over a reload leave where they came in.
TEST_F(RelatedTest, SlotsOverAReloadGoBack) {
  Rule rule = Related(ConcurrencyRule("reads", 1));
  Build({rule});
  Attempt one;
  Enter(one, kWrite);
  rule.concurrency = 2;
  Load({rule});
  Attempt two;
  Enter(two, kWrite);
  EXPECT_FALSE(Reads());

  Load({});
  Settle(one);
  Load({rule});

  EXPECT_TRUE(Reads());
  Settle(two);
  EXPECT_EQ(CountersOf("reads").inflight, 0);
}

TEST_F(RelatedTest, ExplainTellsWhichPartARequestHas) {
  Build({Related(LimitRule("reads", 3, minutes(1)))});
  EXPECT_EQ(Writes(3), 3);

  const std::vector<Explanation> write = engine_->Explain(kWrite, now_);
  const std::vector<Explanation> read = engine_->Explain(FakeRequest("db:read", {}, 1), now_);

  ASSERT_EQ(write.size(), 1u);
  EXPECT_EQ(write[0].matched_by, "resource db:write, counted");
  EXPECT_THAT(write[0].decision, IsAllowed());
  EXPECT_EQ(write[0].decision.remaining, 0);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].matched_by, "resource db:read");
  EXPECT_THAT(read[0].decision, IsRefusedBy("reads", Reason::kLimit));
}

}  // namespace
}  // namespace flowguard::engine
