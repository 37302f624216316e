// SPDX-License-Identifier: Apache-2.0
//
// What spares hot cells their calls: the prefilter, leases, shards.
#include <gtest/gtest.h>

#include "quota/known_cells.h"
#include "quota/store_fixture_test.h"

namespace flowguard::quota {
namespace {

using testing::SharedRule;

class HotCellTest : public StoreFixture {
 protected:
  // Answers all that is out and takes `count` times, one after the other.
  int64_t TakeMany(const TestRule& rule, int count) {
    int64_t taken = 0;
    for (int i = 0; i < count; ++i)
      taken += AskAndRun(rule.Take()).status == Status::kTaken ? 1 : 0;
    return taken;
  }
};

// --- prefilter

Rule Filtered(Rule rule) {
  rule.prefilter = true;
  return rule;
}

TEST_F(HotCellTest, WhatThisNodeAloneUsedUpIsRefusedWithoutAsking) {
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                    Algorithm::kFixedWindow, Algorithm::kSlidingWindow}) {
    Build({});
    Rule model =
        Filtered(SharedRule("r" + std::to_string(static_cast<int>(algorithm)), 4, minutes(1)));
    model.algorithm = algorithm;
    const TestRule rule(model);
    const int64_t taken = TakeMany(rule, 4);
    const uint64_t ticket = Ask({rule.Take()});
    ASSERT_TRUE(Answered(ticket)) << "algorithm " << static_cast<int>(algorithm);
    EXPECT_EQ(OutcomeOf(ticket).status, Status::kRefused);
    EXPECT_EQ(taken, algorithm == Algorithm::kLeakyBucket ? 1 : 4);
    EXPECT_GE(store_->status().prefiltered, 1u);
  }
}

TEST_F(HotCellTest, ThePrefilterGoesByTheServersClock) {
  server_.set_ahead_us(30'000'000);  // half a window
  Rule model = Filtered(SharedRule("r", 4, minutes(1)));
  model.algorithm = Algorithm::kFixedWindow;
  const TestRule rule(model);
  TakeMany(rule, 4);
  Pass(seconds(29));
  EXPECT_TRUE(Answered(Ask({rule.Take()})));
  Pass(seconds(2));
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken) << "the server's window is over";
}

