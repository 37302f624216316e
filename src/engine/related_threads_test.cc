// SPDX-License-Identifier: Apache-2.0
//
// Rules that relate to a resource, with many requests at once and while rules are reloaded.
#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::hours;
using testing::ConcurrencyRule;
using testing::FakeRequest;
using testing::LimitRule;

constexpr int kThreads = 8;

Rule Related(Rule rule) {
  rule.on.resource = "read";
  rule.relate_to = "write";
  return rule;
}

class RelatedThreadsTest : public testing::EngineFixture {
 protected:
  // f(thread number), all at once.
  template <typename F>
  static void OnThreads(F f) {
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        f(i);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
};

// No unit is lost or taken twice: the cell is used up by exactly `limit` calls, no read that
// begins after the last of them passes, and no call is refused.
TEST_F(RelatedThreadsTest, TheCallThatUsesItUpIsTheLastBeforeARefusal) {
  constexpr int kWritesEach = 500;
  for (const Algorithm algorithm : testing::kEveryAlgorithm) {
    if (algorithm == Algorithm::kLeakyBucket) continue;  // without a wait it holds one
    Build({Related(LimitRule("reads", kThreads * kWritesEach, hours(1), algorithm))});
    std::atomic<int> writes{0};
    std::atomic<int> early{0};
    std::atomic<int> refused{0};
    OnThreads([&](int) {
      for (int i = 0; i < kWritesEach; ++i) {
        if (!Check(FakeRequest("read")).allowed() &&
            writes.load() + kThreads < kThreads * kWritesEach) {
          ++early;  // refused though units were left, even with those in between
        }
        if (!Check(FakeRequest("write")).allowed()) ++refused;
        ++writes;
      }
    });

    EXPECT_EQ(refused, 0);
    EXPECT_EQ(early, 0) << static_cast<int>(algorithm);
    EXPECT_FALSE(Check(FakeRequest("read")).allowed()) << static_cast<int>(algorithm);
  }
}

TEST_F(RelatedThreadsTest, OneCallFewerLeavesItOpen) {
  constexpr int kWritesEach = 500;
  Build({Related(LimitRule("reads", kThreads * kWritesEach + 1, hours(1)))});

  OnThreads([&](int) {
    for (int i = 0; i < kWritesEach; ++i) {
      EXPECT_TRUE(Check(FakeRequest("read")).allowed());
      EXPECT_TRUE(Check(FakeRequest("write")).allowed());
    }
  });

  EXPECT_EQ(Peek(FakeRequest("read")).remaining, 1);
}

TEST_F(RelatedThreadsTest, SlotsAreAllGivenBackWhileRulesAreReloaded) {
  const Rule rule = Related(ConcurrencyRule("reads", 2));
  Build({rule});
  constexpr int kReloads = 200;
  std::atomic<int> refused{0};
  std::atomic<bool> done{false};
  std::thread reloads([&] {
    Rule other = rule;
    for (int i = 0; i < kReloads; ++i) {
      other.concurrency = 5 - other.concurrency;
      Load({other, LimitRule("more", 1'000'000'000, hours(1))});
      Load({});
    }
    done = true;
  });
  OnThreads([&](int) {
    while (!done.load()) {
      Attempt attempt;
      Enter(attempt, FakeRequest("write"));
      if (!attempt.decision().allowed()) ++refused;
      static_cast<void>(Check(FakeRequest("read")));
      Settle(attempt);
    }
  });
  reloads.join();

  EXPECT_EQ(refused, 0);
  Load({rule});
  EXPECT_EQ(CountersOf("reads").inflight, 0);
  Attempt last;
  Enter(last, FakeRequest("write"));
  EXPECT_TRUE(Check(FakeRequest("read")).allowed()) << "one of two is in progress";
  Settle(last);
}

}  // namespace
}  // namespace flowguard::engine
