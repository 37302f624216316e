// SPDX-License-Identifier: Apache-2.0
#include "base/thread_slot.h"

#include <barrier>
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

}  // namespace
}  // namespace flowguard::base
