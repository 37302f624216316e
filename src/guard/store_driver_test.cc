// SPDX-License-Identifier: Apache-2.0
//
// Decisions through a store that answers at once, late, twice, out of order, from
// another thread, never, or that it failed.  Whatever it does: a decision is made
// once, and the units that the store holds are those of requests that went.
#include "guard/store_driver.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/guard.h"

#include "testing/fake_quota_store.h"
#include "testing/manual_clock.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::FakeQuotaStore;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;
using testing::SharedRule;
using Script = FakeQuotaStore::Script;

constexpr Script kScripts[] = {Script::kAtOnce,     Script::kWhenTold, Script::kTwice,
                               Script::kFromThread, Script::kFails,    Script::kAfterGivingUp};

class StoreDriverTest : public ::testing::Test {
 protected:
  std::unique_ptr<Guard> Make(std::vector<Rule> rules, Duration deadline = milliseconds(2)) {
    RuleSet set;
    set.rules = std::move(rules);
    GuardOptions options;
    options.clock = &clock_;
    options.store = &store_;
    options.store_deadline = deadline;
    auto guard = Guard::Create(std::move(set), options);
    EXPECT_TRUE(guard.ok()) << guard.error().message;
    return *std::move(guard);
  }
  static constexpr Request kRequest{.resource = "r"};
  testing::ManualClock clock_;
  FakeQuotaStore store_;
};

TEST_F(StoreDriverTest, TakesFromTheStoreUntilItRefuses) {
  auto guard = Make({SharedRule("shared", 2, seconds(1))});

  EXPECT_THAT(guard->Check(kRequest), IsAllowed());
  EXPECT_THAT(guard->Check(kRequest), IsAllowed());
  EXPECT_THAT(guard->Check(kRequest), IsRefusedBy("shared", Reason::kLimit));
  EXPECT_EQ(store_.Held(), 2);
}

TEST_F(StoreDriverTest, AnAnswerFromAnotherThreadIsWaitedFor) {
  auto guard = Make({SharedRule("shared", 2, seconds(1))}, seconds(10));
  store_.Next(Script::kFromThread);

  EXPECT_THAT(guard->Check(kRequest), IsAllowed());
}

TEST_F(StoreDriverTest, AStoreThatNeverAnswersIsGivenUp) {
  auto guard = Make({SharedRule("shared", 2, seconds(1))});
  store_.Next(Script::kWhenTold);

  EXPECT_THAT(guard->Check(kRequest), IsRefusedBy("shared", Reason::kStoreFailure));

  EXPECT_EQ(store_.abandoned(), 1);
  EXPECT_EQ(store_.Held(), 0) << "the request was refused";
}

TEST_F(StoreDriverTest, AnAnswerWhileItIsGivenUpIsIgnoredAndGivenBack) {
  auto guard = Make({SharedRule("shared", 2, seconds(1))});
  store_.Next(Script::kAfterGivingUp);

  EXPECT_THAT(guard->Check(kRequest), IsRefusedBy("shared", Reason::kStoreFailure));

  EXPECT_EQ(store_.Held(), 0);
}

// Rules out: a slot of a request that went by its rule's on_store_failure, held for ever, for no
// attempt knows of it.
TEST_F(StoreDriverTest, ASlotThatIsToldWhileItIsGivenUpComesBackThoughTheRequestWent) {
  Rule slots = ConcurrencyRule("slots", 2);
  slots.scope = Scope::kShared;
  slots.on_store_failure = StoreFailurePolicy::kOpen;
  auto guard = Make({slots, SharedRule("shared", 5, seconds(1), StoreFailurePolicy::kOpen)});
  store_.Next(Script::kAfterGivingUp);

  const Entry entry = guard->Enter(kRequest);

  EXPECT_TRUE(entry);
  EXPECT_EQ(store_.Held(), 1) << "the units of a request that went stay taken";
}

TEST_F(StoreDriverTest, ASecondAnswerIsIgnoredAndGivenBack) {
  auto guard = Make({SharedRule("shared", 5, seconds(1))});
  store_.Next(Script::kTwice);

  EXPECT_THAT(guard->Check(kRequest), IsAllowed());

  EXPECT_EQ(store_.Held(), 1);
}

