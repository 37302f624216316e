// SPDX-License-Identifier: Apache-2.0
//
// Servers that go away and come back, concurrency slots, the count of nodes.
#include <deque>

#include <gtest/gtest.h>

#include "quota/store_fixture_test.h"

namespace flowguard::quota {
namespace {

using testing::ConcurrencyRule;
using testing::SharedRule;

class FakeRegister final : public NodeRegister {
 public:
  void Beat(std::string_view owner, Duration ttl, Instant /*deadline*/, uint64_t ticket,
            NodeSink* sink) noexcept override {
    owner_ = owner;
    ttl_ = ttl;
    ticket_ = ticket;
    sink_ = sink;
    ++beats_;
  }
  void Answer(int nodes) { std::exchange(sink_, nullptr)->OnNodes(ticket_, nodes); }
  [[nodiscard]] int beats() const { return beats_; }
  [[nodiscard]] Duration ttl() const { return ttl_; }
  [[nodiscard]] const std::string& owner() const { return owner_; }

 private:
  std::string owner_;
  Duration ttl_{};
  uint64_t ticket_ = 0;
  NodeSink* sink_ = nullptr;
  int beats_ = 0;
};

class UpkeepTest : public StoreFixture {
 protected:
  void FailOnce(const TestRule& rule) {
    Ask({rule.Take()});
    loop_.Settle(*store_);
    server_.FailAll();
    loop_.Settle(*store_);
  }
};

Rule SharedSlots(int64_t slots) {
  Rule rule = ConcurrencyRule("slots", slots);
  rule.scope = Scope::kShared;
  return rule;
}

// --- fallback

TEST_F(UpkeepTest, AServerThatFailsAgainAndAgainIsNotAskedAnyMore) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  for (int i = 0; i < kFailuresToLeave; ++i)
    FailOnce(rule);
  EXPECT_EQ(store_->status().places_away, 1);

  const uint64_t ticket = Ask({rule.Take()});

  ASSERT_TRUE(Answered(ticket)) << "no request waits for a server that is away";
  EXPECT_EQ(OutcomeOf(ticket).status, Status::kFailed);
  EXPECT_TRUE(server_.asked().empty());
  EXPECT_EQ(store_->status().fallback_entered, 1u);
}

TEST_F(UpkeepTest, AProbeThatIsAnsweredEndsFallback) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  for (int i = 0; i < kFailuresToLeave; ++i)
    FailOnce(rule);
  int probes = 0;
  for (int i = 0; i < 100; ++i) {
    Pass(milliseconds(100));
    probes += static_cast<int>(server_.asked().size());
    server_.FailAll();
    loop_.Settle(*store_);
  }
  EXPECT_GE(probes, 8) << "about one a second";
  EXPECT_LE(probes, 25);
  EXPECT_EQ(store_->status().fallback_entered, 1u) << "once, however long";

  for (int i = 0; i < 11 && server_.asked().empty(); ++i)
    Pass(milliseconds(100));
  ASSERT_EQ(server_.asked().size(), 1u) << "a second after the last at the latest";
  EXPECT_EQ(server_.asked()[0].calls[0].op, CellOp::kPeek);
  Run();

  EXPECT_EQ(store_->status().places_away, 0);
  EXPECT_EQ(store_->status().fallback_left, 1u);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
}

// Rules out: a key that holds something else, or memory that is full, for a server that is gone.
TEST_F(UpkeepTest, ErrorsOfOneCellAreNotItsServers) {
  const TestRule broken(SharedRule("broken", 5, minutes(1)));
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  for (int i = 0; i < 2 * kFailuresToLeave; ++i) {
    const uint64_t ticket = Ask({broken.Take()});
    loop_.Settle(*store_);
    ASSERT_EQ(server_.asked().size(), 1u) << "it is asked each time";
    server_.AnswerError();
    EXPECT_EQ(OutcomeOf(ticket).status, Status::kFailed);
  }

  EXPECT_EQ(store_->status().places_away, 0);
  EXPECT_EQ(store_->status().flights_failed, 0u);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
}

