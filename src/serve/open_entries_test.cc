// SPDX-License-Identifier: Apache-2.0
#include "serve/open_entries.h"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "serve/request_view.h"
#include "testing/fake_quota_store.h"
#include "testing/manual_clock.h"
#include "testing/rules.h"

namespace flowguard::serve {
namespace {

using std::chrono::seconds;

constexpr Instant kStart{std::chrono::hours(100)};
const http::IpAddress kPeer = *http::IpAddress::Parse("192.0.2.1");
const http::IpAddress kOther = *http::IpAddress::Parse("192.0.2.2");

// Enters through a store that answers at once.
class Enters final : public engine::TakeSink {
 public:
  Enters(engine::Engine& engine, engine::QuotaStore& store) : engine_(engine), store_(store) {}

  std::unique_ptr<engine::Attempt> Enter() {
    NamedRequestView view({}, 64);
    view.resource = "x";
    auto attempt = std::make_unique<engine::Attempt>();
    EXPECT_EQ(engine_.Begin(*attempt, view, engine::Mode::kEnter, kStart), engine::Step::kRemote);
    store_.Take(attempt->remote_takes(), kStart, kStart, 0, this);
    engine_.Resume(*attempt, outcomes_, kStart);
    EXPECT_TRUE(attempt->entered());
    return attempt;
  }
  void OnTaken(uint64_t /*ticket*/,
               std::span<const engine::TakeOutcome> outcomes) noexcept override {
    outcomes_.assign(outcomes.begin(), outcomes.end());
  }

 private:
  engine::Engine& engine_;
  engine::QuotaStore& store_;
  std::vector<engine::TakeOutcome> outcomes_;
};

// An engine with one concurrency rule, and entries over it.
class Fixture : public ::testing::Test {
 protected:
  Fixture() {
    RuleSet set;
    set.rules.resize(1);
    set.rules[0].name = "db";
    set.rules[0].kind = RuleKind::kConcurrency;
    set.rules[0].concurrency = 1'000;
    EXPECT_TRUE(engine_->Load(set).ok());
  }

  std::unique_ptr<engine::Attempt> Entered() {
    NamedRequestView view({}, 64);
    view.resource = "x";
    auto attempt = std::make_unique<engine::Attempt>();
    engine_->Begin(*attempt, view, engine::Mode::kEnter, kStart);
    EXPECT_TRUE(attempt->entered());
    return attempt;
  }

  EntryId Add(Instant expires) {
    auto attempt = Entered();
    return entries_.Add(attempt, kPeer, expires).value();
  }

  int64_t InFlight() { return engine_->Counters().rules.at(0).inflight; }

