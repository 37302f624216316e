// SPDX-License-Identifier: Apache-2.0
#include "quota/io_thread.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::quota {
namespace {

TEST(IoThread, RunsWorkInOrderOnItsOwnThread) {
  auto thread = std::move(IoThread::Start(SystemClock())).value();
  std::vector<int> order;
  std::thread::id where;
  for (int i = 0; i < 100; ++i)
    thread->Post([&order, i] { order.push_back(i); });
  thread->PostAndWait([&] { where = std::this_thread::get_id(); });
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(IoThread, EndsWhileTimersAreArmed) {
  auto thread = std::move(IoThread::Start(SystemClock())).value();
  net::Timer timer([](void*) noexcept {}, nullptr);
  thread->PostAndWait([&] { thread->loop().ArmAfter(timer, std::chrono::hours(1)); });
  thread.reset();
}

}  // namespace
}  // namespace flowguard::quota
