// SPDX-License-Identifier: Apache-2.0
//
// The cell table under real threads.  cell_protocol_test.cc is the proof; this is
// for what a model leaves out: the processor, the compiler, ThreadSanitizer.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "store/cell_table.h"

namespace flowguard::store {
namespace {

constexpr int64_t kNow = 1'000'000'000'000;
constexpr int64_t kHour = int64_t{3600} * 1'000'000'000;
constexpr int kThreads = 16;

base::Hash128 KeyOf(uint64_t number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  return base::HashOf({bytes, sizeof(bytes)}, 11);
}

bool Take(CellTable& table, uint64_t key, int64_t now, int64_t period, int64_t burst) {
  bool allowed = false;
  table.Update(KeyOf(key), Instant(Duration(now)), [&](int64_t& word) {
    const int64_t next = std::max(word, now) + period;
    allowed = next <= now + period * burst;
    if (allowed) word = next;
    return allowed;
  });
  return allowed;
}

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

std::unique_ptr<CellTable> TableOf(size_t capacity) {
  auto table = CellTable::Create(capacity);
  EXPECT_TRUE(table.ok());
  return std::move(table).value();
}

// Rules out: threads that meet a cold key at once each create its cell, and each
// admit the one request of its burst.
TEST(CellTableStressTest, ColdKeysHitBySixteenThreadsAdmitExactlyOnce) {
  constexpr uint64_t kKeys = 10'000;
  const auto table = TableOf(kKeys);
  std::vector<std::atomic<int>> admitted(kKeys);

  InThreads(kThreads, [&](int) {
    for (uint64_t key = 0; key < kKeys; ++key) {
      if (Take(*table, key, kNow, kHour, 1)) admitted[key].fetch_add(1);
    }
  });

  for (uint64_t key = 0; key < kKeys; ++key)
    ASSERT_EQ(admitted[key].load(), 1) << key;
  EXPECT_EQ(table->Stats().evictions, 0U);
}

// Rules out: a cell claimed by another key while it is being debited, so that one
// key gets its quota twice (cells expire all the time: half the takes meet a stale
// cell, and slots change hands).
TEST(CellTableStressTest, ExpiryRacingTakesNeverGrantsAQuotaTwice) {
  constexpr uint64_t kKeys = 90;  // of a table of 96 slots and its stash: slots are contended
  constexpr int64_t kPeriod = 1'000;
  constexpr int64_t kSteps = 2'000;
  const auto table = TableOf(64);
  std::vector<std::atomic<int>> admitted(kKeys * kSteps);
  std::barrier step(kThreads);

  InThreads(kThreads, [&](int t) {
    std::mt19937_64 random(static_cast<uint64_t>(t));
    for (int64_t s = 0; s < kSteps; ++s) {
      if (s % 20 == 0) step.arrive_and_wait();
      for (int i = 0; i < 4; ++i) {
        const uint64_t key = random() % kKeys;
        if (Take(*table, key, kNow + s / 20 * kPeriod, kPeriod, 1)) {
          admitted[key * kSteps + static_cast<uint64_t>(s / 20)].fetch_add(1);
        }
      }
    }
  });

  for (const std::atomic<int>& count : admitted)
    ASSERT_LE(count.load(), 1);
  EXPECT_EQ(table->Stats().evictions, 0U);
}

// Rules out: debits or give-backs lost, doubled, or booked on another key.
TEST(CellTableStressTest, TakesAndGiveBacksAddUp) {
  constexpr uint64_t kKeys = 40;
  constexpr int64_t kBurst = int64_t{1} << 30;
  const auto table = TableOf(64);
  std::vector<std::atomic<int64_t>> owed(kKeys);

  InThreads(kThreads, [&](int t) {
    std::mt19937_64 random(static_cast<uint64_t>(t));
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t key = random() % kKeys;
      ASSERT_TRUE(Take(*table, key, kNow, 1'000, kBurst));
      owed[key].fetch_add(1);
      if (i % 3 != 0) continue;
      const bool back = table->UpdateExisting(KeyOf(key), Instant(Duration(kNow)),
                                              [](int64_t& word) { return word -= 1'000, true; });
      ASSERT_TRUE(back);
      owed[key].fetch_sub(1);
    }
  });

  for (uint64_t key = 0; key < kKeys; ++key) {
    EXPECT_EQ(table->Read(KeyOf(key), Instant(Duration(kNow))), kNow + 1'000 * owed[key].load());
  }
}

// Rules out: a full table that resets keys which are exhausted, under threads.
TEST(CellTableStressTest, AFloodBySixteenThreadsLeavesExhaustedKeysRefused) {
  constexpr uint64_t kVictims = 20;
  const auto table = TableOf(1'000);
  for (uint64_t key = 0; key < kVictims; ++key) {
    while (Take(*table, key, kNow, kHour / 100, 100)) {
    }
  }
  std::atomic<int> admitted{0};

  InThreads(kThreads, [&](int t) {
    for (uint64_t i = 0; i < 5'000; ++i) {
      Take(*table, 1'000 + static_cast<uint64_t>(t) * 5'000 + i, kNow, kHour / 100, 100);
      if (Take(*table, i % kVictims, kNow, kHour / 100, 100)) admitted.fetch_add(1);
    }
  });

  EXPECT_EQ(admitted.load(), 0);
  EXPECT_GT(table->Stats().evictions, 0U);
}

}  // namespace
}  // namespace flowguard::store
