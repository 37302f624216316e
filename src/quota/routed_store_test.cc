// SPDX-License-Identifier: Apache-2.0
#include "quota/routed_store.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rules/compiled_rule.h"
#include "testing/fake_quota_store.h"
#include "testing/manual_clock.h"
#include "testing/rules.h"

namespace flowguard::quota {
namespace {

using namespace std::chrono_literals;
using engine::TakeOutcome;
using testing::FakeQuotaStore;
using Script = FakeQuotaStore::Script;
using Ends = std::vector<TakeOutcome::Status>;
constexpr auto kTaken = TakeOutcome::Status::kTaken;
constexpr auto kRefused = TakeOutcome::Status::kRefused;
constexpr auto kFailed = TakeOutcome::Status::kFailed;

struct RoutedStoreTest : ::testing::Test, engine::TakeSink {
  void OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept override {
    ++told;
    ends[ticket].clear();
    for (const TakeOutcome& outcome : outcomes)
      ends[ticket].push_back(outcome.status);
    receipts = 0;
    for (const TakeOutcome& outcome : outcomes)
      receipts += outcome.receipt.cost;
  }
  engine::RemoteTake TakeOf(Scope scope, int64_t limit, bool shadow = false) {
    rules::CompiledRule& compiled = rules.emplace_back();
    compiled.rule = testing::LimitRule("rule-" + std::to_string(rules.size()), limit, 1s);
    compiled.rule.scope = scope;
    compiled.rule.shadow = shadow;
    return {.rule = &compiled, .key = compiled.rule.name, .config = {.rate = compiled.rule.rate}};
  }
  void Take(uint64_t ticket, const std::vector<engine::RemoteTake>& takes) {
    store.Take(takes, loop->Now(), loop->Now() + 20ms, ticket, this);
  }

  testing::ManualClock clock;
  std::unique_ptr<net::Loop> loop = std::move(net::Loop::Create(clock)).value();
  std::deque<rules::CompiledRule> rules;
  FakeQuotaStore shared;
  FakeQuotaStore cluster;
  RoutedStore store{*loop, shared, 20ms, cluster};
  std::map<uint64_t, Ends> ends;
  int told = 0;
  int64_t receipts = 0;
};

TEST_F(RoutedStoreTest, TakesOfOneKindGoToTheirStoreAsTheyAre) {
  Take(1, {TakeOf(Scope::kShared, 5), TakeOf(Scope::kShared, 5)});
  Take(2, {TakeOf(Scope::kCluster, 5)});
  EXPECT_EQ(shared.takes(), 1);
  EXPECT_EQ(cluster.takes(), 1);
  EXPECT_EQ(ends[1], (Ends{kTaken, kTaken}));
  EXPECT_EQ(ends[2], Ends{kTaken});
  EXPECT_EQ(store.pending(), 0u);
}

TEST_F(RoutedStoreTest, OfBothKindsEachIsAnsweredInItsPlace) {
  Take(1, {TakeOf(Scope::kShared, 5), TakeOf(Scope::kCluster, 5), TakeOf(Scope::kShared, 5)});
  EXPECT_EQ(ends[1], (Ends{kTaken, kTaken, kTaken}));
  EXPECT_EQ(shared.Held(), 2);
  EXPECT_EQ(cluster.Held(), 1);
  EXPECT_EQ(receipts, 3);
}

TEST_F(RoutedStoreTest, BehindASharedRefusalTokenServersAreNotAsked) {
  Take(1, {TakeOf(Scope::kShared, 0), TakeOf(Scope::kCluster, 5)});
  EXPECT_EQ(ends[1], (Ends{kRefused, kTaken}));
  EXPECT_EQ(cluster.takes(), 0);
  EXPECT_EQ(receipts, 0);
}

TEST_F(RoutedStoreTest, ARefusalOfATokenServerGivesTheSharedOnesBack) {
  Take(1, {TakeOf(Scope::kShared, 5), TakeOf(Scope::kCluster, 0)});
  EXPECT_EQ(ends[1], (Ends{kTaken, kRefused}));
  EXPECT_EQ(shared.Held(), 0);
  EXPECT_EQ(receipts, 0);
}

TEST_F(RoutedStoreTest, ARefusalInShadowStopsNothing) {
  Take(1, {TakeOf(Scope::kShared, 0, /*shadow=*/true), TakeOf(Scope::kCluster, 5)});
  EXPECT_EQ(cluster.takes(), 1);
  EXPECT_EQ(ends[1].back(), kTaken);
}

TEST_F(RoutedStoreTest, ARefusalThatDegradesStopsNothing) {
  engine::RemoteTake soft = TakeOf(Scope::kShared, 0);
  rules.back().rule.degrade.enabled = true;
  Take(1, {soft, TakeOf(Scope::kCluster, 5)});
  EXPECT_EQ(cluster.Held(), 1);
  soft = TakeOf(Scope::kCluster, 0);
  rules.back().rule.degrade.enabled = true;
  Take(2, {TakeOf(Scope::kShared, 5), soft});
  EXPECT_EQ(ends[2], (Ends{kTaken, kRefused}));
  EXPECT_EQ(shared.Held(), 1) << "the request goes, and what it took stays";
}

TEST_F(RoutedStoreTest, WhereOneStoreFailsTheOtherIsAskedAllTheSame) {
  shared.Next(Script::kFails);
  Take(1, {TakeOf(Scope::kShared, 5), TakeOf(Scope::kCluster, 5)});
  EXPECT_EQ(ends[1], (Ends{kFailed, kTaken}));
}

TEST_F(RoutedStoreTest, KeysLiveUntilTheSecondStoreIsAsked) {
  shared.Next(Script::kWhenTold);
  {
    std::vector<engine::RemoteTake> takes = {TakeOf(Scope::kShared, 5), TakeOf(Scope::kCluster, 5)};
    std::string key = "a key that is gone when the answer comes";
    takes[1].key = key;
    Take(1, takes);
    key.assign(key.size(), '?');
  }
  EXPECT_EQ(told, 0);
  EXPECT_EQ(store.pending(), 1u);
  shared.AnswerAll();
  EXPECT_EQ(ends[1], (Ends{kTaken, kTaken}));
  EXPECT_EQ(cluster.Held(), 1);
}

TEST_F(RoutedStoreTest, WhoLeavesInTheFirstHalfIsForgotten) {
  shared.Next(Script::kWhenTold);
  Take(1, {TakeOf(Scope::kShared, 5), TakeOf(Scope::kCluster, 5)});
  store.Abandon(1, /*refused=*/true);
  shared.AnswerAll();
  EXPECT_EQ(told, 0);
  EXPECT_EQ(shared.Held(), 0);
  EXPECT_EQ(cluster.takes(), 0);
  EXPECT_EQ(store.pending(), 0u);
}

TEST_F(RoutedStoreTest, WhoLeavesInTheSecondHalfGivesBackWhatHeHasWhereHeDidNotGo) {
  for (const bool refused : {true, false}) {
    cluster.Next(Script::kWhenTold);
    Take(1, {TakeOf(Scope::kShared, 5), TakeOf(Scope::kCluster, 5)});
    store.Abandon(1, refused);
    cluster.AnswerAll();
    EXPECT_EQ(told, 0);
    EXPECT_EQ(shared.Held(), refused ? 0 : 1);
  }
}

}  // namespace
}  // namespace flowguard::quota
