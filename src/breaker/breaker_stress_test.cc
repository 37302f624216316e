// SPDX-License-Identifier: Apache-2.0
//
// Sixteen threads on one breaker.
#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

constexpr int kThreads = 16;

template <class F>
void InThreads(F f) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&f, t] { f(t); });
  for (std::thread& thread : threads)
    thread.join();
}

// Checks the order of what it is told, and that it is told one thing at a time.
class OrderObserver : public BreakerObserver {
 public:
  void OnTransition(const BreakerEvent& event) override {
    const bool alone = !inside_.exchange(true);
    EXPECT_TRUE(alone);
    if (event.missed == 0) {
      EXPECT_EQ(event.from, last_);
    }
    missed += event.missed;
    last_ = event.to;
    conditions += event.reason == BreakerReason::kCondition ? 1 : 0;
    half_opens += event.to == BreakerState::kHalfOpen ? 1 : 0;
    ++told;
    inside_ = false;
  }
  [[nodiscard]] BreakerState last() const { return last_; }

  // Read when no thread is in the breaker.
  uint64_t told = 0;
  uint64_t missed = 0;
  int conditions = 0;
  int half_opens = 0;

 private:
  std::atomic<bool> inside_{false};
  BreakerState last_ = BreakerState::kClosed;
};

