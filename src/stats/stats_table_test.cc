// SPDX-License-Identifier: Apache-2.0
#include "stats/stats_table.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "base/thread_slot.h"

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr Instant kT0{std::chrono::hours(24 * 10)};

std::unique_ptr<StatsTable> TableOf(size_t stats_max, size_t shard_bytes = 1 << 20) {
  StatsTableOptions options;
  options.stats_max = stats_max;
  options.shard_bytes = shard_bytes;
  options.hash_seed = 7;
  auto table = StatsTable::Create(options);
  EXPECT_TRUE(table.ok());
  return std::move(table).value();
}

class StatsTableTest : public testing::Test {
 protected:
  void Count(StatsTable& table, const std::string& resource, Instant now) const {
    const StatsRef stats = table.Get(resource, "", now);
    stats->Enter(slot, now, 1);
    stats->Exit(slot, now, {1, 1ms, false});
  }

  const size_t slot = base::ThreadSlot();
};

TEST_F(StatsTableTest, AResourceHasOneSetOfStatistics) {
  const auto table = TableOf(10);
  const StatsRef first = table->Get("orders", "", kT0);
  const StatsRef again = table->Get("orders", "", kT0);
  EXPECT_EQ(first.get(), again.get());
  EXPECT_EQ(first->Resource(), "orders");
  EXPECT_EQ(table->Counted().stats, 1u);
}

// Fault ruled out: names that are joined by a separator, which a client may send.
TEST_F(StatsTableTest, OriginsAndResourcesAreToldApartWhateverTheirNames) {
  const auto table = TableOf(10);
  std::set<const ResourceStats*> all;
  std::vector<StatsRef> kept;
  const std::pair<const char*, const char*> names[] = {{"a", ""},  {"ab", ""}, {"a", "b"},
                                                       {"", "ab"}, {"b", "a"}, {"a|b", ""}};
  for (const auto& [resource, origin] : names) {
    kept.push_back(table->Get(resource, origin, kT0));
    all.insert(kept.back().get());
    EXPECT_EQ(kept.back()->Resource(), resource);
    EXPECT_EQ(kept.back()->Origin(), origin);
  }
  EXPECT_EQ(all.size(), 6u);
}

TEST_F(StatsTableTest, FindMakesNothing) {
  const auto table = TableOf(10);
  EXPECT_FALSE(table->Find("orders", ""));
  EXPECT_EQ(table->Counted().stats, 0u);
  static_cast<void>(table->Get("orders", "", kT0));
  EXPECT_TRUE(table->Find("orders", ""));
  EXPECT_FALSE(table->Find("orders", "web"));
}