TEST_F(UpkeepTest, AProbeThatIsAnsweredByAnErrorEndsFallbackToo) {
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  for (int i = 0; i < kFailuresToLeave; ++i)
    FailOnce(rule);
  EXPECT_EQ(store_->status().places_away, 1);
  Pass(milliseconds(100));
  ASSERT_EQ(server_.asked().size(), 1u);

  server_.AnswerError();

  EXPECT_EQ(store_->status().places_away, 0);
}

// However many cells there are: what counts is which server has them.
TEST_F(UpkeepTest, OneServersFailuresAreNotAnothers) {
  constexpr uint32_t kServers = 3;
  server_.set_spread(true);
  server_.set_servers(kServers);
  std::deque<TestRule> rules;
  for (int i = 0; i < 300; ++i)
    rules.emplace_back(SharedRule("r" + std::to_string(i), 5, minutes(1)));
  for (const TestRule& rule : rules)
    EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
  // One of them does not answer, and the others do.
  const auto ask_all = [&](uint32_t gone) {
    int taken = 0;
    for (const TestRule& rule : rules) {
      const uint64_t ticket = Ask({rule.Take()});
      for (loop_.Settle(*store_); !server_.asked().empty(); loop_.Settle(*store_)) {
        const std::string_view key = server_.asked().front().calls.front().key;
        if (server_.ServerOf(server_.PlaceOf(key)) == gone) {
          server_.Fail();
        } else {
          server_.Answer(loop_.Now());
        }
      }
      taken += OutcomeOf(ticket).status == Status::kTaken ? 1 : 0;
    }
    return taken;
  };
  const int taken = ask_all(0);
  EXPECT_GT(taken, 150);
  EXPECT_LT(taken, 250);
  EXPECT_EQ(store_->status().places_away, 1);
  const uint64_t failed = store_->status().flights_failed;
  EXPECT_EQ(ask_all(0), taken);
  EXPECT_EQ(store_->status().flights_failed, failed) << "it is not asked any more";
}

// Rules out: of a large cluster one master's failures taken for another's.
TEST_F(UpkeepTest, EveryMasterOfTheLargestClusterIsToldApart) {
  constexpr uint32_t kServers = base::kRedisNodesMax + 1;
  server_.set_spread(true);
  server_.set_servers(kServers);
  const TestRule gone(SharedRule("gone", 5, minutes(1)));
  for (int i = 0; i < kFailuresToLeave; ++i)
    FailOnce(gone);
  EXPECT_EQ(store_->status().places_away, 1);
  const uint32_t away = server_.ServerOf(server_.PlaceOf("rl:{gone}"));
  int others = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "r" + std::to_string(i);
    if (server_.ServerOf(server_.PlaceOf("rl:{" + name + "}")) == away) continue;
    ++others;
    EXPECT_EQ(AskAndRun(TestRule(SharedRule(name, 5, minutes(1))).Take()).status, Status::kTaken);
  }
  EXPECT_GT(others, 250);
}

// A cell that moves goes by what its new server does.
TEST_F(UpkeepTest, ACellThatMovesToAServerThatAnswersIsAskedThere) {
  server_.set_spread(true);
  server_.set_servers(1);
  const TestRule rule(SharedRule("r", 5, minutes(1)));
  for (int i = 0; i < kFailuresToLeave; ++i) {
    Ask({rule.Take()});
    loop_.Settle(*store_);
    server_.FailAll();
  }
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kFailed);
  for (uint32_t servers = 2; server_.ServerOf(server_.PlaceOf("rl:{r}")) == 0; ++servers)
    server_.set_servers(servers);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
}

// --- shared concurrency

TEST_F(UpkeepTest, SlotsAreHeldUntilTheyAreReleased) {
  const TestRule rule(SharedSlots(2));
  const engine::TakeOutcome first = AskAndRun(rule.Take());
  EXPECT_EQ(first.status, Status::kTaken);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kRefused);

  store_->GiveBack(rule.Take(), first.receipt, loop_.Now());
  Run();

  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken)
      << "a refusal of slots is not remembered";
}

