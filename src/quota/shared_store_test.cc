// SPDX-License-Identifier: Apache-2.0
//
// Coalescing, remembered refusals, several takes of one request, give-backs, bounds.
#include <deque>

#include <gtest/gtest.h>

#include "quota/store_fixture_test.h"

namespace flowguard::quota {
namespace {

using testing::LimitRule;
using testing::SharedRule;

class SharedStoreTest : public StoreFixture {};

Rule Shadow(Rule rule) {
  rule.shadow = true;
  return rule;
}

// --- one cell

TEST_F(SharedStoreTest, TakesOfOneTurnAreOneCallAndGrantedInOrder) {
  const TestRule rule(SharedRule("r", 3, minutes(1)));
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 5; ++i)
    tickets.push_back(Ask({rule.Take()}));
  EXPECT_TRUE(server_.asked().empty()) << "the turn is not over";

  loop_.Settle(*store_);

  ASSERT_EQ(server_.asked().size(), 1u);
  ASSERT_EQ(server_.asked()[0].calls.size(), 1u);
  EXPECT_EQ(server_.asked()[0].calls[0].count, 5);
  Run();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(OutcomeOf(tickets[static_cast<size_t>(i)]).status,
              i < 3 ? Status::kTaken : Status::kRefused);
  }
  EXPECT_EQ(OutcomeOf(tickets[0]).numbers.remaining, 2);
  EXPECT_EQ(OutcomeOf(tickets[2]).numbers.remaining, 0);
  EXPECT_EQ(OutcomeOf(tickets[3]).numbers.retry_after, seconds(20));
  EXPECT_EQ(order_, tickets);
  EXPECT_EQ(server_.cells().totals().granted, 3);
  EXPECT_EQ(store_->status().coalesced, 4u);
}

TEST_F(SharedStoreTest, AnOutcomeTellsTheServersTimeWhereTheServerDecided) {
  server_.set_ahead_us(1'000'000);
  const int64_t server_us = loop_.Now().time_since_epoch().count() / 1000 + 1'000'000;
  const TestRule one(SharedRule("one", 1, minutes(1)));
  const TestRule other(SharedRule("other", 5, minutes(1)));

  EXPECT_EQ(AskAndRun(one.Take()).store_time_us, server_us);
  EXPECT_EQ(AskAndRun(one.Take(0)).store_time_us, server_us) << "a peek";
  EXPECT_EQ(AskAndRun(one.Take()).store_time_us, server_us) << "a refusal";
  EXPECT_EQ(AskAndRun(one.Take()).store_time_us, 0) << "remembered";
  const uint64_t both = Ask({other.Take(), TestRule(SharedRule("third", 5, minutes(1))).Take()});
  Run();
  EXPECT_EQ(OutcomeOf(both, 0).store_time_us, server_us);
  EXPECT_EQ(OutcomeOf(both, 1).store_time_us, server_us);
  const uint64_t failed = Ask({other.Take()});
  loop_.Settle(*store_);
  server_.FailAll();
  loop_.Settle(*store_);
  EXPECT_EQ(OutcomeOf(failed).store_time_us, 0);
}

TEST_F(SharedStoreTest, WhatComesWhileACallIsOutWaitsForIt) {
  const TestRule rule(SharedRule("r", 10, minutes(1)));
  Ask({rule.Take()});
  loop_.Settle(*store_);
  Ask({rule.Take()});
  Ask({rule.Take()});
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u) << "one call of a cell at a time";

  server_.Answer(loop_.Now());
  loop_.Settle(*store_);

  ASSERT_EQ(server_.asked().size(), 1u);
  EXPECT_EQ(server_.asked()[0].calls[0].count, 2);
  Run();
}

TEST_F(SharedStoreTest, CostsThatDifferAreCallsOneAfterTheOther) {
  const TestRule rule(SharedRule("r", 10, minutes(1)));
  for (const int64_t cost : {1, 1, 5, 1, 1})
    Ask({rule.Take(cost)});
  loop_.Settle(*store_);

  ASSERT_EQ(server_.asked().size(), 1u);
  const auto& calls = server_.asked()[0].calls;
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].count, 2);
  EXPECT_EQ(calls[1].cost, 5);
  EXPECT_EQ(calls[2].count, 2);
  Run();
  EXPECT_EQ(server_.cells().totals().granted, 9);
}