  std::unique_ptr<engine::Engine> engine_ = engine::Engine::Create({}).value();
  OpenEntries entries_{*engine_, 1'000, 1'000};
};

using OpenEntriesTest = Fixture;

TEST_F(OpenEntriesTest, AnIdOfTheCallersIsTakenOnce) {
  constexpr EntryId kId{.high = 0, .low = 7};
  auto first = Entered();
  EXPECT_TRUE(entries_.AddAs(kId, first, kPeer, kStart + seconds(10), nullptr));
  EXPECT_EQ(first, nullptr);
  auto second = Entered();
  EXPECT_FALSE(entries_.AddAs(kId, second, kPeer, kStart + seconds(10), nullptr));
  engine_->Cancel(*second, kStart);
  EXPECT_EQ(InFlight(), 1);
  EXPECT_TRUE(entries_.End(kId, Outcome::kOk, {}, kStart));
  EXPECT_EQ(InFlight(), 0);
}

TEST_F(OpenEntriesTest, EndSettlesOnce) {
  const EntryId id = Add(kStart + seconds(10));
  EXPECT_EQ(InFlight(), 1);

  EXPECT_TRUE(entries_.End(id, Outcome::kOk, {}, kStart));
  EXPECT_EQ(InFlight(), 0);
  EXPECT_FALSE(entries_.End(id, Outcome::kOk, {}, kStart));
  EXPECT_EQ(InFlight(), 0);
}

TEST_F(OpenEntriesTest, ExpireSettlesWhatIsDueAndNothingElse) {
  Add(kStart + seconds(1));
  Add(kStart + seconds(2));
  Add(kStart + seconds(3));

  EXPECT_EQ(entries_.Expire(kStart + seconds(2)), 2u);
  EXPECT_EQ(InFlight(), 1);
  EXPECT_EQ(entries_.Counters().expired, 2u);
}

TEST_F(OpenEntriesTest, AnEntryThatIsDueCannotBeEndedAnyMore) {
  const EntryId id = Add(kStart + seconds(1));

  EXPECT_FALSE(entries_.End(id, Outcome::kOk, {}, kStart + seconds(1)));
  EXPECT_EQ(entries_.Expire(kStart + seconds(1)), 1u);
}

TEST_F(OpenEntriesTest, AFullTableLeavesTheAttemptWithItsCaller) {
  OpenEntries small(*engine_, 1, 1);
  auto first = Entered();
  auto second = Entered();
  ASSERT_TRUE(small.Add(first, kPeer, kStart + seconds(1)));

  EXPECT_FALSE(small.Add(second, kPeer, kStart + seconds(1)));

  ASSERT_NE(second, nullptr);
  engine_->Cancel(*second, kStart);
  EXPECT_EQ(small.Counters().refused, 1u);
}

// Rules out: one client that enters and never exits taking the table from the others.
TEST_F(OpenEntriesTest, AnAddressHasItsShareAndGetsItBackWithEveryEnd) {
  OpenEntries shared(*engine_, 3, 1);
  auto first = Entered();
  auto second = Entered();
  const auto id = shared.Add(first, kPeer, kStart + seconds(1));
  ASSERT_TRUE(id);

  EXPECT_FALSE(shared.Add(second, kPeer, kStart + seconds(1)));
  EXPECT_EQ(shared.Counters().refused, 1u);
  EXPECT_TRUE(shared.Add(second, kOther, kStart + seconds(9)));

  shared.End(*id, Outcome::kOk, {}, kStart);
  auto third = Entered();
  EXPECT_TRUE(shared.Add(third, kPeer, kStart + seconds(1)));
  shared.Expire(kStart + seconds(1));
  auto fourth = Entered();
  EXPECT_TRUE(shared.Add(fourth, kPeer, kStart + seconds(9)));
}

TEST_F(OpenEntriesTest, TheDestructorSettlesWhatIsLeft) {
  {
    OpenEntries short_lived(*engine_, 10, 10);
    auto attempt = Entered();
    ASSERT_TRUE(short_lived.Add(attempt, kPeer, kStart + seconds(1)));
  }
  EXPECT_EQ(InFlight(), 0);
}

TEST_F(OpenEntriesTest, IdsAreReadBackAndNothingElseIs) {
  const EntryId id = Add(kStart + seconds(1));

  EXPECT_EQ(id.ToString().size(), 32u);
  EXPECT_EQ(EntryId::Parse(id.ToString()), id);
  EXPECT_EQ(EntryId::Parse(""), std::nullopt);
  EXPECT_EQ(EntryId::Parse(std::string(31, 'a')), std::nullopt);
  EXPECT_EQ(EntryId::Parse(std::string(32, 'g')), std::nullopt);
  EXPECT_EQ(EntryId::Parse("-" + std::string(31, '1')), std::nullopt);
  entries_.Expire(kStart + seconds(1));
}

// Ended and expired at once from several threads: settled by one of them.
TEST_F(OpenEntriesTest, RacingEndsAndExpiriesSettleEachEntryOnce) {
  std::vector<EntryId> ids;
  for (int i = 0; i < 400; ++i)
    ids.push_back(Add(kStart + seconds(i % 2 == 0 ? 5 : 50)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (const EntryId& id : ids)
        entries_.End(id, Outcome::kOk, {}, kStart + seconds(4));
    });
  }
  threads.emplace_back([&] { entries_.Expire(kStart + seconds(5)); });
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(InFlight(), 0);
  const OpenEntriesCounters counters = entries_.Counters();
  EXPECT_EQ(counters.settled + counters.expired, 400u);
  EXPECT_EQ(counters.open, 0u);
}

// The loop's store is used by its thread alone, however many threads end its entries.
TEST(StoreDuesTest, WhatManyThreadsBringIsPassedOnOnceByTheLoop) {
  engine::EngineOptions options;
  options.remote_allowed = true;
  const auto engine = engine::Engine::Create(options).value();
  RuleSet set;
  set.rules = {flowguard::testing::SharedRule("shared", 1'000, std::chrono::hours(1))};
  set.rules[0].cost = {.reserve = 2, .settle = "", .max_debt = 0};
  ASSERT_TRUE(engine->Load(set).ok());
  const flowguard::testing::ManualClock clock;
  const auto loop = net::Loop::Create(clock).value();
  flowguard::testing::FakeQuotaStore store;
  OpenEntries entries(*engine, 1'000, 1'000);
  const auto dues = std::make_shared<StoreDues>(*loop, store);
  Enters enters(*engine, store);
  std::vector<EntryId> ids;
  for (int i = 0; i < 300; ++i) {
    auto attempt = enters.Enter();
    ids.push_back(entries.Add(attempt, kPeer, kStart + seconds(9), dues).value());
  }
  ASSERT_EQ(store.Held(), 600);

  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (const EntryId& id : ids)
        entries.End(id, Outcome::kOk, 1, kStart);
    });
  }
  for (int i = 0; i < 100; ++i)
    loop->RunOnce(Duration::zero());
  for (std::thread& thread : threads)
    thread.join();
  loop->RunOnce(Duration::zero());

  EXPECT_EQ(store.Held(), 300);
  dues->Close();
}

}  // namespace
}  // namespace flowguard::serve
