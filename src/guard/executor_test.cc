// SPDX-License-Identifier: Apache-2.0
#include "flowguard/executor.h"

#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "testing/manual_clock.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::LimitRule;

class ExecutorTest : public ::testing::Test {
 protected:
  void Make(std::vector<Rule> rules, const ExecutorOptions& options = {}) {
    GuardOptions with;
    with.clock = &clock_;
    with.breaker_listener = listener_;
    auto guard = Guard::Create({.rules = std::move(rules), .dimensions = {}}, with);
    ASSERT_TRUE(guard.ok()) << guard.error().message;
    guard_ = *std::move(guard);
    auto executor = Executor::Create(*guard_, options);
    ASSERT_TRUE(executor.ok()) << executor.error().message;
    executor_ = *std::move(executor);
  }
  // A job that notes when it started, and how it ended.
  Job Noted(std::string name) {
    Job job;
    job.resource = "export";
    job.run = [this, name] {
      const std::lock_guard lock(mutex_);
      started_.emplace_back(name, clock_.Now() - start_);
    };
    job.done = [this, name](const JobReport& report) {
      const std::lock_guard lock(mutex_);
      ended_.emplace_back(name, report);
    };
    return job;
  }
  void Submit(Job job) {
    const Result<void> queued = executor_->Submit(std::move(job));
    ASSERT_TRUE(queued.ok()) << queued.error().message;
  }
  // Waits for a condition of the counters.
  template <typename F>
  void Until(F holds) {
    while (!holds(executor_->counters()))
      std::this_thread::yield();
  }
  void UntilAsked(uint64_t times) {
    Until([times](const ExecutorCounters& c) { return c.asked >= times && c.running == 0; });
  }
  void Advance(Duration by) {
    clock_.Advance(by);
    executor_->Wake();
  }
  // By name; waits until the job has ended.
  JobReport EndOf(const std::string& name) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        for (const auto& [ended, report] : ended_) {
          if (ended == name) return report;
        }
      }
      std::this_thread::yield();
    }
  }
  using Started = std::vector<std::pair<std::string, Duration>>;
  Started AllStarted() {
    const std::lock_guard lock(mutex_);
    return started_;
  }

  testing::ManualClock clock_;
  BreakerListener* listener_ = nullptr;
  const Instant start_ = clock_.Now();
  std::mutex mutex_;
  Started started_;
  std::vector<std::pair<std::string, JobReport>> ended_;
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<Executor> executor_;
};

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

TEST_F(ExecutorTest, AnOpenBreakerHoldsJobsUntilItProbes) {
  Rule rule = testing::ErrorCountBreaker("vendor", 1);
  rule.breaker.open_for = seconds(5);
  Make({rule});
  for (const char* name : {"a", "b"}) {
    Job broken = Noted(name);
    broken.run = [] { throw std::runtime_error("away"); };
    Submit(std::move(broken));
  }
  Submit(Noted("c"));
  UntilAsked(3);
  EXPECT_EQ(executor_->counters().failed, 2u);
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
  for (const char* name : {"a", "b"}) {
    Job broken = Noted(name);
    broken.run = [] { throw std::runtime_error("away"); };
    Submit(std::move(broken));
  }
  Until([](const ExecutorCounters& c) { return c.failed == 2; });
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