TEST_F(SharedStoreTest, MoreThanOneCallCanCountGoInTheNext) {
  const TestRule rule(SharedRule("r", 1'000, minutes(1)));
  std::vector<uint64_t> tickets;
  for (int i = 0; i < 300; ++i)
    tickets.push_back(Ask({rule.Take(1 + i % 2)}));
  Run();
  for (const uint64_t ticket : tickets)
    EXPECT_EQ(OutcomeOf(ticket).status, Status::kTaken);
}

TEST_F(SharedStoreTest, EachThatWaitsIsToldItsOwnWait) {
  Rule with_wait = SharedRule("r", 10, seconds(1));
  with_wait.burst = 1;
  with_wait.wait = seconds(1);
  const TestRule rule(with_wait);
  const uint64_t first = Ask({rule.Take()});
  const uint64_t second = Ask({rule.Take()});
  const uint64_t third = Ask({rule.Take()});
  Run();
  EXPECT_EQ(OutcomeOf(first).numbers.wait, Duration::zero());
  EXPECT_EQ(OutcomeOf(second).numbers.wait, milliseconds(100));
  EXPECT_EQ(OutcomeOf(third).numbers.wait, milliseconds(200));
}

TEST_F(SharedStoreTest, APeekTakesNothing) {
  const TestRule rule(SharedRule("r", 3, minutes(1)));
  const engine::TakeOutcome outcome = AskAndRun(rule.Take(0));
  EXPECT_EQ(outcome.status, Status::kTaken);
  EXPECT_EQ(outcome.numbers.remaining, 3);
  EXPECT_EQ(outcome.receipt.cost, 0);
  EXPECT_EQ(server_.cells().totals().granted, 0);
}

// --- refusals that are remembered

TEST_F(SharedStoreTest, ARefusalIsRememberedUntilItsRetryAfter) {
  const TestRule rule(SharedRule("r", 4, seconds(1)));
  AskAndRun(rule.Take(4));
  EXPECT_EQ(AskAndRun(rule.Take(2)).numbers.retry_after, milliseconds(500));

  Pass(milliseconds(100));
  const uint64_t ticket = Ask({rule.Take(2)});
  ASSERT_TRUE(Answered(ticket)) << "at once";
  EXPECT_EQ(OutcomeOf(ticket).status, Status::kRefused);
  EXPECT_EQ(OutcomeOf(ticket).numbers.retry_after, milliseconds(400));
  EXPECT_EQ(store_->status().denied, 1u);

  Pass(milliseconds(150));
  EXPECT_EQ(AskAndRun(rule.Take(1)).status, Status::kTaken) << "another cost is another question";
  Pass(milliseconds(500));
  EXPECT_EQ(AskAndRun(rule.Take(2)).status, Status::kTaken);
}

TEST_F(SharedStoreTest, ARefusalIsRememberedASecondAtMost) {
  const TestRule rule(SharedRule("r", 1, minutes(1)));
  AskAndRun(rule.Take());
  AskAndRun(rule.Take());
  Pass(milliseconds(999));
  EXPECT_TRUE(Answered(Ask({rule.Take()})));
  Pass(milliseconds(1));
  EXPECT_FALSE(Answered(Ask({rule.Take()})));
  Run();
}

TEST_F(SharedStoreTest, TheTimeOnTheWayIsNotAddedToARefusal) {
  const TestRule rule(SharedRule("r", 1, milliseconds(100)));
  AskAndRun(rule.Take());
  Ask({rule.Take()});
  loop_.Settle(*store_);
  const Instant sent = loop_.Now();
  Pass(milliseconds(15));
  server_.Answer(sent);

  Pass(milliseconds(85));

  EXPECT_FALSE(Answered(Ask({rule.Take()}))) << "the server would grant it";
  Run();
}

TEST_F(SharedStoreTest, OurOwnGiveBackAndAnotherConfigurationForgetRefusals) {
  Rule model = SharedRule("r", 1, minutes(1));
  const TestRule rule(model);
  const engine::TakeOutcome held = AskAndRun(rule.Take());
  AskAndRun(rule.Take());
  EXPECT_TRUE(Answered(Ask({rule.Take()})));

  model.burst = 2;
  EXPECT_EQ(AskAndRun(TestRule(model).Take()).status, Status::kTaken);

  store_->GiveBack(rule.Take(), held.receipt, loop_.Now());
  EXPECT_FALSE(Answered(Ask({rule.Take()})));
  Run();
}

TEST_F(SharedStoreTest, ARefusalFromBeforeOurGiveBackIsNotRemembered) {
  const TestRule rule(SharedRule("r", 1, minutes(1)));
  const engine::TakeOutcome held = AskAndRun(rule.Take());
  Ask({rule.Take()});
  loop_.Settle(*store_);
  store_->GiveBack(rule.Take(), held.receipt, loop_.Now());
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 2u);
  server_.Answer(loop_.Now());  // refuses, and then gets the unit back
  Run();

  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
}

TEST_F(SharedStoreTest, ThoseWhoWaitAreAnsweredByARefusalThatComesIn) {
  const TestRule rule(SharedRule("r", 1, minutes(1)));
  AskAndRun(rule.Take());
  Ask({rule.Take()});
  loop_.Settle(*store_);
  const uint64_t waits = Ask({rule.Take()});
  server_.Answer(loop_.Now());
  EXPECT_EQ(OutcomeOf(waits).status, Status::kRefused);
  loop_.Settle(*store_);
  EXPECT_TRUE(server_.asked().empty());
}

// --- several takes of one request

TEST_F(SharedStoreTest, TakesOfNeighboursGoTogetherAllOrNothing) {
  const TestRule a(SharedRule("a", 5, minutes(1)));
  const TestRule b(SharedRule("b", 1, minutes(1)));
  const uint64_t first = Ask({a.Take(), b.Take()});
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  EXPECT_TRUE(server_.asked()[0].together);
  Run();
  EXPECT_EQ(OutcomeOf(first, 0).status, Status::kTaken);
  EXPECT_EQ(OutcomeOf(first, 1).status, Status::kTaken);

  const uint64_t second = Ask({a.Take(), b.Take()});
  Run();

  EXPECT_EQ(OutcomeOf(second, 0).receipt.cost, 0);
  EXPECT_EQ(OutcomeOf(second, 1).status, Status::kRefused);
  EXPECT_EQ(server_.cells().totals().granted, 2);
  EXPECT_EQ(store_->status().granted, 2u) << "what took nothing is not granted";
  EXPECT_EQ(store_->status().refused, 1u);
  const uint64_t third = Ask({a.Take(), b.Take()});
  EXPECT_TRUE(Answered(third)) << "one of them is known to refuse";
}

TEST_F(SharedStoreTest, TakesElsewhereGoOneAfterTheOtherAndAreGivenBack) {
  server_.set_spread(true);
  const TestRule a(SharedRule("a", 5, minutes(1)));
  const TestRule b(SharedRule("b", 1, minutes(1)));
  AskAndRun(b.Take());
  Pass(seconds(2));
  const uint64_t ticket = Ask({a.Take(), b.Take()});

  Run();

  EXPECT_EQ(OutcomeOf(ticket, 0).receipt.cost, 0);
  EXPECT_EQ(OutcomeOf(ticket, 1).status, Status::kRefused);
  EXPECT_EQ(server_.cells().totals().given_back, 1);
  EXPECT_EQ(AskAndRun(a.Take(5)).status, Status::kTaken);
}

TEST_F(SharedStoreTest, AShadowRuleRefusesForItselfAlone) {
  const TestRule shadow(Shadow(SharedRule("s", 0, minutes(1))));
  const TestRule b(SharedRule("b", 1, minutes(1)));
  const uint64_t ticket = Ask({shadow.Take(), b.Take()});
  Run();
  EXPECT_EQ(OutcomeOf(ticket, 0).status, Status::kRefused);
  EXPECT_EQ(OutcomeOf(ticket, 1).status, Status::kTaken);
  EXPECT_EQ(OutcomeOf(ticket, 1).receipt.cost, 1);
}

// --- answers that do not come

TEST_F(SharedStoreTest, AFailureIsToldAndNeverAskedAgain) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  const uint64_t unknown = Ask({rule.Take()});
  loop_.Settle(*store_);
  server_.Lose(loop_.Now());
  EXPECT_EQ(OutcomeOf(unknown).status, Status::kFailed);
  const uint64_t failed = Ask({rule.Take()});
  loop_.Settle(*store_);
  server_.Fail();
  EXPECT_EQ(OutcomeOf(failed).status, Status::kFailed);
  loop_.Settle(*store_);
  EXPECT_TRUE(server_.asked().empty());
}

