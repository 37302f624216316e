// SPDX-License-Identifier: Apache-2.0
#include "net/timer.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart = Instant(seconds(1000));

struct Recorder {
  explicit Recorder(std::vector<int>& into, int name)
      : log(into),
        id(name),
        timer([](void* self) noexcept { static_cast<Recorder*>(self)->Fired(); }, this) {}
  void Fired() { log.push_back(id); }
  std::vector<int>& log;
  int id;
  Timer timer;
};

TEST(TimerHeapTest, FiresInOrderOfTimeAndNotBeforeTheDeadline) {
  TimerHeap heap;
  std::vector<int> log;
  Recorder late(log, 3);
  Recorder early(log, 1);
  Recorder middle(log, 2);
  heap.Arm(late.timer, kStart + seconds(3));
  heap.Arm(early.timer, kStart + seconds(1));
  heap.Arm(middle.timer, kStart + seconds(2));

  heap.Fire(kStart + seconds(1) - Duration(1));
  EXPECT_TRUE(log.empty());
  heap.Fire(kStart + seconds(1));
  EXPECT_EQ(log, (std::vector<int>{1}));
  heap.Fire(kStart + seconds(9));
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(heap.size(), 0U);
}

TEST(TimerHeapTest, ALaterDeadlineCostsNoHeapWorkAndIsKept) {
  TimerHeap heap;
  std::vector<int> log;
  Recorder idle(log, 1);
  heap.Arm(idle.timer, kStart + seconds(10));
  heap.Arm(idle.timer, kStart + seconds(20));

  EXPECT_EQ(heap.Next(), kStart + seconds(10)) << "the entry stays where it was";
  heap.Fire(kStart + seconds(10));
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(heap.Next(), kStart + seconds(20));
  heap.Fire(kStart + seconds(20));
  EXPECT_EQ(log, (std::vector<int>{1}));
}

TEST(TimerHeapTest, AnEarlierDeadlineIsTakenAtOnce) {
  TimerHeap heap;
  std::vector<int> log;
  Recorder a(log, 1);
  heap.Arm(a.timer, kStart + seconds(10));
  heap.Arm(a.timer, kStart + seconds(2));

  heap.Fire(kStart + seconds(2));
  EXPECT_EQ(log, (std::vector<int>{1}));
  EXPECT_EQ(heap.size(), 0U);
}

TEST(TimerHeapTest, DisarmedAndDestroyedTimersDoNotFire) {
  TimerHeap heap;
  std::vector<int> log;
  Recorder a(log, 1);
  auto b = std::make_unique<Recorder>(log, 2);
  heap.Arm(a.timer, kStart + seconds(1));
  heap.Arm(b->timer, kStart + seconds(1));
  a.timer.Disarm();
  b.reset();

  heap.Fire(kStart + seconds(5));
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(heap.size(), 0U);
}

TEST(TimerHeapTest, ACallbackMayArmItselfAgain) {
  struct Ticker {
    explicit Ticker(TimerHeap& into)
        : heap(into),
          timer([](void* self) noexcept { static_cast<Ticker*>(self)->Fired(); }, this) {}
    void Fired() {
      ++count;
      heap.Arm(timer, kStart + seconds(count + 1));
    }
    TimerHeap& heap;
    int count = 0;
    Timer timer;
  };
  TimerHeap heap;
  Ticker ticker(heap);
  heap.Arm(ticker.timer, kStart + seconds(1));

  heap.Fire(kStart + seconds(3));
  EXPECT_EQ(ticker.count, 3);
}

TEST(TimerHeapTest, AgreesWithASortedListOverRandomArmings) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    TimerHeap heap;
    std::vector<int> log;
    std::vector<std::unique_ptr<Recorder>> timers;
    for (int i = 0; i < 40; ++i)
      timers.push_back(std::make_unique<Recorder>(log, i));
    Instant now = kStart;
    for (int step = 0; step < 400; ++step) {
      Recorder& one = *timers[random() % timers.size()];
      if (random() % 5 == 0) {
        one.timer.Disarm();
      } else {
        heap.Arm(one.timer, now + milliseconds(1 + random() % 100));
      }
      now += milliseconds(random() % 4);
      std::vector<int> due;
      for (const auto& timer : timers) {
        if (timer->timer.armed() && timer->timer.deadline() <= now) due.push_back(timer->id);
      }
      log.clear();
      heap.Fire(now);
      std::sort(log.begin(), log.end());
      ASSERT_EQ(log, due);
    }
  }
}

}  // namespace
}  // namespace flowguard::net
