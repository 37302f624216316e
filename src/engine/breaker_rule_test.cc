// SPDX-License-Identifier: Apache-2.0
//
// Breaker rules among the other rules of a request: when they refuse, when a call counts,
// and who gets the probes.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "testing/engine_fixture.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::ErrorCountBreaker;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;

Rule SlowBreaker(std::string name, Duration over) {
  Rule rule;
  rule.name = std::move(name);
  rule.kind = RuleKind::kBreaker;
  rule.breaker.slow_ratio = 0.5;
  rule.breaker.slow_over = over;
  rule.breaker.min_calls = 1;
  return rule;
}

class BreakerRuleTest : public testing::EngineFixture {
 protected:
  // A call from entry to end.  Returns whether it was let through.
  bool Call(Outcome outcome = Outcome::kOk, Duration took = milliseconds(1),
            const FakeRequest& request = FakeRequest("r")) {
    Attempt attempt;
    Enter(attempt, request);
    if (!attempt.entered()) return false;
    now_ += took;
    Settle(attempt, outcome);
    return true;
  }
  // Errors until the breaker, of `errors` above 0, is open.
  void Break(int errors = 1) {
    for (int i = 0; i < errors; ++i)
      ASSERT_TRUE(Call(Outcome::kError));
  }
};

TEST_F(BreakerRuleTest, RefusesWhileOpenAndSaysForHowLong) {
  Build({ErrorCountBreaker("b", 0)});
  Break();

  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  EXPECT_THAT(attempt.decision(), IsRefusedBy("b", Reason::kBreaker));
  EXPECT_EQ(attempt.decision().retry_after, seconds(5));
  now_ += seconds(2);
  EXPECT_EQ(Peek().retry_after, seconds(3));
  EXPECT_EQ(CountersOf("b").breakers_open, 1u);
  EXPECT_EQ(CountersOf("b").refused, 1u);
}

TEST_F(BreakerRuleTest, OneProbeClosesIt) {
  Build({ErrorCountBreaker("b", 0)});
  Break();
  now_ += seconds(5);

  Attempt probe;
  Enter(probe, FakeRequest("r"));
  ASSERT_TRUE(probe.entered());
  EXPECT_EQ(CountersOf("b").breakers_half_open, 1u);
  EXPECT_FALSE(Call()) << "the probe is out";
  Settle(probe);

  EXPECT_TRUE(Call());
  EXPECT_EQ(CountersOf("b").breakers_open, 0u);
}

TEST_F(BreakerRuleTest, AFailedProbeOpensItAgain) {
  Build({ErrorCountBreaker("b", 0)});
  Break();
  now_ += seconds(5);
  ASSERT_TRUE(Call(Outcome::kError));

  EXPECT_FALSE(Call());
  now_ += seconds(5);
  EXPECT_TRUE(Call());
}

TEST_F(BreakerRuleTest, CountsTheTimeFromEntryToSettle) {
  Build({SlowBreaker("slow", milliseconds(100))});

  ASSERT_TRUE(Call(Outcome::kOk, milliseconds(100)));
  ASSERT_TRUE(Call(Outcome::kOk, milliseconds(101))) << "exactly the bound is not slow";
  ASSERT_TRUE(Call(Outcome::kOk, milliseconds(101)));

  EXPECT_FALSE(Call());
}

// What a request waits before it goes is the limiter's doing, not that of what is called.
TEST_F(BreakerRuleTest, AWaitBeforeTheCallIsNoneOfItsTime) {
  Rule queue = LimitRule("queue", 1, seconds(1));
  queue.wait = seconds(10);
  Build({queue, SlowBreaker("slow", milliseconds(100))});
  ASSERT_TRUE(Call());

  Attempt attempt;
  Enter(attempt, FakeRequest("r"));
  ASSERT_TRUE(attempt.waiting());
  now_ += attempt.decision().wait;
  engine_->Continue(attempt, now_);
  ASSERT_TRUE(attempt.entered());
  now_ += milliseconds(5);
  Settle(attempt);

  EXPECT_EQ(CountersOf("slow").breakers_open, 0u);
}