// Programs come and go while a Guard lives.
TEST_F(StoreDriverTest, ASharesSizeFollowsTheStoresCountOfNodes) {
  auto guard = Make({SharedRule("shared", 12, minutes(1), StoreFailurePolicy::kLocal)});
  for (const auto& [nodes, share] : {std::pair(0, 0), std::pair(4, 3), std::pair(2, 6)}) {
    store_.set_nodes(nodes);
    clock_.Advance(minutes(2));
    int admitted = 0;
    for (int i = 0; i < 12; ++i) {
      store_.Next(Script::kFails);
      admitted += guard->Check(kRequest).allowed() ? 1 : 0;
    }
    EXPECT_EQ(admitted, share) << nodes;
  }
}

// Every pair of scripts, every policy, with and without a local refusal after: what
// the store holds is what went through it, and slots and local units balance.
TEST_F(StoreDriverTest, UnitsBalanceUnderEveryScript) {
  for (const StoreFailurePolicy policy :
       {StoreFailurePolicy::kLocal, StoreFailurePolicy::kOpen, StoreFailurePolicy::kClosed}) {
    for (const Script first : kScripts) {
      for (const Script second : kScripts) {
        FakeQuotaStore store;
        store.set_nodes(2);
        RuleSet set;
        set.rules = {SharedRule("shared", 1, minutes(1), policy), ConcurrencyRule("slots", 2),
                     LimitRule("local", 9, minutes(1))};
        GuardOptions options;
        options.clock = &clock_;
        options.store = &store;
        options.store_deadline = milliseconds(1);
        auto guard = Guard::Create(set, options);
        ASSERT_TRUE(guard.ok()) << guard.error().message;
        SCOPED_TRACE("policy " + std::to_string(static_cast<int>(policy)) + ", scripts " +
                     std::to_string(static_cast<int>(first)) + " and " +
                     std::to_string(static_cast<int>(second)));
        store.Next(first);
        store.Next(second);

        int64_t entered = 0;
        {
          const Entry one = (*guard)->Enter(kRequest);
          const Entry two = (*guard)->Enter(kRequest);
          entered = (one ? 1 : 0) + (two ? 1 : 0);
        }
        store.AnswerAll();

        EXPECT_LE(store.Held(), std::max<int64_t>(entered, 0));
        const std::vector<engine::RuleCounters> rules = (*guard)->engine().Counters().rules;
        EXPECT_EQ(rules[1].inflight, 0);
        EXPECT_EQ(rules[2].passed, static_cast<uint64_t>(entered));
        set.rules = {set.rules[2]};
        ASSERT_TRUE((*guard)->Reload(set).ok());
        EXPECT_EQ((*guard)->Peek(kRequest).remaining, 9 - entered);
      }
    }
  }
}

TEST_F(StoreDriverTest, AsyncAnswersComeOnceInWhateverOrder) {
  auto guard = Make({SharedRule("shared", 5, seconds(1))});
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    store_.Next(Script::kWhenTold);
    guard->CheckAsync(kRequest, [&order, i](const Decision& decision) {
      EXPECT_THAT(decision, IsAllowed());
      order.push_back(i);
    });
  }
  EXPECT_TRUE(order.empty());

  store_.AnswerAll();
  store_.AnswerAll();

  EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(store_.Held(), 3);
}

TEST_F(StoreDriverTest, AnAsyncCallAnsweredTwiceIsDoneOnce) {
  auto guard = Make({SharedRule("shared", 5, seconds(1))});
  int done = 0;
  store_.Next(Script::kTwice);

  guard->CheckAsync(kRequest, [&done](const Decision&) { ++done; });

  EXPECT_EQ(done, 1);
}

TEST_F(StoreDriverTest, AnAsyncCallWithoutAnAnswerEndsWithTheNextCallOrTheGuard) {
  auto guard = Make({SharedRule("shared", 5, seconds(1))});
  std::vector<Reason> reasons;
  const auto note = [&reasons](const Decision& decision) { reasons.push_back(decision.reason); };
  store_.Next(Script::kWhenTold);
  guard->CheckAsync(kRequest, note);
  clock_.Advance(milliseconds(5));
  store_.Next(Script::kWhenTold);
  guard->CheckAsync(kRequest, note);
  EXPECT_EQ(reasons, std::vector{Reason::kStoreFailure});

  guard = nullptr;

  EXPECT_EQ(reasons.size(), 2u);
  EXPECT_EQ(store_.Held(), 0);
}