// Fault ruled out: past a number of resources nothing is counted any more, and nobody knows.
TEST_F(StatsTableTest, NewcomersAreCountedHoweverManyThereAre) {
  const auto table = TableOf(100);
  for (int i = 0; i < 20'000; ++i)
    Count(*table, "user/" + std::to_string(i), kT0 + i * 1ms);

  const StatsTableCounts counted = table->Counted();
  EXPECT_EQ(counted.stats, 100u);
  EXPECT_EQ(counted.forgotten, 19'900u);
  EXPECT_GT(counted.forgotten_live, 0u) << "and it is told that some of them were in use";
  EXPECT_EQ(counted.others, 0u);
  EXPECT_EQ(table->Find("user/19999", "")->Counted().Window(0, kT0 + 20s).passed, 1);
}

TEST_F(StatsTableTest, WhatWasNotUsedForLongestGoesFirst) {
  const auto table = TableOf(64);
  for (int round = 0; round < 400; ++round) {
    const Instant now = kT0 + round * 1s;
    for (int i = 0; i < 4; ++i)
      Count(*table, "steady/" + std::to_string(i), now);
    for (int i = 0; i < 10; ++i)
      Count(*table, "once/" + std::to_string(round) + "/" + std::to_string(i), now);
  }
  for (int i = 0; i < 4; ++i) {
    const StatsRef steady = table->Find("steady/" + std::to_string(i), "");
    ASSERT_TRUE(steady) << i;
    EXPECT_EQ(steady->Counted().Window(1, kT0 + 399s).passed, 60) << "none of it was lost";
  }
}

TEST_F(StatsTableTest, WhatIsReferredToOrInProgressIsNeverForgotten) {
  const auto table = TableOf(3);
  const StatsRef kept = table->Get("kept", "", kT0);
  ResourceStats* busy = nullptr;
  {
    const StatsRef entered = table->Get("busy", "", kT0);
    entered->Enter(slot, kT0, 1);
    busy = entered.get();
  }
  for (int i = 0; i < 1'000; ++i)
    Count(*table, "other/" + std::to_string(i), kT0 + 1h + i * 1s);
  EXPECT_EQ(table->Find("kept", "").get(), kept.get());
  EXPECT_EQ(table->Find("busy", "").get(), busy);

  busy->Exit(slot, kT0 + 2h, {1, 2h, false});
  for (int i = 0; i < 1'000; ++i)
    Count(*table, "more/" + std::to_string(i), kT0 + 3h + i * 1s);
  EXPECT_FALSE(table->Find("busy", "")) << "ended, it is as any other";
}

TEST_F(StatsTableTest, WithoutAPlaceThatCouldBeHadOthersAreCountedTogether) {
  const auto table = TableOf(2);
  const StatsRef first = table->Get("first", "", kT0);
  const StatsRef second = table->Get("second", "", kT0);
  Count(*table, "third", kT0);
  Count(*table, "fourth", kT0);
  EXPECT_EQ(table->Others().Counted().Window(0, kT0).passed, 2);
  EXPECT_EQ(table->Others().Resource(), "(others)");
  EXPECT_EQ(table->Counted().others, 2u);
  EXPECT_FALSE(table->Find("third", ""));
}

TEST_F(StatsTableTest, AForgottenResourceComesBackEmpty) {
  const auto table = TableOf(1);
  Count(*table, "first", kT0);
  Count(*table, "second", kT0);
  EXPECT_EQ(table->Get("first", "", kT0)->Counted().Window(0, kT0).passed, 0);
  EXPECT_EQ(table->Counted().forgotten, 2u);
}

TEST_F(StatsTableTest, AllTellsEachOnce) {
  const auto table = TableOf(10);
  for (const char* name : {"a", "b", "c"})
    Count(*table, name, kT0);
  std::multiset<std::string> names;
  for (const StatsRef& stats : table->All())
    names.insert(stats->Resource());
  EXPECT_EQ(names, (std::multiset<std::string>{"a", "b", "c"}));
}

TEST_F(StatsTableTest, ReferencesMayBeMovedAndDroppedAnywhere) {
  const auto table = TableOf(1);
  StatsRef first = table->Get("first", "", kT0);
  StatsRef moved = std::move(first);
  EXPECT_TRUE(moved);
  moved = StatsRef();
  Count(*table, "second", kT0);
  EXPECT_TRUE(table->Find("second", "")) << "nothing refers to the first any more";
}

TEST_F(StatsTableTest, MemoryIsBoundedHoweverManyResourcesCome) {
  const auto table = TableOf(50, 100'000);
  for (int i = 0; i < 2'000; ++i) {
    const StatsRef stats = table->Get("r" + std::to_string(i), "", kT0 + i * 1ms);
    for (int k = 0; k < 100; ++k)
      stats->Enter(slot, kT0, 1);
    for (int k = 0; k < 100; ++k)
      stats->Exit(slot, kT0, {1, 1ms, false});
  }
  // A resource: 71 lines of 64 bytes, 461 cells of 4 bytes three times.
  EXPECT_LT(table->Bytes(), 50 * 12'000 + 100'000 + 50'000u);
  EXPECT_GT(table->Counted().shards_refused, 0u);
}

TEST_F(StatsTableTest, OptionsAreChecked) {
  EXPECT_FALSE(StatsTable::Create({.stats_max = 0}).ok());
  EXPECT_FALSE(StatsTable::Create({.stats_max = base::kStatsMax + 1}).ok());
  StatsTableOptions odd;
  odd.origin.views = Views(WindowShape{1s, 7});
  EXPECT_FALSE(StatsTable::Create(odd).ok());
  odd = {};
  odd.resource.latency = LatencyShape{1s, 0};
  EXPECT_FALSE(StatsTable::Create(odd).ok());
  odd = {};
  odd.shard_bytes = base::kStatsShardBytesMax + 1;
  EXPECT_FALSE(StatsTable::Create(odd).ok());
}

}  // namespace
}  // namespace flowguard::stats