TEST_F(UpkeepTest, SlotsAreRenewedWhileTheyAreHeld) {
  const TestRule rule(SharedSlots(1));
  const engine::TakeOutcome held = AskAndRun(rule.Take());
  for (int i = 0; i < 100; ++i) {
    Pass(seconds(1));
    Run();
    EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kRefused) << "second " << i;
  }
  store_->GiveBack(rule.Take(), held.receipt, loop_.Now());
  Run();
  Pass(minutes(2));
  EXPECT_TRUE(server_.asked().empty()) << "nothing to renew";
}

// Rules out: what a server forgot (it was started again, or the slots expired while their holder
// was cut off) being admitted on top of what goes on, for as long as there is load.
TEST_F(UpkeepTest, SlotsThatTheServerForgotAreHeldAgain) {
  const TestRule rule(SharedSlots(2));
  std::deque<engine::TakeOutcome> held;
  const auto take = [&] {
    held.push_back(AskAndRun(rule.Take()));
    return held.back().status;
  };
  EXPECT_EQ(take(), Status::kTaken);
  EXPECT_EQ(take(), Status::kTaken);
  server_.cells().Clear();
  EXPECT_EQ(take(), Status::kTaken) << "it knows of none";

  Pass(base::kSlotExpiry / 3);
  Run();

  const auto in_use = [&] {
    return server_.cells().SlotsInUse(server_.cells().OnlyKey(),
                                      loop_.Now().time_since_epoch().count() / 1000);
  };
  EXPECT_EQ(in_use(), 3);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kRefused);
    store_->GiveBack(rule.Take(), held.front().receipt, loop_.Now());
    held.pop_front();
    Run();
  }
  EXPECT_EQ(take(), Status::kTaken);
  EXPECT_EQ(in_use(), 2);
}

// A renewal says how many slots are held, and would bring back what was released before it.
TEST_F(UpkeepTest, AReleaseWaitsForTheRenewalThatIsOut) {
  const TestRule rule(SharedSlots(2));
  const engine::TakeOutcome held = AskAndRun(rule.Take());
  AskAndRun(rule.Take());
  Pass(base::kSlotExpiry / 3);
  ASSERT_EQ(server_.asked().size(), 1u);
  EXPECT_EQ(server_.asked()[0].calls[0].op, CellOp::kRenew);
  EXPECT_EQ(server_.asked()[0].calls[0].cost, 2);

  store_->GiveBack(rule.Take(), held.receipt, loop_.Now());
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  server_.Answer(loop_.Now());
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  EXPECT_EQ(server_.asked()[0].calls[0].op, CellOp::kRelease);
  Run();
}

TEST_F(UpkeepTest, ARenewalWhoseOutcomeIsNotKnownEndsItsEpoch) {
  const TestRule rule(SharedSlots(3));
  AskAndRun(rule.Take());
  Pass(base::kSlotExpiry / 3);
  ASSERT_EQ(server_.asked().size(), 1u);
  const std::string before(server_.asked()[0].calls[0].owner);
  server_.Lose(loop_.Now());
  Ask({rule.Take()});
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  EXPECT_NE(server_.asked()[0].calls[0].owner, before);
  Run();
}

// Rules out: cells that nobody uses any more in the way of others until they would be renewed.
TEST_F(UpkeepTest, CellsWhoseSlotsAreReleasedMakeRoom) {
  const TestRule rule(SharedSlots(1));
  for (size_t i = 0; i < base::kStoreCellsMax + 100; ++i) {
    const std::string client = "12345678" + std::to_string(i);
    const engine::TakeOutcome held = AskAndRun(rule.TakeAs(client));
    ASSERT_EQ(held.status, Status::kTaken) << i;
    store_->GiveBack(rule.TakeAs(client), held.receipt, loop_.Now());
    Run();
  }
  EXPECT_EQ(store_->status().failed_full, 0u);
}