TEST_F(HotCellTest, AClockThatStepsForwardDoesNotMakeThePrefilterRefuse) {
  const TestRule rule(Filtered(SharedRule("r", 4, minutes(1))));
  TakeMany(rule, 3);
  server_.set_ahead_us(3'600'000'000);  // another server, an hour ahead
  EXPECT_EQ(TakeMany(rule, 4), 4);
  EXPECT_TRUE(Answered(Ask({rule.Take()})));
}

TEST_F(HotCellTest, ThePrefilterForgetsWhatWeGiveBack) {
  const TestRule rule(Filtered(SharedRule("r", 1, minutes(1))));
  const engine::TakeOutcome held = AskAndRun(rule.Take());
  store_->GiveBack(rule.Take(), held.receipt, loop_.Now());
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
}

// --- leases

Rule Leased(Rule rule, int64_t overshoot) {
  rule.lease.overshoot = overshoot;
  return rule;
}

TEST_F(HotCellTest, UnitsTakenAheadAreGrantedAtOnce) {
  const TestRule rule(Leased(SharedRule("r", 1'000, seconds(1)), 100));
  EXPECT_EQ(TakeMany(rule, 500), 500);

  const StoreStatus status = store_->status();
  EXPECT_GT(status.leased, 400u);
  EXPECT_LT(status.calls, 60u);
  const auto& totals = server_.cells().totals();
  EXPECT_GE(totals.granted + totals.leased, 500);
}

TEST_F(HotCellTest, AllNodesTogetherHoldNoMoreAheadThanTheOvershoot) {
  const TestRule rule(Leased(SharedRule("r", 1'000, seconds(1)), 5));
  for (int i = 0; i < 200; ++i) {
    AskAndRun(rule.Take());
    const auto& totals = server_.cells().totals();
    // Leased units that are neither used nor returned.
    const int64_t used = static_cast<int64_t>(store_->status().leased);
    EXPECT_LE(totals.leased - totals.lease_returned - used, 5);
  }
}

TEST_F(HotCellTest, NearExhaustionEveryTakeAsks) {
  const TestRule rule(Leased(SharedRule("r", 1'000, seconds(1)), 100));
  EXPECT_EQ(TakeMany(rule, 1'100), 1'000) << "no unit lies where it is not needed";
}

TEST_F(HotCellTest, UnusedUnitsAreReturnedWhenIdleAndOnClose) {
  const TestRule rule(Leased(SharedRule("r", 1'000, minutes(1)), 100));
  Build({});
  const TestRule fast(Leased(SharedRule("fast", 1'000, seconds(1)), 100));
  TakeMany(fast, 5);
  ASSERT_GT(store_->status().leases, 0u);
  for (int i = 0; i < 10; ++i) {
    Pass(milliseconds(50));
    Run();
  }
  const auto& totals = server_.cells().totals();
  EXPECT_EQ(totals.granted + totals.leased - totals.lease_returned, 5);

  TakeMany(fast, 5);
  store_->Close();
  Run();
  EXPECT_EQ(totals.granted + totals.leased - totals.lease_returned, 10);
  EXPECT_TRUE(store_->quiet());
}

TEST_F(HotCellTest, ALeaseIsOverWithItsWindow) {
  const TestRule rule(Leased(SharedRule("r", 100, milliseconds(100)), 100));
  TakeMany(rule, 5);
  const uint64_t before = store_->status().leased;
  loop_.Advance(milliseconds(101));  // before the store gets a turn
  EXPECT_FALSE(Answered(Ask({rule.Take()})));
  EXPECT_EQ(store_->status().leased, before);
  Run();
}

TEST_F(HotCellTest, AUnitOfALeaseIsGivenBackToIt) {
  const TestRule rule(Leased(SharedRule("r", 1'000, seconds(1)), 100));
  TakeMany(rule, 5);
  uint64_t ticket = Ask({rule.Take()});
  for (; !Answered(ticket); ticket = Ask({rule.Take()}))
    Run();
  const auto& totals = server_.cells().totals();
  const int64_t given_back = totals.given_back;
  store_->GiveBack(rule.Take(), OutcomeOf(ticket).receipt, loop_.Now());
  Run();
  EXPECT_EQ(totals.given_back, given_back);
  EXPECT_TRUE(Answered(Ask({rule.Take()})));
}

// --- shards

TEST_F(HotCellTest, ShardsSumToTheLimit) {
  Rule model = SharedRule("r", 10, minutes(1));
  model.shards = 4;
  const TestRule rule(model);
  int64_t sum = 0;
  for (int shard = 0; shard < 4; ++shard)
    sum += ShapeOf(rule.Take(), shard).config.rate.limit;
  EXPECT_EQ(sum, 10);

  EXPECT_LE(TakeMany(rule, 40), 10);
  EXPECT_EQ(server_.cells().totals().granted, 10) << "a second shard is asked";
  EXPECT_EQ(server_.cells().size(), 4u);
}

TEST_F(HotCellTest, ATakeOfAShardIsGivenBackToIt) {
  Rule model = SharedRule("r", 4, minutes(1));
  model.shards = 2;
  const TestRule rule(model);
  std::vector<limit::Receipt> receipts;
  for (int i = 0; i < 4; ++i)
    receipts.push_back(AskAndRun(rule.Take()).receipt);
  for (const limit::Receipt& receipt : receipts)
    store_->GiveBack(rule.Take(), receipt, loop_.Now());
  Run();
  EXPECT_EQ(TakeMany(rule, 4), 4);
}

}  // namespace
}  // namespace flowguard::quota