TEST_F(BreakerRuleTest, OurOwnRefusalsAreNeutral) {
  Build({LimitRule("a", 1, minutes(1)), ErrorCountBreaker("b", 0)});
  ASSERT_TRUE(Call());

  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(Call(Outcome::kError));

  EXPECT_EQ(CountersOf("b").breakers_open, 0u);
}

TEST_F(BreakerRuleTest, AProbeIsNotSpentOnWhatAnotherRuleRefuses) {
  Build({ErrorCountBreaker("b", 0), ConcurrencyRule("c", 1)});
  Break();
  Attempt inside;
  now_ += seconds(5);
  Enter(inside, FakeRequest("r"));  // takes the slot, and the probe
  ASSERT_TRUE(inside.entered());
  engine_->Cancel(inside, now_);  // it never went: the probe is free again
  Attempt holder;
  FakeRequest other("r");
  Enter(holder, other);
  ASSERT_TRUE(holder.entered());

  EXPECT_FALSE(Call());
  Settle(holder);

  EXPECT_TRUE(Call()) << "closed by the good probe";
}

TEST_F(BreakerRuleTest, WhatALaterRuleRefusesGivesTheProbeBack) {
  Rule shared = testing::SharedRule("s", 1, seconds(1));
  Build({ErrorCountBreaker("b", 0), shared});
  const auto enter = [this](Attempt& attempt, TakeOutcome::Status status) {
    ASSERT_EQ(engine_->Begin(attempt, FakeRequest("r"), Mode::kEnter, now_), Step::kRemote);
    EXPECT_EQ(CountersOf("b").breakers_half_open, 0u) << "no probe while a store is asked";
    TakeOutcome outcome;
    outcome.status = status;
    outcome.numbers.allowed = status == TakeOutcome::Status::kTaken;
    engine_->Resume(attempt, {&outcome, 1}, now_);
  };
  Attempt failing;
  enter(failing, TakeOutcome::Status::kTaken);
  Settle(failing, Outcome::kError);
  now_ += seconds(5);

  Attempt refused;
  enter(refused, TakeOutcome::Status::kRefused);
  EXPECT_THAT(refused.decision(), IsRefusedBy("s", Reason::kLimit));

  Attempt probe;
  enter(probe, TakeOutcome::Status::kTaken);
  EXPECT_TRUE(probe.entered());
  Settle(probe);
  EXPECT_EQ(CountersOf("b").breakers_open, 0u);
}

TEST_F(BreakerRuleTest, OfTwoBreakersTheOneThatRefusesCostsTheOtherNoProbe) {
  Rule longer = ErrorCountBreaker("longer", 0);
  longer.breaker.open_for = seconds(20);
  Build({ErrorCountBreaker("b", 0), longer});
  Break();
  now_ += seconds(5);

  EXPECT_FALSE(Call());
  EXPECT_EQ(CountersOf("b").breakers_half_open, 0u);
  now_ += seconds(15);
  EXPECT_TRUE(Call());
  EXPECT_TRUE(Call());
}

// A check has no end to learn from: it is told what holds, and takes no probe.
TEST_F(BreakerRuleTest, AnEndlessCheckTakesNoProbe) {
  Build({ErrorCountBreaker("b", 0)});
  Break();
  EXPECT_THAT(Check(), IsRefusedBy("b", Reason::kBreaker));
  now_ += seconds(5);

  EXPECT_THAT(Check(), IsAllowed());
  EXPECT_THAT(Check(), IsAllowed());
  EXPECT_EQ(CountersOf("b").breakers_half_open, 0u);
  FakeRequest request("r");
  request.skip_calls = true;
  now_ -= seconds(5);
  EXPECT_THAT(Check(request), IsAllowed());
}

TEST_F(BreakerRuleTest, InShadowItCountsAndRefusesNothing) {
  Rule shadow = ErrorCountBreaker("b", 0);
  shadow.shadow = true;
  Build({shadow});
  Break();

  EXPECT_TRUE(Call());
  EXPECT_EQ(CountersOf("b").shadow_refused, 1u);
  EXPECT_EQ(CountersOf("b").breakers_open, 1u);
  now_ += seconds(5);
  EXPECT_TRUE(Call());
  EXPECT_EQ(CountersOf("b").breakers_open, 0u);
}

