// SPDX-License-Identifier: Apache-2.0
#include "quota/redis/command_queue.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bounds.h"

namespace flowguard::quota::redis {
namespace {

using std::chrono::milliseconds;

class NoSink final : public ReplySink {
 public:
  void OnReply(uint64_t /*ticket*/, const CommandReply& /*reply*/) noexcept override {}
};

struct CommandQueueTest : ::testing::Test {
  static Instant At(int ms) { return Instant(milliseconds(ms)); }

  void Push(uint64_t ticket, int deadline_ms, std::string_view bytes) {
    queue.bytes().Raw(bytes);
    PendingCommand command;
    command.sink = &sink;
    command.ticket = ticket;
    command.deadline = At(deadline_ms);
    queue.Push(command);
  }
  void Expire(int ms) {
    left.clear();
    unsent.clear();
    std::vector<PendingCommand> a;
    std::vector<PendingCommand> b;
    queue.Expire(At(ms), a, b);
    for (const PendingCommand& command : a)
      left.push_back(command.ticket);
    for (const PendingCommand& command : b)
      unsent.push_back(command.ticket);
  }

  NoSink sink;
  CommandQueue queue;
  std::vector<uint64_t> left;
  std::vector<uint64_t> unsent;
};

using Tickets = std::vector<uint64_t>;

TEST_F(CommandQueueTest, WhatHasLeftKeepsItsPlaceWhenItExpires) {
  Push(1, 10, "aa");
  Push(2, 20, "bb");
  queue.MarkSent(4);
  EXPECT_EQ(queue.NextDeadline(), At(10));
  Expire(10);
  EXPECT_EQ(left, Tickets({1}));
  EXPECT_EQ(queue.size(), 2U) << "it counts until its reply comes";
  EXPECT_EQ(queue.NextDeadline(), At(20));
  EXPECT_EQ(queue.Pop().sink, nullptr);
  EXPECT_EQ(queue.Pop().ticket, 2U);
}

TEST_F(CommandQueueTest, WhatHasNotLeftIsTakenOut) {
  Push(1, 10, "aa");
  Push(2, 10, "bbb");
  Push(3, 30, "cccc");
  Push(4, 10, "d");
  Push(5, 30, "ee");
  queue.MarkSent(3);  // the second has begun to leave: it must be sent to its end
  Expire(10);
  EXPECT_EQ(left, Tickets({1, 2}));
  EXPECT_EQ(unsent, Tickets({4}));
  EXPECT_EQ(queue.Unsent(), "bbccccee");
  Push(6, 40, "f");
  queue.MarkSent(queue.Unsent().size());
  Tickets order;
  while (!queue.empty()) {
    const PendingCommand command = queue.Pop();
    EXPECT_TRUE(queue.HasLeft(command));
    order.push_back(command.sink == nullptr ? 0 : command.ticket);
  }
  EXPECT_EQ(order, Tickets({0, 0, 3, 5, 6}));
  queue.DropAnswered();
  EXPECT_EQ(queue.bytes().size(), 0U);
}

TEST_F(CommandQueueTest, WhatTlsWasOfferedIsNotTakenBack) {
  Push(1, 10, "aa");
  Push(2, 10, "bb");
  queue.MarkOffered();
  Push(3, 10, "cc");
  Expire(10);
  EXPECT_EQ(left, Tickets({1, 2}));
  EXPECT_EQ(unsent, Tickets({3}));
  EXPECT_EQ(queue.Unsent(), "aabb");
}

TEST_F(CommandQueueTest, FindsDeadlinesThatComeOutOfOrder) {
  Push(1, 30, "a");
  Push(2, 10, "b");
  Push(3, 20, "c");
  queue.MarkSent(3);
  EXPECT_EQ(queue.NextDeadline(), At(10));
  Expire(10);
  EXPECT_EQ(left, Tickets({2}));
  EXPECT_EQ(queue.NextDeadline(), At(20));
  Expire(25);
  EXPECT_EQ(left, Tickets({3}));
  EXPECT_EQ(queue.NextDeadline(), At(30));
  Expire(30);
  EXPECT_EQ(left, Tickets({1}));
  EXPECT_EQ(queue.NextDeadline(), Instant::max());
}

TEST_F(CommandQueueTest, KeepsCountAndBytesWithinTheBounds) {
  for (size_t i = 0; i < base::kRedisPendingMax; ++i) {
    ASSERT_TRUE(queue.HasRoom(1));
    Push(i, 10, "x");
  }
  EXPECT_FALSE(queue.HasRoom(1));
  queue.MarkSent(base::kRedisPendingMax);
  for (size_t i = 0; i < base::kRedisPendingMax; ++i)
    ASSERT_EQ(queue.Pop().ticket, i);
  queue.DropAnswered();
  Push(1, 10, std::string(base::kRedisPendingBytesMax, 'x'));
  EXPECT_FALSE(queue.HasRoom(1));
}

TEST_F(CommandQueueTest, ARingThatWrapsKeepsTheOrder) {
  uint64_t pushed = 0;
  uint64_t popped = 0;
  for (int round = 0; round < 1'000; ++round) {
    for (int i = 0; i < round % 7 + 1; ++i)
      Push(pushed++, 10, "abc");
    queue.MarkSent(queue.Unsent().size());
    for (int i = 0; i < round % 5 + 1 && !queue.empty(); ++i)
      ASSERT_EQ(queue.Pop().ticket, popped++);
    queue.DropAnswered();
  }
  while (!queue.empty())
    ASSERT_EQ(queue.Pop().ticket, popped++);
  EXPECT_EQ(popped, pushed);
}

}  // namespace
}  // namespace flowguard::quota::redis