TEST_F(UpkeepTest, CellsAreRenewedTogether) {
  constexpr int kCells = 20;
  const TestRule rule(SharedSlots(kCells));
  for (int i = 0; i < kCells; ++i) {
    Pass(milliseconds(10));
    AskAndRun(rule.TakeAs("12345678" + std::to_string(i)));
  }
  Pass(base::kSlotExpiry / 3);
  ASSERT_TRUE(server_.asked().empty());
  Pass(milliseconds(500));
  size_t renewals = 0;
  for (const auto& asked : server_.asked())
    renewals += asked.calls.size();
  EXPECT_EQ(renewals, kCells);
  Run();
}

TEST_F(UpkeepTest, ASlotWhoseOutcomeIsNotKnownExpiresAlthoughOthersAreHeld) {
  const TestRule rule(SharedSlots(3));
  const engine::TakeOutcome before = AskAndRun(rule.Take());
  Ask({rule.Take()});
  loop_.Settle(*store_);
  server_.Lose(loop_.Now());
  const engine::TakeOutcome after = AskAndRun(rule.Take());
  EXPECT_EQ(after.status, Status::kTaken);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kRefused);
  store_->GiveBack(rule.Take(), before.receipt, loop_.Now());
  for (int i = 0; i < 40; ++i) {
    Run();
    Pass(seconds(1));
  }
  const std::string key = server_.cells().OnlyKey();
  EXPECT_EQ(server_.cells().SlotsInUse(key, loop_.Now().time_since_epoch().count() / 1000), 1)
      << "the one that came after";
  store_->GiveBack(rule.Take(), after.receipt, loop_.Now());
  Run();
  EXPECT_EQ(server_.cells().SlotsInUse(key, loop_.Now().time_since_epoch().count() / 1000), 0);
}

// Rules out: a cell that was forgotten renewing a slot that nobody has, under its old name.
TEST_F(UpkeepTest, ACellThatIsKnownAgainHasAnotherNameForItsSlots) {
  const TestRule rule(SharedSlots(3));
  Ask({rule.Take()});
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  const std::string before(server_.asked()[0].calls[0].owner);
  server_.Lose(loop_.Now());
  const TestRule other(SharedRule("r", 5, minutes(1)));
  for (size_t i = 0; i < base::kStoreCellsMax; ++i)
    AskAndRun(other.TakeAs("12345678" + std::to_string(i)));
  ASSERT_GE(store_->status().cells_forgotten, 1u);

  Ask({rule.Take()});
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  EXPECT_NE(server_.asked()[0].calls[0].owner, before);
  Run();
}

TEST_F(UpkeepTest, AReleaseThatWasNotAppliedIsSentAgain) {
  const TestRule rule(SharedSlots(1));
  const engine::TakeOutcome held = AskAndRun(rule.Take());
  store_->GiveBack(rule.Take(), held.receipt, loop_.Now());
  loop_.Settle(*store_);
  server_.Fail();
  Pass(seconds(1));
  Run();
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
}

TEST_F(UpkeepTest, ASlotForARequestThatNobodyWaitsForIsReleased) {
  const TestRule rule(SharedSlots(1));
  for (const bool refused : {true, false}) {
    const uint64_t ticket = Ask({rule.Take()});
    loop_.Settle(*store_);
    store_->Abandon(ticket, refused);
    Run();
    const engine::TakeOutcome next = AskAndRun(rule.Take());
    EXPECT_EQ(next.status, Status::kTaken);
    store_->GiveBack(rule.Take(), next.receipt, loop_.Now());
    Run();
  }
}

TEST_F(UpkeepTest, ASlotForARequestWhoseTimeWasOverIsReleased) {
  const TestRule rule(SharedSlots(2));
  const uint64_t hasty = Ask({rule.Take()}, milliseconds(1));
  const uint64_t other = Ask({rule.Take()});
  loop_.Settle(*store_);
  Pass(milliseconds(1));
  EXPECT_EQ(OutcomeOf(hasty).status, Status::kFailed);
  Run();

  EXPECT_EQ(OutcomeOf(other).status, Status::kTaken);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kTaken);
  EXPECT_EQ(AskAndRun(rule.Take()).status, Status::kRefused);
}