TEST_F(BreakerRuleTest, DegradesInsteadOfRefusing) {
  Rule rule = ErrorCountBreaker("b", 0);
  rule.degrade.enabled = true;
  Build({rule});
  Break();

  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  EXPECT_TRUE(attempt.decision().degraded);
  EXPECT_EQ(attempt.decision().verdict, Verdict::kAllow);
  Settle(attempt, Outcome::kError);
  EXPECT_EQ(CountersOf("b").degraded, 1u);
  now_ += seconds(5);
  EXPECT_TRUE(Call()) << "what went the cheaper way says nothing about the way it guards";
  EXPECT_EQ(CountersOf("b").breakers_open, 0u);
}

// An answer from here calls nothing, so it must not hold the probe of who would.
TEST_F(BreakerRuleTest, AnAnswerThatDegradesTakesNoProbe) {
  Rule cheap = LimitRule("cheap", 1, minutes(1));
  cheap.degrade.enabled = true;
  cheap.degrade.status = 200;
  Build({ErrorCountBreaker("b", 0), cheap});
  Break();
  now_ += seconds(5);

  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  EXPECT_TRUE(attempt.decision().degraded);
  EXPECT_EQ(CountersOf("b").breakers_half_open, 0u);
  engine_->Cancel(attempt, now_);
}

// Who knows when it was the callee's turn says how long it took.
TEST_F(BreakerRuleTest, WhatIsToldBeforeTheEndCountsInItsPlace) {
  Build({SlowBreaker("slow", milliseconds(100)), ConcurrencyRule("c", 1)});
  Attempt download;
  Enter(download, FakeRequest("r"));
  engine_->TellBreakers(download, Outcome::kOk, milliseconds(5), now_);
  now_ += seconds(30);
  EXPECT_EQ(CountersOf("c").inflight, 1) << "the call goes on";
  Settle(download);
  EXPECT_EQ(CountersOf("slow").breakers_open, 0u);

  Attempt hung;
  Enter(hung, FakeRequest("r"));
  engine_->TellBreakers(hung, Outcome::kCancelled, milliseconds(200), now_);
  EXPECT_EQ(CountersOf("slow").breakers_open, 1u);
  Settle(hung, Outcome::kCancelled);
}

TEST_F(BreakerRuleTest, ALookMakesNoBreaker) {
  Rule rule = ErrorCountBreaker("b", 0);
  rule.by = {"user"};
  Build({rule});
  for (size_t i = 0; i < base::kBreakersPerRuleMax; ++i) {
    const std::string user = "u" + std::to_string(i);
    EXPECT_THAT(Peek(FakeRequest("r", {{"user", user}})), IsAllowed());
  }

  ASSERT_TRUE(Call(Outcome::kError, {}, FakeRequest("r", {{"user", "late"}})));

  EXPECT_TRUE(Call(Outcome::kOk, {}, FakeRequest("r", {{"user", "later"}}))) << "has its own";
  EXPECT_THAT(Peek(FakeRequest("r", {{"user", "late"}})), IsRefusedBy("b", Reason::kBreaker));
}

TEST_F(BreakerRuleTest, EachKeyHasItsOwn) {
  Rule rule = ErrorCountBreaker("b", 0);
  rule.by = {"resource", "user"};
  Build({rule});
  const FakeRequest ann("r", {{"user", "ann"}});
  const FakeRequest bob("r", {{"user", "bob"}});
  ASSERT_TRUE(Call(Outcome::kError, milliseconds(1), ann));

  EXPECT_FALSE(Call(Outcome::kOk, milliseconds(1), ann));
  EXPECT_TRUE(Call(Outcome::kOk, milliseconds(1), bob));
  EXPECT_TRUE(Call(Outcome::kOk, milliseconds(1), FakeRequest("q", {{"user", "ann"}})));
  EXPECT_EQ(CountersOf("b").breakers_open, 1u);
}

