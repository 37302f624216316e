// SPDX-License-Identifier: Apache-2.0
#include "net/loop.h"

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "net/socket.h"
#include "testing/manual_clock.h"

namespace flowguard::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Spy final : public Watcher {
 public:
  void OnReady(Ready ready) noexcept override {
    ++events;
    last = ready;
    if (retire_too != nullptr) loop->Retire(*retire_too);
  }
  void OnRetired() noexcept override { retired = true; }
  int events = 0;
  Ready last;
  bool retired = false;
  Loop* loop = nullptr;
  Watcher* retire_too = nullptr;
};

struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
    a = Fd(fds[0]);
    b = Fd(fds[1]);
  }
  Fd a;
  Fd b;
};

struct LoopTest : ::testing::Test {
  testing::ManualClock clock;
  std::unique_ptr<Loop> loop = std::move(Loop::Create(clock)).value();
};

TEST_F(LoopTest, NowStandsStillWithinATurn) {
  const Instant before = loop->Now();
  clock.Advance(seconds(1));
  EXPECT_EQ(loop->Now(), before);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(loop->Now(), before + seconds(1));
}

TEST_F(LoopTest, TellsWhenDataComesAndWhenThePeerCloses) {
  Pair pair;
  Spy spy;
  ASSERT_TRUE(loop->Watch(pair.a.get(), spy));
  loop->RunOnce(Duration::zero());
  EXPECT_FALSE(spy.last.readable);
  EXPECT_TRUE(spy.last.writable);

  ASSERT_EQ(Send(pair.b.get(), "x", 1).bytes, 1U);
  loop->RunOnce(Duration::zero());
  EXPECT_TRUE(spy.last.readable);
  EXPECT_FALSE(spy.last.peer_closed);

  const int events = spy.events;
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(spy.events, events) << "edge-triggered: nothing new, nothing told";

  pair.b.Close();
  loop->RunOnce(Duration::zero());
  EXPECT_TRUE(spy.last.peer_closed);
  loop->Forget(spy);
}

TEST_F(LoopTest, ARetiredWatcherGetsNoEventOfTheSameBatch) {
  // Two connections are ready at once and the first ends the second: an event for
  // the second would reach an object that is gone.
  Pair one;
  Pair two;
  Spy first;
  Spy second;
  ASSERT_TRUE(loop->Watch(one.a.get(), first));
  ASSERT_TRUE(loop->Watch(two.a.get(), second));
  first.loop = second.loop = loop.get();
  first.retire_too = &second;
  second.retire_too = &first;

  loop->RunOnce(Duration::zero());
  EXPECT_EQ(first.events + second.events, 1);
  EXPECT_EQ((first.events == 1 ? second : first).retired, true);
  loop->Forget(first);
  loop->Forget(second);
}

TEST_F(LoopTest, AgainComesInTheNextTurnWithoutWaiting) {
  Spy spy;
  loop->Again(spy);
  loop->RunOnce(seconds(60));
  EXPECT_EQ(spy.events, 1);
  EXPECT_TRUE(spy.last.readable);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(spy.events, 1);
}

TEST_F(LoopTest, AgainComesOnceHoweverOftenItIsAskedFor) {
  Spy spy;
  loop->Again(spy);
  loop->Again(spy);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(spy.events, 1);
  loop->Again(spy);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(spy.events, 2);
  loop->Again(spy);
  loop->Forget(spy);
  loop->Again(spy);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(spy.events, 3);
}

TEST_F(LoopTest, PostRunsOnTheLoopInOrderFromAnyThread) {
  std::vector<int> seen;
  std::thread poster([&] {
    for (int i = 0; i < 100; ++i)
      loop->Post([&seen, i] { seen.push_back(i); });
    loop->Post([this] { loop->Stop(); });
  });
  loop->Run();
  poster.join();

  ASSERT_EQ(seen.size(), 100U);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST_F(LoopTest, TimersFireByTheInjectedClock) {
  int fired = 0;
  Timer timer([](void* count) noexcept { ++*static_cast<int*>(count); }, &fired);
  loop->ArmAfter(timer, milliseconds(5));
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(fired, 0);
  clock.Advance(milliseconds(5));
  loop->RunOnce(seconds(60));  // does not wait: the timer is due
  EXPECT_EQ(fired, 1);
}

class TurnEnd final : public Watcher {
 public:
  void OnReady(Ready /*ready*/) noexcept override { ++events; }
  void OnTurnEnd() noexcept override {
    ++ends;
    fired_before = fired;
    if (again) loop->AtTurnEnd(*this);
  }
  Loop* loop = nullptr;
  int events = 0;
  int ends = 0;
  bool fired = false;
  bool fired_before = false;
  bool again = false;
};

TEST_F(LoopTest, TheEndOfATurnComesAfterEventsAndTimersAndOnce) {
  TurnEnd watcher;
  watcher.loop = loop.get();
  Timer timer([](void* self) noexcept { static_cast<TurnEnd*>(self)->fired = true; }, &watcher);
  loop->Arm(timer, clock.Now());
  loop->AtTurnEnd(watcher);
  loop->RunOnce(std::chrono::hours(1));  // does not wait
  EXPECT_EQ(watcher.ends, 1);
  EXPECT_TRUE(watcher.fired_before);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(watcher.ends, 1);
}

TEST_F(LoopTest, WhoAsksAtTheEndOfATurnWaitsForTheNext) {
  TurnEnd watcher;
  watcher.loop = loop.get();
  watcher.again = true;
  loop->AtTurnEnd(watcher);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(watcher.ends, 1);
  loop->RunOnce(std::chrono::hours(1));
  EXPECT_EQ(watcher.ends, 2);
  loop->Forget(watcher);
  loop->RunOnce(Duration::zero());
  EXPECT_EQ(watcher.ends, 2);
}

}  // namespace
}  // namespace flowguard::net