// --- nodes

TEST_F(UpkeepTest, TheLastCountOfNodesHoldsWhileTheRegisterIsAway) {
  FakeRegister nodes;
  int told = 0;
  SharedStoreOptions options;
  options.nodes = 3;
  options.node_register = &nodes;
  options.on_nodes = [&](int count) { told = count; };
  Build(std::move(options));
  EXPECT_EQ(store_->Nodes(), 3) << "as configured";
  Pass(seconds(60));
  EXPECT_EQ(nodes.beats(), 0);

  store_->Open();
  loop_.Settle(*store_);
  EXPECT_EQ(nodes.beats(), 1);
  EXPECT_EQ(nodes.owner(), "node-a");
  nodes.Answer(7);
  EXPECT_EQ(store_->Nodes(), 7);
  EXPECT_EQ(told, 7);
  Pass(seconds(5));
  nodes.Answer(0);
  EXPECT_EQ(store_->Nodes(), 7);
  EXPECT_EQ(store_->status().beats_failed, 1u);
  EXPECT_EQ(store_->status().nodes, 7);

  store_->Close();
  EXPECT_EQ(nodes.ttl(), Duration::zero()) << "it leaves";
  nodes.Answer(6);
  EXPECT_TRUE(store_->quiet());
}

// Those who are counted are not all yet, when nodes start or when the register was lost.
TEST_F(UpkeepTest, FewerNodesAreBelievedWhenTheyStayFewer) {
  FakeRegister nodes;
  SharedStoreOptions options;
  options.nodes = 3;
  options.node_register = &nodes;
  Build(std::move(options));
  store_->Open();
  loop_.Settle(*store_);
  nodes.Answer(1);
  EXPECT_EQ(store_->Nodes(), 3) << "the others have not beaten yet";
  Pass(seconds(5));
  nodes.Answer(4);
  EXPECT_EQ(store_->Nodes(), 4) << "more are believed at once";
  for (int beat = 0; beat < 3; ++beat) {
    Pass(seconds(5));
    nodes.Answer(2);
    EXPECT_EQ(store_->Nodes(), 4) << beat;
  }
  Pass(seconds(5));
  nodes.Answer(2);
  EXPECT_EQ(store_->Nodes(), 2);
  Pass(seconds(5));
  nodes.Answer(1);
  EXPECT_EQ(store_->Nodes(), 2) << "from then on, not from before";
}

// Rules out: the number that was configured being told of for the one that was counted, by the
// workers that do not count.
TEST_F(UpkeepTest, AStoreThatDoesNotCountTellsOfNoNodes) {
  SharedStoreOptions options;
  options.nodes = 9;
  Build(std::move(options));
  EXPECT_EQ(store_->Nodes(), 9);
  EXPECT_EQ(store_->status().nodes, 0);
}

// A register that is lost again and again counts from one each time.
TEST_F(UpkeepTest, ACountThatIsInterruptedBeginsAnewAndTheMostOfItIsBelieved) {
  FakeRegister nodes;
  SharedStoreOptions options;
  options.nodes = 6;
  options.node_register = &nodes;
  Build(std::move(options));
  store_->Open();
  loop_.Settle(*store_);
  nodes.Answer(6);
  for (const int count : {1, 1, 0, 1, 0, 1, 2, 0}) {
    Pass(seconds(5));
    nodes.Answer(count);
    EXPECT_EQ(store_->Nodes(), 6);
  }
  for (const int count : {1, 4, 2}) {
    Pass(seconds(5));
    nodes.Answer(count);
    EXPECT_EQ(store_->Nodes(), 6);
  }
  Pass(seconds(5));
  nodes.Answer(3);
  EXPECT_EQ(store_->Nodes(), 4);
}

}  // namespace
}  // namespace flowguard::quota