TEST_F(BreakerRuleTest, KeysBeyondTheBoundShareOne) {
  Rule rule = ErrorCountBreaker("b", 0);
  rule.by = {"user"};
  Build({rule});
  for (size_t i = 0; i < base::kBreakersPerRuleMax; ++i) {
    const std::string user = "u" + std::to_string(i);
    ASSERT_TRUE(Call(Outcome::kOk, {}, FakeRequest("r", {{"user", user}})));
  }

  ASSERT_TRUE(Call(Outcome::kError, {}, FakeRequest("r", {{"user", "late"}})));

  EXPECT_FALSE(Call(Outcome::kOk, {}, FakeRequest("r", {{"user", "later"}})));
  EXPECT_TRUE(Call(Outcome::kOk, {}, FakeRequest("r", {{"user", "u7"}})));
}

TEST_F(BreakerRuleTest, StateOutlivesAReloadOfOtherRules) {
  Build({ErrorCountBreaker("b", 0)});
  Break();

  Load({LimitRule("new", 100, seconds(1)), ErrorCountBreaker("b", 0)});
  EXPECT_FALSE(Call());

  Rule reworded = ErrorCountBreaker("b", 0);
  reworded.refuse.message = "back soon";
  Load({reworded});
  EXPECT_FALSE(Call()) << "how a refusal reads changes nothing";
}

TEST_F(BreakerRuleTest, OtherNumbersOrAnAbsenceStartANewOne) {
  const Rule first = ErrorCountBreaker("b", 0);
  Rule changed = first;
  changed.breaker.open_for = seconds(9);
  Build({first});
  Break();

  Load({changed});
  EXPECT_TRUE(Call()) << "a breaker with other numbers is a new one";
  Load({first});
  EXPECT_TRUE(Call()) << "and so is that of the old numbers, when they come back";
  Break();
  Load({LimitRule("else", 100, seconds(1))});
  Load({first});
  EXPECT_TRUE(Call()) << "as is one whose rule was away";
  EXPECT_EQ(CountersOf("b").breaker_opened, 2u) << "what was counted stays counted";
}

// Rules out: a call that ends at a breaker which a reload has taken away.
TEST_F(BreakerRuleTest, ACallEndsAtTheBreakerThatAdmittedIt) {
  Build({ErrorCountBreaker("b", 0)});
  Attempt out;
  Enter(out, FakeRequest("r"));
  Rule changed = ErrorCountBreaker("b", 0);
  changed.breaker.probes = 2;
  Load({changed});
  Load({});

  Settle(out, Outcome::kError);

  Load({changed});
  EXPECT_TRUE(Call());
}

class Recorder final : public BreakerListener {
 public:
  void OnBreaker(const BreakerChange& change) override {
    seen.push_back(std::string(change.rule) + ":" + std::to_string(static_cast<int>(change.to)) +
                   ":" + std::to_string(change.bad) + "/" + std::to_string(change.calls));
  }
  std::vector<std::string> seen;
};

TEST_F(BreakerRuleTest, TellsItsListener) {
  Recorder recorder;
  breaker_listener_ = &recorder;
  Build({ErrorCountBreaker("b", 1)});
  Break(2);
  now_ += seconds(5);
  ASSERT_TRUE(Call());

  EXPECT_EQ(recorder.seen, (std::vector<std::string>{"b:1:2/2", "b:2:0/0", "b:0:0/1"}));
}

// Every half-open phase lets exactly the probes of the rule through, whoever asks.
TEST_F(BreakerRuleTest, ManyThreadsShareTheProbes) {
  Rule rule = ErrorCountBreaker("b", 0);
  rule.breaker.probes = 3;
  rule.by = {"user"};
  Build({rule});
  constexpr int kThreads = 8;
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(Call(Outcome::kError, {}, FakeRequest("r", {{"user", "ann"}})));
    now_ += seconds(5);
    std::atomic<int> entered{0};
    std::vector<Attempt> attempts(kThreads);
    std::vector<std::thread> threads;
    for (Attempt& attempt : attempts) {
      threads.emplace_back([&] {
        Enter(attempt, FakeRequest("r", {{"user", "ann"}}));
        if (attempt.entered()) entered.fetch_add(1);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    ASSERT_EQ(entered.load(), 3) << "round " << round;
    for (Attempt& attempt : attempts)
      Settle(attempt);
    ASSERT_EQ(CountersOf("b").breakers_open + CountersOf("b").breakers_half_open, 0u);
  }
}

}  // namespace
}  // namespace flowguard::engine