TEST_F(SharedStoreTest, WhoStillWaitsAtItsDeadlineIsToldSo) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  Ask({rule.Take()}, seconds(10));
  loop_.Settle(*store_);
  const uint64_t waits = Ask({rule.Take()}, milliseconds(20));
  loop_.Settle(*store_);

  Pass(milliseconds(19));
  EXPECT_FALSE(Answered(waits));
  Pass(milliseconds(1));

  EXPECT_EQ(OutcomeOf(waits).status, Status::kFailed);
  EXPECT_EQ(store_->status().failed_late, 1u);
  Run();
  EXPECT_EQ(server_.cells().totals().granted, 1);
}

// Rules out: a request that has next to no time left failing all that share its call.
TEST_F(SharedStoreTest, WhoHasLessTimeLeftThanTheOthersOfItsCallFailsAlone) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  const uint64_t first = Ask({rule.Take()}, milliseconds(20));
  const uint64_t hasty = Ask({rule.Take()}, milliseconds(1));
  const uint64_t left = Ask({rule.Take()}, milliseconds(1));
  const uint64_t last = Ask({rule.Take()}, milliseconds(20));
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  EXPECT_EQ(server_.asked()[0].deadline, loop_.Now() + milliseconds(20));
  store_->Abandon(left, /*refused=*/true);

  Pass(milliseconds(1));
  EXPECT_EQ(OutcomeOf(hasty).status, Status::kFailed);
  EXPECT_FALSE(Answered(first));
  store_->Abandon(hasty, /*refused=*/true);  // too late to be heard
  Run();

  EXPECT_EQ(OutcomeOf(first).status, Status::kTaken);
  EXPECT_EQ(OutcomeOf(last).status, Status::kTaken);
  EXPECT_EQ(answers_[hasty].times, 1);
  EXPECT_FALSE(Answered(left));
  EXPECT_EQ(server_.cells().totals().granted, 4);
  EXPECT_EQ(server_.cells().totals().given_back, 1) << "of the one that was refused";
  EXPECT_TRUE(store_->quiet());
}

