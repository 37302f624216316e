// SPDX-License-Identifier: Apache-2.0
#include "engine/rule_counters.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::engine {
namespace {

TEST(RuleCounterBoardTest, CountsOfAllThreadsAreSummedAlsoOfEndedOnes) {
  RuleCounterBoard board;
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; ++i) {
    threads.emplace_back([&board] {
      for (int j = 0; j < 1'000; ++j)
        board.Add(base::ThreadSlot(), 7, Count::kPassed);
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_EQ(board.Sum(7, Count::kPassed), 100'000);
  EXPECT_EQ(board.Sum(7, Count::kRefused), 0);
}

TEST(RuleCounterBoardTest, EveryAccountHasAPlaceOfItsOwn) {
  RuleCounterBoard board;
  for (uint32_t account = 0; account < 2'000; ++account) {
    board.Add(base::ThreadSlot(), account, Count::kWaitNs, account + 1);
  }

  for (uint32_t account = 0; account < 2'000; ++account) {
    ASSERT_EQ(board.Sum(account, Count::kWaitNs), account + 1);
  }
  EXPECT_EQ(board.Sum(999'999, Count::kPassed), 0);
}

}  // namespace
}  // namespace flowguard::engine
