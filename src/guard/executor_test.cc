// SPDX-License-Identifier: Apache-2.0
#include "flowguard/executor.h"

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "guard/executor_fixture_test.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::LimitRule;

Rule SharedSlots(std::string resource) {
  Rule rule = testing::ConcurrencyRule("shared-slots", 1);
  rule.on.resource = std::move(resource);
  rule.scope = Scope::kShared;
  rule.on_store_failure = StoreFailurePolicy::kClosed;
  return rule;
}

TEST_F(ExecutorTest, StartsJobsInOrderAtTheRateOfTheRule) {
  Make({LimitRule("rate", 1, seconds(1))});
  for (const char* name : {"a", "b", "c"})
    Submit(Noted(name));

  UntilAsked(2);
  Advance(milliseconds(999));
  Advance(milliseconds(1));
  UntilAsked(4);
  Advance(seconds(1));
  EXPECT_EQ(EndOf("c").end, JobEnd::kRan);

  EXPECT_EQ(AllStarted(), (Started{{"a", seconds(0)}, {"b", seconds(1)}, {"c", seconds(2)}}));
  EXPECT_EQ(executor_->counters().asked, 5u) << "twice for those that had to wait, never idly";
  EXPECT_EQ(EndOf("c").queued, seconds(2));
  EXPECT_THAT(EndOf("c").decision, testing::IsAllowed());
}

TEST_F(ExecutorTest, AJobThatARuleMakesWaitStartsWhenTheWaitEnds) {
  Rule rule = LimitRule("even", 1, seconds(1), Algorithm::kLeakyBucket);
  rule.wait = seconds(10);
  Make({rule});
  Submit(Noted("a"));
  Submit(Noted("b"));
  UntilAsked(2);

  EXPECT_EQ(guard_->engine().Counters().rules[0].waited, 1u);
  EXPECT_THAT(guard_->Peek({.resource = "export", .cost = 1}), testing::Waits(seconds(2)))
      << "its units are booked";
  Advance(seconds(1));

  EXPECT_EQ(EndOf("b").end, JobEnd::kRan);
  EXPECT_EQ(AllStarted(), (Started{{"a", seconds(0)}, {"b", seconds(1)}}));
}

TEST_F(ExecutorTest, JobsOfOtherKeysGoPastOneThatWaits) {
  Rule rule = LimitRule("per-user", 1, seconds(1));
  rule.by = {"user"};
  Make({rule});
  for (const auto& [name, user] :
       {std::pair("a", "ann"), std::pair("b", "ann"), std::pair("c", "bob")}) {
    Job job = Noted(name);
    job.dimensions = {{"user", user}};
    Submit(std::move(job));
  }

  EXPECT_EQ(EndOf("c").end, JobEnd::kRan);
  UntilAsked(3);
  EXPECT_EQ(executor_->counters().queued, 1u);
  Advance(seconds(1));
  EXPECT_EQ(EndOf("b").end, JobEnd::kRan);
}

TEST_F(ExecutorTest, WhatARuleCanNeverGrantEndsWithAnError) {
  Rule denied;
  denied.name = "closed";
  denied.kind = RuleKind::kAccess;
  denied.on.resource = "secret";
  denied.deny = {{"user", {"*"}}};
  Make({LimitRule("rate", 5, seconds(1)), denied});
  Job large = Noted("large");
  large.cost = 7;
  Submit(std::move(large));
  Job secret = Noted("secret");
  secret.resource = "secret";
  secret.dimensions = {{"user", "ann"}};
  Submit(std::move(secret));

  const JobReport report = EndOf("large");
  EXPECT_EQ(report.end, JobEnd::kRefused);
  EXPECT_EQ(report.error.code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(report.error.message,
            "job of \"export\": refused for ever by rule \"rate\": its cost of 7 is above 5, the "
            "most that can be had at once");
  EXPECT_EQ(EndOf("secret").error.message,
            "job of \"secret\": refused for ever by rule \"closed\"");
  EXPECT_TRUE(AllStarted().empty());
}

TEST_F(ExecutorTest, AFullQueueTakesNoMoreAndSaysWhatItMayHold) {
  Make({LimitRule("rate", 1, hours(1))}, {.threads = 1, .capacity = 2});
  Submit(Noted("a"));
  UntilAsked(1);
  Submit(Noted("b"));
  Submit(Noted("c"));

  const Result<void> refused = executor_->Submit(Noted("d"));

  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message, "the executor's queue is full: 2 jobs; capacity is 2");
  EXPECT_EQ(executor_->counters().rejected, 1u);
  EXPECT_EQ(executor_->counters().submitted, 3u);
}

