// SPDX-License-Identifier: Apache-2.0
#include "breaker/observer.h"

#include <functional>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "breaker/test_breaker.h"

namespace flowguard::breaker {
namespace {

class ObserverTest : public BreakerFixture {};

void ExpectEvent(const BreakerEvent& event, BreakerState from, BreakerState to,
                 BreakerReason reason, int64_t ms, CallCounts counts) {
  EXPECT_EQ(event.from, from);
  EXPECT_EQ(event.to, to);
  EXPECT_EQ(event.reason, reason);
  EXPECT_EQ(event.time, At(ms));
  EXPECT_EQ(event.counts, counts);
  EXPECT_EQ(event.missed, 0u);
  EXPECT_EQ(event.breaker, 7u);
}

TEST_F(ObserverTest, TellsEveryTransitionWithItsReasonAndCounts) {
  BreakerSpec spec = ErrorRatio(0.5, 4);
  spec.probes = 2;
  Build(spec);
  ASSERT_EQ(OpensAt("eoeoe"), 5);
  ASSERT_TRUE(Enters(2'000) && Enters(2'001));
  Settle(0, 2'002);
  Settle(1, 2'003, Outcome::kError);
  ASSERT_TRUE(Enters(4'003));
  breaker_->GiveBack(open_[2], At(4'004));
  Call(4'005);
  Call(4'006);

  constexpr auto kClosed = BreakerState::kClosed;
  constexpr auto kOpen = BreakerState::kOpen;
  constexpr auto kHalfOpen = BreakerState::kHalfOpen;
  const std::vector<BreakerEvent>& events = recorder_.events;
  ASSERT_EQ(events.size(), 7u);
  ExpectEvent(events[0], kClosed, kOpen, BreakerReason::kCondition, 0, {5, 3});
  ExpectEvent(events[1], kOpen, kHalfOpen, BreakerReason::kOpenForOver, 2'000, {});
  ExpectEvent(events[2], kHalfOpen, kOpen, BreakerReason::kProbeBad, 2'003, {2, 1});
  ExpectEvent(events[3], kOpen, kHalfOpen, BreakerReason::kOpenForOver, 4'003, {});
  ExpectEvent(events[4], kHalfOpen, kOpen, BreakerReason::kProbeGivenBack, 4'004, {});
  ExpectEvent(events[5], kOpen, kHalfOpen, BreakerReason::kOpenForOver, 4'005, {});
  ExpectEvent(events[6], kHalfOpen, kClosed, BreakerReason::kProbesGood, 4'006, {2, 0});
}

class Callback : public BreakerObserver {
 public:
  void OnTransition(const BreakerEvent& event) override {
    events.push_back(event);
    if (run) run(event);
  }
  std::function<void(const BreakerEvent&)> run;
  std::vector<BreakerEvent> events;
};

// Rules out: a call under the lock, or before the state has changed.
TEST_F(ObserverTest, AnObserverMayCallTheBreakerAndSeesItsNewState) {
  Callback callback;
  const auto breaker = Breaker::Create(ErrorCount(0, 1), &callback).value();
  int inside = 0;
  callback.run = [&](const BreakerEvent& event) {
    EXPECT_EQ(++inside, 1) << "one event at a time";
    EXPECT_EQ(breaker->state(), event.to);
    if (event.to == BreakerState::kOpen && callback.events.size() == 1) {
      EXPECT_FALSE(breaker->TryEnter(At(0)).admitted());
      BreakerAdmission probe = breaker->TryEnter(At(2'000));
      EXPECT_TRUE(probe.ticket.is_probe());
      EXPECT_EQ(callback.events.size(), 1u) << "what it brings about is told later";
      --inside;
      return;
    }
    --inside;
  };
  BreakerTicket ticket = breaker->TryEnter(At(0)).ticket;
  breaker->Settle(ticket, Outcome::kError, Ms(0), At(0));

  ASSERT_EQ(callback.events.size(), 2u);
  EXPECT_EQ(callback.events[1].to, BreakerState::kHalfOpen);
}

TEST_F(ObserverTest, WhatAnObserverThrowsEndsHereAndIsCounted) {
  Callback callback;
  callback.run = [](const BreakerEvent&) { throw std::runtime_error("observer"); };
  const auto breaker = Breaker::Create(ErrorCount(0, 1), &callback).value();
  for (int64_t i = 0; i < 3; ++i) {
    BreakerTicket ticket = breaker->TryEnter(At(2'000 * i)).ticket;
    ASSERT_NE(ticket.phase, 0u);
    breaker->Settle(ticket, Outcome::kError, Ms(0), At(2'000 * i));
  }

  EXPECT_EQ(breaker->state(), BreakerState::kOpen);
  EXPECT_EQ(callback.events.size(), 5u);
  EXPECT_EQ(breaker->observer_failures(), 5u);
}

// Rules out: events that pile up behind an observer that does not return.
TEST_F(ObserverTest, WhileAnObserverIsBusyTheOldestEventsGoAndTheLastStateIsTold) {
  Callback callback;
  const auto breaker = Breaker::Create(ErrorCount(0, 1), &callback).value();
  constexpr int kTimes = 20;
  callback.run = [&](const BreakerEvent& event) {
    if (callback.events.size() > 1) return;
    for (int64_t i = 1; i <= kTimes; ++i) {  // two transitions each
      BreakerTicket probe = breaker->TryEnter(event.time + Ms(2'000 * i)).ticket;
      ASSERT_TRUE(probe.is_probe());
      breaker->Settle(probe, i == kTimes ? Outcome::kOk : Outcome::kError, Ms(0),
                      event.time + Ms(2'000 * i));
    }
  };
  BreakerTicket ticket = breaker->TryEnter(At(0)).ticket;
  breaker->Settle(ticket, Outcome::kError, Ms(0), At(0));

  ASSERT_EQ(callback.events.size(), 1 + base::kBreakerEventsMax);
  EXPECT_EQ(callback.events[1].missed, 2 * kTimes - base::kBreakerEventsMax);
  EXPECT_EQ(callback.events[2].missed, 0u);
  EXPECT_EQ(callback.events.back().to, BreakerState::kClosed);
  EXPECT_EQ(breaker->state(), BreakerState::kClosed);
}

}  // namespace
}  // namespace flowguard::breaker
