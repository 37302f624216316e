// SPDX-License-Identifier: Apache-2.0
//
// Many threads submit to an executor of several, under rules of each kind, while time moves:
// every job ends once, and the rules hold.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/executor.h"

#include "engine/engine.h"
#include "testing/manual_clock.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSubmitters = 8;
constexpr int kJobsEach = 250;
constexpr int kJobs = kSubmitters * kJobsEach;
constexpr int kSlots = 3;

class ExecutorStressTest : public ::testing::Test {
 protected:
  ExecutorStressTest() : ends_(kJobs) {
    Rule even = testing::LimitRule("even", 1'000, seconds(1), Algorithm::kLeakyBucket);
    even.on.resource = "even";
    even.wait = milliseconds(3);
    Rule per_user = testing::LimitRule("per-user", 500, seconds(1));
    per_user.on.resource = "export";
    per_user.by = {"user"};
    per_user.burst = 2;
    GuardOptions options;
    options.clock = &clock_;
    guard_ = Guard::Create({.rules = {even, per_user, testing::ConcurrencyRule("slots", kSlots)},
                            .dimensions = {}},
                           options)
                 .value();
    executor_ = Executor::Create(*guard_, {.threads = 6, .capacity = kJobs}).value();
  }

  // Job `j` of submitter `s`: another kind of end every few jobs.
  Job Make(int s, int j) {
    const auto number = static_cast<size_t>(s * kJobsEach + j);
    Job job;
    job.resource = s % 2 == 0 ? "even" : "export";
    job.dimensions = {{"user", "u" + std::to_string(s)}};
    if (j % 41 == 40) job.cost = 1'000'000;
    if (j % 5 == 4) job.start_within = microseconds(300);
    job.run = [this, j] {
      if (running_.fetch_add(1) >= kSlots) too_many_.store(true);
      running_.fetch_sub(1);
      if (j % 7 == 6) throw std::runtime_error("broken");
    };
    job.done = [this, number](const JobReport& report) {
      ends_[number].fetch_add(1);
      told_[static_cast<size_t>(report.end)].fetch_add(1);
    };
    return job;
  }

  void SubmitAll() {
    std::vector<std::thread> threads;
    for (int s = 0; s < kSubmitters; ++s) {
      threads.emplace_back([this, s] {
        for (int j = 0; j < kJobsEach; ++j)
          ASSERT_TRUE(executor_->Submit(Make(s, j)).ok());
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }

  void ExpectThatAllEndedOnce() {
    for (const std::atomic<int>& ends : ends_)
      ASSERT_EQ(ends.load(), 1);
    const ExecutorCounters counters = executor_->counters();
    EXPECT_EQ(counters.submitted, static_cast<uint64_t>(kJobs));
    EXPECT_EQ(counters.queued, 0u);
    EXPECT_EQ(counters.running, 0u);
    EXPECT_EQ(counters.ran, told_[static_cast<size_t>(JobEnd::kRan)].load());
    EXPECT_EQ(counters.failed, told_[static_cast<size_t>(JobEnd::kFailed)].load());
    EXPECT_EQ(counters.refused, told_[static_cast<size_t>(JobEnd::kRefused)].load());
    EXPECT_EQ(counters.expired, told_[static_cast<size_t>(JobEnd::kExpired)].load());
    EXPECT_EQ(counters.dropped, told_[static_cast<size_t>(JobEnd::kDropped)].load());
    EXPECT_FALSE(too_many_.load());
    for (const auto& rule : guard_->engine().Counters().rules)
      EXPECT_EQ(rule.inflight, 0) << rule.rule;
  }

  testing::ManualClock clock_;
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::atomic<int>> ends_;
  std::atomic<uint64_t> told_[5]{};
  std::atomic<int> running_{0};
  std::atomic<bool> too_many_{false};
};

TEST_F(ExecutorStressTest, EveryJobEndsOnceAndADrainLeavesNone) {
  std::atomic<bool> stop{false};
  std::thread time([this, &stop] {
    while (!stop.load()) {
      clock_.Advance(microseconds(100));
      executor_->Wake();
      std::this_thread::yield();
    }
  });

  SubmitAll();
  executor_->Shutdown(ShutdownMode::kDrain);
  stop.store(true);
  time.join();

  ExpectThatAllEndedOnce();
  EXPECT_GT(executor_->counters().ran, 100u);
  EXPECT_GT(executor_->counters().failed, 10u);
  EXPECT_GT(executor_->counters().refused, 10u);
  EXPECT_EQ(executor_->counters().dropped, 0u);
}

TEST_F(ExecutorStressTest, ADropInTheMiddleLeavesNone) {
  std::atomic<bool> stop{false};
  std::thread time([this, &stop] {
    while (!stop.load()) {
      clock_.Advance(microseconds(100));
      executor_->Wake();
      executor_->AskAgain();
      std::this_thread::yield();
    }
  });

  SubmitAll();
  std::thread drain([this] { executor_->Shutdown(ShutdownMode::kDrain); });
  executor_->Shutdown(ShutdownMode::kDrop);
  drain.join();
  stop.store(true);
  time.join();

  ExpectThatAllEndedOnce();
}

}  // namespace
}  // namespace flowguard