// A call ends a few overdue ones, not all that have gathered.
TEST_F(StoreDriverTest, ACallGivesUpOnABoundedNumberOfOthers) {
  auto guard = Make({SharedRule("shared", 100, seconds(1))});
  int done = 0;
  for (int i = 0; i < 20; ++i) {
    store_.Next(Script::kWhenTold);
    guard->CheckAsync(kRequest, [&done](const Decision&) { ++done; });
  }
  clock_.Advance(milliseconds(5));

  EXPECT_THAT(guard->Check(kRequest), IsAllowed());
  EXPECT_EQ(done, 16);
  EXPECT_THAT(guard->Check(kRequest), IsAllowed());
  EXPECT_EQ(done, 20);
}

// Those that are not overdue may still be answered.
TEST_F(StoreDriverTest, OnlyOverdueCallsAreGivenUp) {
  auto guard = Make({SharedRule("shared", 100, seconds(1))});
  std::vector<int> done;
  for (int i = 0; i < 2; ++i) {
    store_.Next(Script::kWhenTold);
    guard->CheckAsync(kRequest, [&done, i](const Decision&) { done.push_back(i); });
    clock_.Advance(milliseconds(3));
  }

  EXPECT_THAT(guard->Check(kRequest), IsAllowed());
  EXPECT_EQ(done, std::vector{0});
  store_.AnswerAll();
  EXPECT_EQ(done, (std::vector{0, 1}));
}

// Does something in the middle of each Take.
class BusyStore final : public engine::QuotaStore {
 public:
  explicit BusyStore(FakeQuotaStore& store) : store_(store) {}

  std::function<void()> before_copying;

  void Take(std::span<const engine::RemoteTake> takes, Instant now, Instant deadline,
            uint64_t ticket, engine::TakeSink* sink) noexcept override {
    if (const auto act = std::exchange(before_copying, nullptr)) act();
    store_.Take(takes, now, deadline, ticket, sink);
  }
  void Abandon(uint64_t ticket, bool refused) noexcept override { store_.Abandon(ticket, refused); }
  void GiveBack(const engine::RemoteTake& take, const limit::Receipt& receipt,
                Instant now) noexcept override {
    store_.GiveBack(take, receipt, now);
  }
  void Charge(const engine::RemoteTake& take, int64_t units, Instant now) noexcept override {
    store_.Charge(take, units, now);
  }
  [[nodiscard]] int Nodes() const noexcept override { return store_.Nodes(); }

 private:
  FakeQuotaStore& store_;
};

// Rules out: the end of an overdue call freeing what the store is still copying.
TEST_F(StoreDriverTest, ACallIsNotGivenUpWhileTheStoreIsBeingAsked) {
  BusyStore busy(store_);
  RuleSet set;
  set.rules = {SharedRule("shared", 5, seconds(1))};
  GuardOptions options;
  options.clock = &clock_;
  options.store = &busy;
  options.store_deadline = milliseconds(2);
  auto guard = Guard::Create(std::move(set), options);
  ASSERT_TRUE(guard.ok()) << guard.error().message;
  int done = 0;
  int done_within = -1;
  busy.before_copying = [&] {
    clock_.Advance(milliseconds(50));
    EXPECT_TRUE((*guard)->Check(kRequest).allowed());
    done_within = done;
  };
  store_.Next(Script::kAtOnce);
  store_.Next(Script::kWhenTold);

  (*guard)->CheckAsync(kRequest, [&done](const Decision&) { ++done; });
  EXPECT_EQ(done_within, 0);
  EXPECT_EQ(done, 0);
  EXPECT_THAT((*guard)->Check(kRequest), IsAllowed());

  EXPECT_EQ(done, 1);
}

TEST_F(StoreDriverTest, ManyThreadsThroughAStoreAdmitExactlyItsLimit) {
  auto guard = Make({SharedRule("shared", 100, seconds(1))}, seconds(10));
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 25; ++j)
        admitted.fetch_add(guard->Check(kRequest).allowed() ? 1 : 0);
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(admitted.load(), 100);
  EXPECT_EQ(store_.Held(), 100);
}

TEST_F(StoreDriverTest, APeekAsksForNoUnits) {
  auto guard = Make({SharedRule("shared", 3, seconds(1))});
  EXPECT_TRUE(guard->Check(kRequest).allowed());

  EXPECT_EQ(guard->Peek(kRequest).remaining, 2);
  EXPECT_FALSE(guard->Peek({.resource = "r", .cost = 3}).allowed());
  EXPECT_EQ(store_.Held(), 1);
}

}  // namespace
}  // namespace flowguard
