// SPDX-License-Identifier: Apache-2.0
//
// Statistics under real threads: exact totals, whatever shards they are counted in.  More
// threads than own slots, so that some share theirs.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/thread_slot.h"
#include "stats/inflight.h"
#include "stats/resource_stats.h"
#include "stats/sliding_counts.h"
#include "stats/stats_table.h"
#include "stats/top_values.h"

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr Instant kT0{std::chrono::hours(24 * 10)};
constexpr int kThreads = 16;
constexpr int kManyThreads = 70;  // more than base::kThreadSlots

template <class F>
void InThreads(int count, F f) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      f(t);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

class SlidingCountsStressTest : public testing::TestWithParam<size_t> {};
// No own shards, some, one for each thread.
INSTANTIATE_TEST_SUITE_P(Budgets, SlidingCountsStressTest,
                         testing::Values(size_t{0}, size_t{8'000}, size_t{1} << 24));

TEST_P(SlidingCountsStressTest, NothingIsLostWhateverShardItIsCountedIn) {
  constexpr int kTimes = 300;
  ShardBudget budget(GetParam());
  SlidingCounts counts(Views({1s, 10}, {1min, 60}), &budget);
  InThreads(kManyThreads, [&](int t) {
    const size_t slot = base::ThreadSlot();
    for (int i = 0; i < kTimes; ++i) {
      // Within one window, out of order among the threads.
      const Instant now = kT0 + ((i * 3 + t * 7) % 900) * 1ms;
      counts.Passed(slot, now, 2, t + 1);
      counts.Ended(slot, now, 1, Duration(1'000 + t), i % 2 == 0);
      counts.Blocked(slot, now, 3);
    }
  });
  for (const size_t view : {size_t{0}, size_t{1}}) {
    const Counts all = counts.Window(view, kT0 + 999ms);
    constexpr int64_t kAll = int64_t{kManyThreads} * kTimes;
    EXPECT_EQ(all.passed, 2 * kAll);
    EXPECT_EQ(all.blocked, 3 * kAll);
    EXPECT_EQ(all.succeeded, kAll);
    EXPECT_EQ(all.failed, kAll / 2);
    EXPECT_EQ(all.inflight_max, kManyThreads);
    EXPECT_EQ(all.rt_min, Duration(1'000));
    EXPECT_EQ(all.rt_sum.count(),
              kAll * 1'000 + int64_t{kTimes} * kManyThreads * (kManyThreads - 1) / 2);
  }
}

// All threads meet at every begin of a bucket, the ring turns many times, and a reader
// looks on: each bucket holds exactly what was counted in it, before, at and after its end.
TEST_P(SlidingCountsStressTest, EveryBucketHoldsWhatWasCountedInItWhileTheRingTurns) {
  constexpr int kMeeting = 6;  // threads: a barrier of many takes its time
  constexpr int kBuckets = 3;
  constexpr int kPhases = 150;
  constexpr int kTimes = 60;
  ShardBudget budget(GetParam());
  SlidingCounts counts(WindowShape{kBuckets * 1s, kBuckets}, &budget);
  std::atomic<int> phase{0};
  std::atomic<bool> ended{false};
  std::barrier meet(kMeeting, [&]() noexcept { phase.fetch_add(1); });
  std::thread reader([&] {
    while (!ended.load()) {
      const Instant now = kT0 + phase.load() * 1s;
      const Counts window = counts.Window(0, now);
      // Readers may be a phase behind, and then count the next bucket as now's.
      ASSERT_LE(window.passed, (kBuckets + 1) * kMeeting * kTimes);
      ASSERT_LE(counts.Bucket(0, now, 1).passed, kMeeting * kTimes);
    }
  });
  std::atomic<int> wrong{0};
  InThreads(kMeeting, [&](int) {
    const size_t slot = base::ThreadSlot();
    for (int p = 0; p < kPhases; ++p) {
      const Instant now = kT0 + p * 1s;
      for (int i = 0; i < kTimes; ++i)
        counts.Passed(slot, now, 1, 1);
      meet.arrive_and_wait();
      if (counts.Bucket(0, now, 0).passed != kMeeting * kTimes) wrong.fetch_add(1);
      const int64_t before = counts.Bucket(0, now, kBuckets - 1).passed;
      if (p >= kBuckets && before != kMeeting * kTimes) wrong.fetch_add(1);
      meet.arrive_and_wait();
    }
  });
  ended.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0);
}

// Threads that open one slot of the shared ring for different buckets, unordered: no count
// shows up in a bucket that it was not for, nor twice.
TEST_P(SlidingCountsStressTest, ABucketNeverHoldsMoreThanWasCountedForIt) {
  constexpr int kTimes = 4'000;
  constexpr int kIndices = 256;
  ShardBudget budget(GetParam());
  SlidingCounts counts(WindowShape{2ms, 2}, &budget);
  std::atomic<int64_t> clock{0};
  std::array<std::atomic<int64_t>, kIndices> given{};
  std::atomic<int64_t> most{0};
  InThreads(kThreads, [&](int t) {
    const size_t slot = base::ThreadSlot();
    for (int i = 0; i < kTimes; ++i) {
      const int64_t tick = t == 0 && i % 16 == 0 ? clock.fetch_add(1) + 1 : clock.load();
      given[static_cast<size_t>(tick % kIndices)].fetch_add(1);
      counts.Passed(slot, kT0 + tick * 1ms, 1, 1);
      const int64_t told = counts.Bucket(0, kT0 + tick * 1ms, 1).passed;
      int64_t seen = most.load();
      while (told > seen && !most.compare_exchange_weak(seen, told)) {
      }
    }
  });
  int64_t given_most = 0;
  for (const auto& count : given)
    given_most = std::max(given_most, count.load());
  // Late ones may be counted in the bucket after theirs.
  EXPECT_LE(most.load(), 2 * given_most);
}

TEST(InflightStressTest, NoMoreAreInThanMayAndTheMostIsSeen) {
  constexpr int64_t kMost = 5;
  Inflight inflight;
  std::atomic<int64_t> in{0};
  std::atomic<int64_t> most{0};
  std::atomic<int64_t> admitted{0};
  InThreads(kThreads, [&](int) {
    for (int i = 0; i < 2'000; ++i) {
      const auto told = inflight.TryEnter(kMost);
      if (!told.has_value()) continue;
      admitted.fetch_add(1);
      const int64_t now = in.fetch_add(1) + 1;
      int64_t seen = most.load();
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      if (i % 8 == 0) std::this_thread::yield();
      in.fetch_sub(1);
      inflight.Leave();
    }
  });
  EXPECT_LE(most.load(), kMost);
  EXPECT_GT(admitted.load(), 0);
  EXPECT_EQ(inflight.Count(), 0);
}

TEST(ResourceStatsStressTest, TheMostInProgressIsExactWhenAllAreIn) {
  ShardBudget budget(1 << 20);
  ResourceStats stats("r", "", StatsShape{.latency = LatencyShape{}}, &budget);
  std::barrier all_in(kThreads);
  InThreads(kThreads, [&](int) {
    const size_t slot = base::ThreadSlot();
    for (int round = 0; round < 20; ++round) {
      stats.Enter(slot, kT0, 1);
      all_in.arrive_and_wait();
      stats.Exit(slot, kT0, {1, 1ms, false});
      all_in.arrive_and_wait();
    }
  });
  EXPECT_EQ(stats.InProgress(), 0);
  EXPECT_EQ(stats.Counted().Window(0, kT0).inflight_max, kThreads);
  EXPECT_EQ(stats.Latency()->Window(kT0).Count(), uint64_t{kThreads} * 20);
}

TEST(SlidingLatencyStressTest, EveryDurationCountsOnceWhilePartsBegin) {
  constexpr int kTimes = 2'000;
  ShardBudget budget(1 << 20);
  // A window that nothing leaves, in many parts.
  SlidingLatency latency(LatencyShape{60s, 60}, &budget);
  std::atomic<int64_t> clock{0};
  std::atomic<bool> ended{false};
  std::thread reader([&] {
    uint64_t last = 0;
    while (!ended.load()) {
      const uint64_t now = latency.Window(kT0 + clock.load() * 1ms).Count();
      ASSERT_GE(now, last) << "nothing goes away";
      last = now;
    }
  });
  InThreads(kThreads, [&](int t) {
    const size_t slot = base::ThreadSlot();
    for (int i = 0; i < kTimes; ++i) {
      const int64_t tick = t == 0 ? clock.fetch_add(25) : clock.load();
      latency.Add(slot, kT0 + tick * 1ms, Duration(1'000'000 + t));
    }
  });
  ended.store(true);
  reader.join();
  EXPECT_EQ(latency.Window(kT0 + 50s).Count(), uint64_t{kThreads} * kTimes);
}

TEST(StatsTableStressTest, NobodyIsCountedForAnotherWhileTheTableForgets) {
  constexpr int kTimes = 3'000;
  constexpr int kNames = 150;
  StatsTableOptions options;
  options.stats_max = 40;
  options.shard_bytes = 200'000;
  const auto table = StatsTable::Create(options).value();
  std::atomic<int> wrong{0};
  std::atomic<int64_t> to_others{0};
  const StatsRef kept = table->Get("kept", "", kT0);
  InThreads(kThreads, [&](int t) {
    const size_t slot = base::ThreadSlot();
    uint64_t random = static_cast<uint64_t>(t) + 1;
    for (int i = 0; i < kTimes; ++i) {
      random = random * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
      const std::string name = "r" + std::to_string((random >> 33) % kNames);
      const Instant now = kT0 + i * 1ms;
      ResourceStats* entered = nullptr;
      {
        const StatsRef stats = table->Get(name, "", now);
        if (stats->Resource() != name) {
          if (stats->Resource() != "(others)") wrong.fetch_add(1);
          to_others.fetch_add(1);
        }
        entered = stats.get();
        entered->Enter(slot, now, 1);
      }
      // Only the call in progress keeps it now.
      if (entered->Resource() != name && entered->Resource() != "(others)") wrong.fetch_add(1);
      entered->Exit(slot, now, {1, 1ms, false});
      if (table->Find("kept", "").get() != kept.get()) wrong.fetch_add(1);
      if (i % 500 == 0 && table->All().size() > options.stats_max) wrong.fetch_add(1);
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  const StatsTableCounts counted = table->Counted();
  EXPECT_EQ(counted.stats, options.stats_max);
  EXPECT_GT(counted.forgotten, 0u);
  EXPECT_EQ(static_cast<int64_t>(counted.others), to_others.load());
  for (const StatsRef& stats : table->All())
    EXPECT_EQ(stats->InProgress(), 0) << stats->Resource();
}

// Fault ruled out: threads that meet a new name each make one.
TEST(StatsTableStressTest, ANewNameIsMadeOnce) {
  const auto table = StatsTable::Create({.stats_max = 2'000}).value();
  constexpr int kNames = 1'000;
  InThreads(kThreads, [&](int) {
    const size_t slot = base::ThreadSlot();
    for (int i = 0; i < kNames; ++i)
      table->Get(std::to_string(i), "", kT0)->Enter(slot, kT0, 1);
  });
  EXPECT_EQ(table->Counted().stats, size_t{kNames});
  for (const StatsRef& stats : table->All())
    EXPECT_EQ(stats->InProgress(), kThreads);
}

TEST(TopValuesStressTest, NothingIsLost) {
  constexpr int kTimes = 1'000;
  const auto top = TopValues::Create({.values = 20}).value();
  InThreads(kThreads, [&](int t) {
    for (int i = 0; i < kTimes; ++i) {
      top->Add(base::ThreadSlot(), kT0, i % 2 == 0 ? "hot" : std::to_string(t % 10), 1);
      if (i % 100 == 0) static_cast<void>(top->Top(kT0, 5));
    }
  });
  EXPECT_DOUBLE_EQ(top->Total(kT0), kThreads * kTimes);
  EXPECT_EQ(top->Top(kT0, 1)[0].value, "hot");
  EXPECT_DOUBLE_EQ(top->Top(kT0, 1)[0].count, kThreads * kTimes / 2.0);
}

}  // namespace
}  // namespace flowguard::stats