TEST_F(ExecutorTest, AJobThatCouldNotStartInTimeExpiresAndTheNextIsAskedFor) {
  Make({LimitRule("rate", 1, seconds(2))});
  Submit(Noted("a"));
  Job late = Noted("b");
  late.start_within = seconds(1);
  Submit(std::move(late));
  Submit(Noted("c"));
  UntilAsked(2);

  Advance(seconds(1));
  Advance(Duration(1));

  const JobReport report = EndOf("b");
  EXPECT_EQ(report.end, JobEnd::kExpired);
  EXPECT_EQ(report.error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(report.error.message,
            "job of \"export\": not started within 1000000000 ns; last kept waiting by rule "
            "\"rate\"");
  UntilAsked(3);
  Advance(seconds(1));
  EXPECT_EQ(EndOf("c").end, JobEnd::kRan);
}

TEST_F(ExecutorTest, AnExceptionIsAFailedJobAndSettlesAsAnError) {
  Make({testing::ConcurrencyRule("slots", 1)});
  Job broken = Noted("broken");
  broken.run = [] { throw std::runtime_error("disk full"); };
  Submit(std::move(broken));
  Job odd = Noted("odd");
  odd.run = [] { throw 7; };
  Submit(std::move(odd));
  Submit(Noted("next"));

  EXPECT_EQ(EndOf("next").end, JobEnd::kRan);
  EXPECT_EQ(EndOf("broken").end, JobEnd::kFailed);
  EXPECT_EQ(EndOf("broken").error.message, "job of \"export\": failed: disk full");
  EXPECT_THROW(std::rethrow_exception(EndOf("broken").exception), std::runtime_error);
  EXPECT_EQ(EndOf("odd").error.message,
            "job of \"export\": failed: an exception that is no std::exception");
  EXPECT_EQ(guard_->engine().Counters().rules[0].failed_after, 2u);
  EXPECT_EQ(guard_->engine().Counters().rules[0].inflight, 0);
}

TEST_F(ExecutorTest, AJobThatLacksASlotStartsWhenAnotherEnds) {
  Make({testing::ConcurrencyRule("slots", 1)}, {.threads = 2});
  std::latch go(1);
  Job first = Noted("first");
  first.run = [&go] { go.wait(); };
  Submit(std::move(first));
  Submit(Noted("second"));
  Until([](const ExecutorCounters& c) { return c.asked == 2; });
  EXPECT_EQ(executor_->counters().running, 1u);
  EXPECT_EQ(executor_->counters().queued, 1u);

  go.count_down();

  EXPECT_EQ(EndOf("second").end, JobEnd::kRan) << "and the clock stood still";
}

TEST_F(ExecutorTest, AFreedSlotGoesToAJobOfItsKeyPastOlderOnes) {
  Rule rule = testing::ConcurrencyRule("slots", 1);
  rule.by = {"user"};
  Make({rule}, {.threads = 3});
  std::latch ann_goes(1);
  std::latch bob_goes(1);
  const auto of = [this](const char* name, const char* resource, const char* user) {
    Job job = Noted(name);
    job.resource = resource;
    job.dimensions = {{"user", user}};
    return job;
  };
  Job ann = of("ann", "export", "ann");
  ann.run = [&ann_goes] { ann_goes.wait(); };
  Submit(std::move(ann));
  Job bob = of("bob", "export", "bob");
  bob.run = [&bob_goes] { bob_goes.wait(); };
  Submit(std::move(bob));
  Until([](const ExecutorCounters& c) { return c.running == 2; });
  Submit(of("bob-later", "report", "bob"));
  Submit(of("ann-later", "report", "ann"));
  Until([](const ExecutorCounters& c) { return c.asked == 4; });

  ann_goes.count_down();

  EXPECT_EQ(EndOf("ann-later").end, JobEnd::kRan) << "and the clock stood still";
  EXPECT_EQ(executor_->counters().queued, 1u);
  bob_goes.count_down();
  EXPECT_EQ(EndOf("bob-later").end, JobEnd::kRan);
  executor_ = nullptr;
}

TEST_F(ExecutorTest, AJobThatLacksASharedSlotIsAskedForAgainEverySecond) {
  SlotStore store;
  store.full = true;
  store_ = &store;
  Make({SharedSlots("export")});
  Submit(Noted("a"));
  UntilAsked(1);
  store.full = false;  // another process gave it back, and does not tell of it

  Advance(seconds(1));

  EXPECT_EQ(EndOf("a").end, JobEnd::kRan);
  executor_ = nullptr;
  guard_ = nullptr;
}

TEST_F(ExecutorTest, AClosedBreakerLetsAllGoThatItRefusedWhileItProbed) {
  Rule rule = testing::ErrorCountBreaker("vendor", 1);
  rule.breaker.open_for = hours(1);
  rule.breaker.probes = 1;
  Make({rule}, {.threads = 2});
  OpenBreaker("export");
  Advance(hours(1));
  std::latch probe_goes(1);
  std::latch second_ran(1);
  Job probe = Noted("probe");
  probe.run = [&probe_goes] { probe_goes.wait(); };
  Submit(std::move(probe));
  Until([](const ExecutorCounters& c) { return c.running == 1; });
  Job first = Noted("first");
  first.resource = "first";
  first.run = [&second_ran] { second_ran.wait(); };
  Submit(std::move(first));
  Job second = Noted("second");
  second.resource = "second";
  second.run = [&second_ran] { second_ran.count_down(); };
  Submit(std::move(second));
  Until([](const ExecutorCounters& c) { return c.asked == 5; });
  EXPECT_EQ(executor_->counters().queued, 2u);

  probe_goes.count_down();

  EXPECT_EQ(EndOf("first").end, JobEnd::kRan) << "and the clock stood still";
  EXPECT_EQ(EndOf("second").end, JobEnd::kRan);
  executor_ = nullptr;
}

// One job ends, and makes two lanes ready.  Its thread is kept by its callback, and the one
// that takes the first lane by the store.
TEST_F(ExecutorTest, AnIdleThreadTakesWhatIsReadyWhileAnotherAsks) {
  SlotStore store;
  store_ = &store;
  Rule left = testing::ErrorCountBreaker("left", 1);
  left.on.resource = "x:*";
  left.breaker.open_for = hours(1);
  left.breaker.probes = 1;
  Rule right = left;
  right.name = "right";
  right.on.resource = "x:r*";
  right.breaker.open_for = hours(2);  // the longer one is what a job waits for
  Make({left, right, SharedSlots("x:left")}, {.threads = 3});
  OpenBreaker("x:r");
  Advance(hours(2));
  std::latch probe_goes(1);
  std::latch right_ran(1);
  store.on_take = [&right_ran] { right_ran.wait(); };
  Job probe = Noted("probe");
  probe.resource = "x:r";
  probe.run = [&probe_goes] { probe_goes.wait(); };
  probe.done = [&right_ran](const JobReport&) { right_ran.wait(); };
  Submit(std::move(probe));
  Until([](const ExecutorCounters& c) { return c.running == 1; });
  Job first = Noted("first");
  first.resource = "x:left";
  Submit(std::move(first));
  Job second = Noted("second");
  second.resource = "x:right";
  second.run = [&right_ran] { right_ran.count_down(); };
  Submit(std::move(second));
  Until([](const ExecutorCounters& c) { return c.asked == 5; });
  EXPECT_EQ(executor_->counters().queued, 2u);

  probe_goes.count_down();

  EXPECT_EQ(EndOf("second").end, JobEnd::kRan);
  EXPECT_EQ(EndOf("first").end, JobEnd::kRan);
  executor_ = nullptr;
  guard_ = nullptr;
}

TEST_F(ExecutorTest, AnOpenBreakerHoldsJobsUntilItProbes) {
  Rule rule = testing::ErrorCountBreaker("vendor", 1);
  rule.breaker.open_for = seconds(5);
  Make({rule});
  OpenBreaker("export");
  Submit(Noted("c"));
  UntilAsked(3);
  EXPECT_EQ(executor_->counters().queued, 1u);

  Advance(seconds(5));

  EXPECT_EQ(EndOf("c").end, JobEnd::kRan);
  EXPECT_EQ(executor_->counters().asked, 4u);
}

// Holds whoever asks for the first job while the other thread finds its lane closed, and
// sleeps.
TEST_F(ExecutorTest, TheNextOfALaneStartsWhileTheFirstRuns) {
  class Listener final : public BreakerListener {
   public:
    void OnBreaker(const BreakerChange& change) override {
      if (change.to != BreakerState::kHalfOpen) return;
      asked.count_down();
      go.wait();
    }
    std::latch asked{1};
    std::latch go{1};
  };
  Listener listener;
  listener_ = &listener;
  Rule rule = testing::ErrorCountBreaker("vendor", 1);
  rule.on.resource = "export";
  rule.breaker.open_for = seconds(5);
  rule.breaker.probes = 2;
  Make({rule}, {.threads = 2});
  OpenBreaker("export");
  std::latch second_ran(1);
  Job first = Noted("first");
  first.run = [&second_ran] { second_ran.wait(); };
  Submit(std::move(first));
  UntilAsked(3);
  Advance(seconds(5));
  listener.asked.wait();
  Job second = Noted("second");
  second.run = [&second_ran] { second_ran.count_down(); };
  Submit(std::move(second));
  Job other = Noted("other");
  other.resource = "other";
  Submit(std::move(other));
  EXPECT_EQ(EndOf("other").end, JobEnd::kRan);

  listener.go.count_down();

  EXPECT_EQ(EndOf("first").end, JobEnd::kRan);
  executor_ = nullptr;
}

TEST_F(ExecutorTest, ADrainRunsWhatIsQueuedAndTakesNoMore) {
  Make({}, {.threads = 2});
  std::latch go(1);
  Job first = Noted("first");
  first.run = [&go] { go.wait(); };
  Submit(std::move(first));
  for (int i = 0; i < 100; ++i)
    Submit(Noted("j" + std::to_string(i)));

  go.count_down();
  executor_->Shutdown(ShutdownMode::kDrain);

  EXPECT_EQ(executor_->counters().ran, 101u);
  EXPECT_EQ(ended_.size(), 101u);
  const Result<void> refused = executor_->Submit(Noted("late"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

TEST_F(ExecutorTest, ASecondShutdownCutsADrainShort) {
  Make({LimitRule("rate", 1, hours(1))});
  Submit(Noted("a"));
  Submit(Noted("b"));
  Submit(Noted("c"));
  UntilAsked(2);
  std::thread drain([this] { executor_->Shutdown(ShutdownMode::kDrain); });
  for (bool closed = false; !closed;) {
    const Result<void> queued = executor_->Submit(Noted("probe"));
    closed = !queued.ok() && queued.error().code == ErrorCode::kUnavailable;
  }

  executor_->Shutdown(ShutdownMode::kDrop);
  drain.join();

  const ExecutorCounters counters = executor_->counters();
  EXPECT_EQ(counters.ran, 1u);
  EXPECT_EQ(counters.dropped, counters.submitted - 1);
  EXPECT_EQ(ended_.size(), counters.submitted) << "each told once";
  EXPECT_EQ(EndOf("c").end, JobEnd::kDropped);
  EXPECT_EQ(EndOf("c").error.code, ErrorCode::kCancelled);
}

// Rules out: what callbacks use going away after a drain while they are still called.
TEST_F(ExecutorTest, ADrainReturnsAfterAnotherCallHasToldOfWhatItDropped) {
  Make({LimitRule("rate", 1, hours(1))}, {.threads = 2});
  Submit(Noted("a"));
  std::atomic<bool> drained{false};
  bool drained_while_told = false;
  Job dropped = Noted("b");
  dropped.done = [&](const JobReport&) {
    // The chance to return too early.
    for (int i = 0; i < 20'000 && !drained; ++i) {
      executor_->Wake();
      std::this_thread::yield();
    }
    drained_while_told = drained;
  };
  Submit(std::move(dropped));
  UntilAsked(2);
  std::thread drain([this, &drained] {
    executor_->Shutdown(ShutdownMode::kDrain);
    drained = true;
  });
  for (bool closed = false; !closed;) {
    const Result<void> queued = executor_->Submit(Noted("probe"));
    closed = !queued.ok() && queued.error().code == ErrorCode::kUnavailable;
  }

  executor_->Shutdown(ShutdownMode::kDrop);
  drain.join();

  EXPECT_FALSE(drained_while_told);
  EXPECT_EQ(executor_->counters().dropped, executor_->counters().submitted - 1);
}

TEST_F(ExecutorTest, ADroppedJobGivesBackWhatWasBookedForIt) {
  Rule rule = LimitRule("rate", 1, seconds(1));
  rule.wait = seconds(10);
  Make({rule});
  Submit(Noted("a"));
  Submit(Noted("b"));
  UntilAsked(2);
  EXPECT_THAT(guard_->Peek({.resource = "export", .cost = 1}), testing::Waits(seconds(2)));

  executor_ = nullptr;

  ASSERT_EQ(ended_.size(), 2u);
  EXPECT_EQ(ended_[1].second.end, JobEnd::kDropped);
  EXPECT_THAT(guard_->Peek({.resource = "export", .cost = 1}), testing::Waits(seconds(1)));
}

TEST_F(ExecutorTest, AskingAgainHeedsReloadedRules) {
  Make({LimitRule("rate", 1, hours(1))});
  Submit(Noted("a"));
  Submit(Noted("b"));
  UntilAsked(2);

  ASSERT_TRUE(guard_->Reload({}).ok());
  executor_->AskAgain();

  EXPECT_EQ(EndOf("b").end, JobEnd::kRan);
}

TEST_F(ExecutorTest, CallbacksMaySubmitAndThrow) {
  Make({});
  Job first = Noted("first");
  first.done = [this](const JobReport&) {
    Submit(Noted("second"));
    throw std::runtime_error("ignored");
  };
  Submit(std::move(first));

  EXPECT_EQ(EndOf("second").end, JobEnd::kRan);
}

TEST_F(ExecutorTest, TakesNoJobThatIsOutOfRange) {
  Make({});
  const auto message = [this](Job job) {
    const Result<void> result = executor_->Submit(std::move(job));
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    return result.error().message;
  };
  Job job = Noted("j");
  job.run = nullptr;
  EXPECT_EQ(message(job), "job of \"export\": run: empty; it is the function to call");
  job = Noted("j");
  job.cost = -1;
  EXPECT_EQ(message(job), "job of \"export\": cost: -1; allowed are 0 to 1099511627776");
  job = Noted("j");
  job.start_within = seconds(0);
  EXPECT_EQ(message(job), "job of \"export\": start_within: 0 ns; it is at least 1 ns");
  job = Noted("j");
  job.dimensions.resize(65);
  EXPECT_EQ(message(job), "job of \"export\": dimensions: 65; at most 64");
  job = Noted("j");
  job.dimensions = {{"user", std::string(16 * 1024, 'x')}};
  EXPECT_EQ(message(job), "job of \"export\": resource and dimensions: 16394 bytes; at most 16384");
  EXPECT_EQ(executor_->counters().submitted, 0u);
}

TEST_F(ExecutorTest, RefusesAbsurdOptions) {
  Make({});
  for (const ExecutorOptions& options :
       {ExecutorOptions{.threads = 0}, ExecutorOptions{.threads = 257},
        ExecutorOptions{.capacity = 0}, ExecutorOptions{.capacity = 1'000'001}}) {
    const auto made = Executor::Create(*guard_, options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace flowguard
