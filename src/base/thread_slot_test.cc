// SPDX-License-Identifier: Apache-2.0
#include "base/thread_slot.h"

#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::base {
namespace {

std::vector<size_t> SlotsOfThreads(int count) {
  std::barrier all_alive(count);
  std::mutex mutex;
  std::vector<size_t> slots;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      const size_t slot = ThreadSlot();
      {
        const std::lock_guard lock(mutex);
        slots.push_back(slot);
      }
      all_alive.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return slots;
}

TEST(ThreadSlotTest, ThreadsThatLiveAtOnceHaveDifferentSlots) {
  const std::vector<size_t> slots = SlotsOfThreads(32);

  EXPECT_EQ(std::set<size_t>(slots.begin(), slots.end()).size(), 32u);
}

TEST(ThreadSlotTest, MoreThreadsThanSlotsShareThem) {
  for (const size_t slot : SlotsOfThreads(100))
    EXPECT_LT(slot, kThreadSlots);
}

TEST(ThreadSlotTest, SlotsOfEndedThreadsAreUsedAgain) {
  for (int round = 0; round < 5; ++round) {
    const std::vector<size_t> slots = SlotsOfThreads(40);
    EXPECT_EQ(std::set<size_t>(slots.begin(), slots.end()).size(), 40u) << "round " << round;
  }
}

// Fault ruled out: two threads that write one counter by plain stores, be it because
// they share a slot or because one got the slot of another that had just ended.
TEST(ThreadSlotTest, NoAdditionIsLostWhenSlotsAreSharedAndHandedOn) {
  constexpr int kThreads = 100;
  constexpr int kAdditions = 2'000;
  constexpr int kRounds = 3;
  std::array<std::atomic<int64_t>, kThreadSlots> counters{};

  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&counters] {
        for (int k = 0; k < kAdditions; ++k) {
          const size_t slot = ThreadSlot();
          AddInSlot(slot, counters[slot], int64_t{1});
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }

  int64_t sum = 0;
  for (const auto& counter : counters)
    sum += counter.load();
  EXPECT_EQ(sum, int64_t{kThreads} * kAdditions * kRounds);
}

}  // namespace
}  // namespace flowguard::base
