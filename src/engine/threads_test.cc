// SPDX-License-Identifier: Apache-2.0
//
// Exactness when many threads decide at once, and no allocation while they do.
#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/rules.h"
#include "testing/thread_allocations.h"

namespace flowguard::engine {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::FakeRequest;
using testing::LimitRule;

class ThreadsTest : public testing::EngineFixture {
 protected:
  template <typename F>
  static void OnThreads(int count, F f) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
      threads.emplace_back(f);
    for (std::thread& thread : threads)
      thread.join();
  }
};

TEST_F(ThreadsTest, SixteenThreadsAdmitExactlyTheLimitForEveryAlgorithm) {
  for (const Algorithm algorithm : testing::kEveryAlgorithm) {
    Rule rule = LimitRule("a", 1'000, hours(1), algorithm);
    rule.by = {"user"};
    Build({rule, LimitRule("other", 100'000, hours(24))});
    std::atomic<int> admitted{0};

    OnThreads(16, [&] {
      const FakeRequest request("r", {{"user", "ann"}});
      for (int i = 0; i < 100; ++i)
        admitted.fetch_add(Check(request).allowed() ? 1 : 0);
    });

    EXPECT_EQ(admitted.load(), 1'000) << "algorithm " << static_cast<int>(algorithm);
    EXPECT_EQ(CountersOf("a").passed, 1'000u);
    EXPECT_EQ(CountersOf("a").refused, 600u);
  }
}

// Two threads that meet a key for the first time must not each make its cell.
TEST_F(ThreadsTest, AColdKeyIsAdmittedOnce) {
  Rule rule = LimitRule("a", 1, hours(24));
  rule.by = {"user"};
  Build({rule});
  std::atomic<int> admitted{0};

  OnThreads(16, [&] {
    for (int i = 0; i < 500; ++i) {
      const FakeRequest request("r", {{"user", std::to_string(i)}});
      admitted.fetch_add(Check(request).allowed() ? 1 : 0);
    }
  });

  EXPECT_EQ(admitted.load(), 500);
}

TEST_F(ThreadsTest, ConcurrencyIsNeverExceededAndEndsAtZero) {
  Rule keyed = ConcurrencyRule("keyed", 3);
  keyed.by = {"user"};
  Build({ConcurrencyRule("all", 5), keyed});
  constexpr int kThreads = 16;
  struct Inside {
    std::atomic<int> now{0};
    std::atomic<int> most{0};
    void Enter() {
      const int count = now.fetch_add(1) + 1;
      int seen = most.load();
      while (count > seen && !most.compare_exchange_weak(seen, count)) {
      }
    }
  };
  Inside all;
  Inside ann;
  // Everybody has asked before anybody leaves, so each round meets a limit: ann's, or
  // that of all where each comes by another name.
  std::barrier asked(kThreads);
  std::barrier left(kThreads);
  std::atomic<int> next{0};

  OnThreads(kThreads, [&] {
    const std::string name = std::to_string(next.fetch_add(1));
    for (int i = 0; i < 200; ++i) {
      const bool as_ann = i % 2 == 0;
      Attempt attempt;
      Enter(attempt, FakeRequest("r", {{"user", as_ann ? "ann" : name}}));
      const bool entered = attempt.entered();
      if (entered) all.Enter();
      if (entered && as_ann) ann.Enter();
      asked.arrive_and_wait();
      if (entered) all.now.fetch_sub(1);
      if (entered && as_ann) ann.now.fetch_sub(1);
      Settle(attempt);
      left.arrive_and_wait();
    }
  });

  EXPECT_EQ(all.most.load(), 5);
  EXPECT_EQ(ann.most.load(), 3);
  EXPECT_EQ(CountersOf("all").inflight, 0);
  EXPECT_EQ(CountersOf("keyed").inflight, 0);
  EXPECT_EQ(Peek(FakeRequest("r", {{"user", "ann"}})).remaining, 3);
}

// Who stops waiting, at whatever step, leaves the turns of those who stay as they are.
TEST_F(ThreadsTest, WhoStopsWaitingLeavesNoTurnAndNoSlotBehind) {
  constexpr int kThreads = 16;
  constexpr int kEach = 300;
  Rule rate = LimitRule("rate", 10, seconds(1));
  rate.burst = 1;
  rate.wait = hours(1);
  Build({rate, ConcurrencyRule("slots", kThreads)});
  Spend();

  OnThreads(kThreads, [&] {
    for (int i = 0; i < kEach; ++i) {
      Attempt attempt;
      Enter(attempt, FakeRequest("r"));
      EXPECT_TRUE(attempt.waiting());
      if (i % 3 != 0) engine_->Continue(attempt, now_);
      if (i % 3 == 2) Settle(attempt);
      engine_->Cancel(attempt, now_);
    }
  });

  EXPECT_EQ(CountersOf("slots").inflight, 0);
  const int64_t stayed = kThreads * kEach / 3;
  EXPECT_EQ(Check().wait, (1 + stayed) * milliseconds(100));
}

// Threads decide by what a load finds that it has already.
TEST_F(ThreadsTest, TheSameRulesAreLoadedAgainWhileThreadsDecideByThem) {
  const std::vector<Rule> rules = {
      LimitRule("log", 1'000, hours(1), Algorithm::kSlidingLog),
      LimitRule("buckets", 100'000, hours(1), Algorithm::kSlidingBuckets)};
  Build(rules);
  std::atomic<bool> ended{false};
  std::thread loader([&] {
    for (int i = 0; i < 100; ++i)
      Load(rules);
    ended = true;
  });
  std::atomic<int> admitted{0};

  OnThreads(4, [&] {
    do {
      admitted.fetch_add(Check().allowed() ? 1 : 0);
    } while (!ended);
  });

  loader.join();
  while (Check().allowed())
    ++admitted;
  EXPECT_EQ(admitted, 1'000);
}

TEST_F(ThreadsTest, ADecisionAllocatesNothing) {
  Rule keyed = LimitRule("keyed", 1'000'000, seconds(1));
  keyed.by = {"user", "tenant"};
  Rule single = LimitRule("single", 1'000'000, seconds(1));
  single.algorithm = Algorithm::kFixedWindow;
  Build({keyed, single, ConcurrencyRule("slots", 10)});
  const FakeRequest request("r", {{"user", "ann"}, {"tenant", "acme"}});
  ASSERT_TRUE(Check(request).allowed());
  Attempt attempt;
  const int64_t before = allocations;

  for (int i = 0; i < 100; ++i) {
    Enter(attempt, request);
    Settle(attempt);
  }

  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace flowguard::engine