// Rules out: more probes than N at the moment when it turns half-open, and fewer.
TEST(BreakerStressTest, ExactlyNProbesAreAdmittedEachTimeItIsHalfOpen) {
  constexpr int kRounds = 400;
  constexpr int kProbes = 3;
  BreakerSpec spec = ErrorCount(0, 1);
  spec.probes = kProbes;
  OrderObserver observer;
  const auto breaker = Breaker::Create(spec, &observer).value();
  BreakerTicket first = breaker->TryEnter(At(0)).ticket;
  breaker->Settle(first, Outcome::kError, Ms(0), At(0));
  std::vector<std::atomic<int>> admitted(kRounds);
  std::barrier step(kThreads);

  InThreads([&](int) {
    for (int round = 0; round < kRounds; ++round) {
      const Instant now = At(2'000 * (round + 1));
      std::vector<BreakerTicket> mine;
      step.arrive_and_wait();
      for (int i = 0; i < 10; ++i) {
        const BreakerAdmission admission = breaker->TryEnter(now);
        if (admission.admitted()) mine.push_back(admission.ticket);
      }
      admitted[static_cast<size_t>(round)] += static_cast<int>(mine.size());
      step.arrive_and_wait();
      // One is bad: it opens again, whatever the others say.
      for (BreakerTicket& ticket : mine) {
        EXPECT_TRUE(ticket.is_probe());
        breaker->Settle(ticket, Outcome::kError, Ms(0), now);
      }
    }
  });

  for (const std::atomic<int>& count : admitted)
    ASSERT_EQ(count.load(), kProbes);
  EXPECT_EQ(observer.half_opens + static_cast<int>(observer.missed), kRounds);
  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
}

// Rules out: calls that several threads end at once, none of which sees the counts by
// which it opens.
TEST(BreakerStressTest, TheLastOfSixteenErrorsOpens) {
  constexpr int kRounds = 400;
  OrderObserver observer;
  const auto breaker = Breaker::Create(ErrorCount(kThreads - 1, kThreads), &observer).value();
  std::barrier step(kThreads);

  InThreads([&](int t) {
    for (int round = 0; round < kRounds; ++round) {
      // Each thread's stamp is in another bucket than its neighbour's.
      const Instant now = At(10'000 * round + 50 * t);
      BreakerTicket ticket = breaker->TryEnter(now).ticket;
      EXPECT_EQ(ticket.is_probe(), false);
      step.arrive_and_wait();
      breaker->Settle(ticket, Outcome::kError, Ms(0), now);
      step.arrive_and_wait();
      if (t == 0) {
        EXPECT_EQ(breaker->state(), BreakerState::kOpen) << "round " << round;
        BreakerTicket probe = breaker->TryEnter(At(10'000 * round + 5'000)).ticket;
        breaker->Settle(probe, Outcome::kOk, Ms(0), At(10'000 * round + 5'000));
        EXPECT_EQ(breaker->state(), BreakerState::kClosed);
      }
      step.arrive_and_wait();
    }
  });

  EXPECT_EQ(observer.conditions, kRounds);
}

// Rules out: an error of a call from before it opened that opens it again after it
// closed, although it ends in the same moment.
TEST(BreakerStressTest, ErrorsOfCallsFromBeforeItOpenedNeverOpenItAgain) {
  constexpr int kRounds = 1'000;
  OrderObserver observer;
  const auto breaker = Breaker::Create(ErrorCount(0, 1), &observer).value();
  std::barrier step(kThreads);

  InThreads([&](int t) {
    for (int round = 0; round < kRounds; ++round) {
      const Instant now = At(10'000 * round);
      const Instant later = At(10'000 * round + 5'000);
      BreakerTicket ticket = breaker->TryEnter(now).ticket;
      EXPECT_TRUE(ticket.phase != 0 && !ticket.is_probe());
      step.arrive_and_wait();
      breaker->Settle(ticket, Outcome::kError, Ms(0), now);
      if (t == 0) {  // the others are still settling
        BreakerTicket probe = breaker->TryEnter(later).ticket;
        EXPECT_TRUE(probe.is_probe());
        breaker->Settle(probe, Outcome::kOk, Ms(0), later);
        EXPECT_EQ(breaker->state(), BreakerState::kClosed);
      }
      step.arrive_and_wait();
      EXPECT_EQ(breaker->state(), BreakerState::kClosed);
      EXPECT_EQ(breaker->Look(later), CallCounts()) << "nor is any of them counted";
      step.arrive_and_wait();
    }
  });

  EXPECT_EQ(observer.conditions, kRounds);
}

// Rules out: calls lost or doubled while buckets begin.
TEST(BreakerStressTest, CallsOfAllThreadsAddUpAcrossBuckets) {
  constexpr int64_t kCalls = 20'000;
  BreakerSpec spec = ErrorCount(base::kBreakerCallsMax, 1);
  spec.buckets = 100;
  spec.window = Ms(1'000);
  CallWindow window(spec);
  std::atomic<int64_t> clock{0};
  std::atomic<int64_t> most{0};

  InThreads([&](int t) {
    for (int64_t i = 0; i < kCalls; ++i) {
      // 99 buckets in all, and stamps that are late.
      const int64_t us = clock.fetch_add(3) % 990'000 - (i % 7 == 6 ? 20'000 : 0);
      CallCounts counts;
      EXPECT_TRUE(window.Count(
          At(0) + std::chrono::microseconds(us), t % 2 == 0, [] { return true; }, counts));
      int64_t seen = most.load();
      while (seen < counts.calls && !most.compare_exchange_weak(seen, counts.calls)) {
      }
    }
  });

  static_assert(kThreads * kCalls * 3 < 990'000, "the clock passes once");
  EXPECT_EQ(window.Look(At(990)), (CallCounts{kThreads * kCalls, kThreads * kCalls / 2}));
  EXPECT_EQ(most.load(), kThreads * kCalls) << "the last one sees all";
}

// Everything at once, over a service that is ill and well by turns: what is told is in
// order, no call is let in twice, and it is never stuck.
TEST(BreakerStressTest, UnderChurnWhatIsToldIsInOrderAndNothingSticks) {
  BreakerSpec spec = ErrorRatio(0.5, 4);
  spec.window = Ms(50);
  spec.open_for = Ms(20);
  spec.probes = 2;
  OrderObserver observer;
  const auto breaker = Breaker::Create(spec, &observer).value();
  std::atomic<int64_t> clock{0};

  InThreads([&](int t) {
    std::mt19937_64 random(static_cast<uint64_t>(t));
    std::vector<BreakerTicket> mine;
    for (int i = 0; i < 20'000; ++i) {
      const int64_t us = clock.fetch_add(11);
      const Instant now =
          At(0) + std::chrono::microseconds(us - static_cast<int64_t>(random() % 50));
      const BreakerAdmission admission = breaker->TryEnter(now);
      EXPECT_TRUE(admission.retry_after <= spec.open_for);
      if (admission.admitted()) mine.push_back(admission.ticket);
      if (mine.size() < 1 + random() % 4) continue;
      BreakerTicket ticket = mine.front();
      mine.erase(mine.begin());
      const bool ill = us / 500'000 % 2 == 0;
      switch (random() % 16) {
        case 0:
          breaker->GiveBack(ticket, now);
          break;
        case 1:
          breaker->Settle(ticket, Outcome::kCancelled, Ms(0), now);
          break;
        case 2:  // never settles
          break;
        default:
          breaker->Settle(ticket, ill ? Outcome::kError : Outcome::kOk, Ms(0), now);
          break;
      }
    }
  });

  EXPECT_EQ(observer.last(), breaker->state());
  EXPECT_GT(observer.told, 50u);
  EXPECT_GT(observer.conditions, 2);
  EXPECT_TRUE(breaker->TryEnter(At(100'000)).admitted());
}

}  // namespace
}  // namespace flowguard::breaker