TEST_F(SharedStoreTest, ALateAllowIsGivenBackOnlyIfTheRequestWasRefused) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  for (const bool refused : {true, false}) {
    const uint64_t ticket = Ask({rule.Take()});
    loop_.Settle(*store_);
    store_->Abandon(ticket, refused);
    Run();
    EXPECT_FALSE(Answered(ticket));
    EXPECT_EQ(server_.cells().totals().given_back, 1);
  }
  const uint64_t waits = Ask({rule.Take()});
  store_->Abandon(waits, true);
  Run();
  EXPECT_EQ(server_.cells().totals().granted, 2) << "what had not left yet never leaves";
  EXPECT_TRUE(store_->quiet());
}

// --- give-backs, charges, bounds

TEST_F(SharedStoreTest, GiveBacksAndChargesAreSentAtTheEndOfTheTurn) {
  Rule model = SharedRule("r", 5, minutes(1));
  const TestRule rule(model);
  const engine::TakeOutcome outcome = AskAndRun(rule.Take(5));

  store_->GiveBack(rule.Take(5), {.cost = 2, .mark = outcome.receipt.mark}, loop_.Now());
  Run();
  EXPECT_EQ(AskAndRun(rule.Take(0)).numbers.remaining, 2);

  store_->Charge(rule.Take(), 1, loop_.Now());
  Run();
  EXPECT_EQ(AskAndRun(rule.Take(0)).numbers.remaining, 1);
}

TEST_F(SharedStoreTest, AGiveBackOutOfACountedCallReturnsNoMoreThanItsOwnUnits) {
  const TestRule rule(SharedRule("r", 10, seconds(10)));
  const uint64_t first = Ask({rule.Take()});
  Ask({rule.Take()});
  Run();
  Pass(seconds(1));  // the first of the two has drained
  store_->GiveBack(rule.Take(), OutcomeOf(first).receipt, loop_.Now());
  Run();
  EXPECT_EQ(AskAndRun(rule.Take(0)).numbers.remaining, 9);
}

TEST_F(SharedStoreTest, MoreAsksThanThereIsRoomForFail) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  for (size_t i = 0; i < base::kStoreAsksMax; ++i)
    Ask({rule.Take()}, minutes(1));
  const uint64_t one_more = Ask({rule.Take()}, minutes(1));
  EXPECT_EQ(OutcomeOf(one_more).status, Status::kFailed);
  EXPECT_EQ(store_->status().failed_full, 1u);
  Run();
  EXPECT_TRUE(store_->quiet());
}

TEST_F(SharedStoreTest, TheCellUnusedForLongestIsForgotten) {
  std::deque<TestRule> rules;
  for (size_t i = 0; i < base::kStoreCellsMax + 100; ++i)
    rules.emplace_back(SharedRule("r" + std::to_string(i), 5, minutes(1)));
  for (const TestRule& rule : rules)
    EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
  EXPECT_EQ(store_->status().cells_forgotten, 100u);
}

TEST_F(SharedStoreTest, AfterCloseTakesFailAndGiveBacksStillGo) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  const engine::TakeOutcome outcome = AskAndRun(rule.Take());
  store_->Close();
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kFailed);
  store_->GiveBack(rule.Take(), outcome.receipt, loop_.Now());
  Run();
  EXPECT_EQ(server_.cells().totals().given_back, 1);
  EXPECT_TRUE(store_->quiet());
}

}  // namespace
}  // namespace flowguard::quota
