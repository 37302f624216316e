// SPDX-License-Identifier: Apache-2.0
//
// An executor under rules and a clock of the test, and what became of its jobs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/executor.h"

#include "engine/quota_store.h"
#include "testing/manual_clock.h"

namespace flowguard {

// Has slots or none, and answers at once.
class SlotStore final : public engine::QuotaStore {
 public:
  std::atomic<bool> full{false};
  std::function<void()> on_take = [] {};

  void Take(std::span<const engine::RemoteTake> takes, Instant /*now*/, Instant /*deadline*/,
            uint64_t ticket, engine::TakeSink* sink) noexcept override {
    on_take();
    std::vector<engine::TakeOutcome> outcomes(takes.size());
    for (engine::TakeOutcome& outcome : outcomes) {
      outcome.status =
          full ? engine::TakeOutcome::Status::kRefused : engine::TakeOutcome::Status::kTaken;
      outcome.numbers.limit = 1;
      outcome.numbers.allowed = !full;
      // When the first slot runs out, if its holder is gone.
      if (full) outcome.numbers.retry_after = std::chrono::seconds(30);
    }
    sink->OnTaken(ticket, outcomes);
  }
  void Abandon(uint64_t /*ticket*/, bool /*refused*/) noexcept override {}
  void GiveBack(const engine::RemoteTake& /*take*/, const limit::Receipt& /*receipt*/,
                Instant /*now*/) noexcept override {}
  void Charge(const engine::RemoteTake& /*take*/, int64_t /*units*/,
              Instant /*now*/) noexcept override {}
  [[nodiscard]] int Nodes() const noexcept override { return 1; }
};

class ExecutorTest : public ::testing::Test {
 protected:
  void Make(std::vector<Rule> rules, const ExecutorOptions& options = {}) {
    GuardOptions with;
    with.clock = &clock_;
    with.breaker_listener = listener_;
    with.store = store_;
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
  // Runs two jobs that fail: more than ErrorCountBreaker(.., 1) bears.
  void OpenBreaker(const std::string& resource) {
    for (const char* name : {"a", "b"}) {
      Job broken = Noted(name);
      broken.resource = resource;
      broken.run = [] { throw std::runtime_error("away"); };
      Submit(std::move(broken));
    }
    Until([](const ExecutorCounters& c) { return c.failed == 2; });
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
  engine::QuotaStore* store_ = nullptr;
  const Instant start_ = clock_.Now();
  std::mutex mutex_;
  Started started_;
  std::vector<std::pair<std::string, JobReport>> ended_;
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace flowguard
