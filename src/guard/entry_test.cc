// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/guard.h"

#include "engine/engine.h"
#include "testing/manual_clock.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::seconds;

class EntryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    RuleSet set;
    set.rules = {testing::ConcurrencyRule("slots", 2)};
    GuardOptions options;
    options.clock = &clock_;
    auto guard = Guard::Create(set, options);
    ASSERT_TRUE(guard.ok()) << guard.error().message;
    guard_ = *std::move(guard);
  }
  int64_t Inflight() { return guard_->engine().Counters().rules[0].inflight; }

  static constexpr Request kRequest{.resource = "r"};
  testing::ManualClock clock_;
  std::unique_ptr<Guard> guard_;
};

TEST_F(EntryTest, HoldsItsSlotUntilItIsSettled) {
  Entry entry = guard_->Enter(kRequest);
  ASSERT_TRUE(entry);
  EXPECT_EQ(Inflight(), 1);

  entry.Settle(Outcome::kOk);
  entry.Settle(Outcome::kOk);

  EXPECT_EQ(Inflight(), 0);
}

TEST_F(EntryTest, ItsDestructorSettlesIt) {
  { const Entry entry = guard_->Enter(kRequest); }

  EXPECT_EQ(Inflight(), 0);
}

TEST_F(EntryTest, MovedEntriesSettleOnce) {
  Entry first = guard_->Enter(kRequest);
  Entry second = std::move(first);
  EXPECT_TRUE(second.decision().allowed());
  EXPECT_FALSE(first) << "it holds no call";  // NOLINT(bugprone-use-after-move)
  first.Settle(Outcome::kOk);
  EXPECT_EQ(Inflight(), 1) << "the slot went with the move";

  second = guard_->Enter(kRequest);
  EXPECT_EQ(Inflight(), 1) << "what the second held before is settled";
  std::thread([moved = std::move(second)]() mutable { moved.Settle(Outcome::kError); }).join();

  EXPECT_EQ(Inflight(), 0);
}

TEST_F(EntryTest, ARefusedEntryHoldsNothing) {
  std::vector<Entry> entries;
  for (int i = 0; i < 5; ++i)
    entries.push_back(guard_->Enter(kRequest));

  EXPECT_TRUE(entries[1]);
  EXPECT_FALSE(entries[2]);
  EXPECT_EQ(Inflight(), 2);
  entries.clear();
  EXPECT_EQ(Inflight(), 0);
  EXPECT_FALSE(Entry());
}

TEST_F(EntryTest, WaitsUpToItsTimeoutAndThenTakesItsSlot) {
  Rule rate = testing::LimitRule("rate", 1, seconds(1));
  rate.wait = seconds(10);
  RuleSet set;
  set.rules = {testing::ConcurrencyRule("slots", 2), rate};
  ASSERT_TRUE(guard_->Reload(set).ok());
  Entry first = guard_->Enter(kRequest);
  const Instant start = clock_.Now();

  EXPECT_FALSE(guard_->Enter(kRequest)) << "no timeout, no wait";
  Entry second = guard_->Enter(kRequest, seconds(1));

  EXPECT_TRUE(second);
  EXPECT_EQ(clock_.Now(), start + seconds(1));
  EXPECT_EQ(Inflight(), 2);
}

}  // namespace
}  // namespace flowguard
