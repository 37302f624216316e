// SPDX-License-Identifier: Apache-2.0
//
// Sixteen threads on a guard whose time stands still.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/clock.h"
#include "flowguard/guard.h"

#include "engine/engine.h"
#include "testing/rules.h"

namespace flowguard {

// Stands still until a test moves it, whoever sleeps.
class StillClock final : public Clock {
 public:
  [[nodiscard]] Instant Now() const noexcept override { return Instant(Duration(now_ns_.load())); }
  [[nodiscard]] WallTime WallNow() const noexcept override {
    return WallTime(Duration(now_ns_.load()));
  }
  // Returns at once: the caller's turn is noted, and the next caller asks at the same instant.
  void SleepUntil(Instant until) const noexcept override {
    const std::lock_guard lock(mutex_);
    turns_.push_back(until);
  }
  void Advance(Duration by) noexcept { now_ns_ += by.count(); }
  // Until when callers have slept.
  [[nodiscard]] std::vector<Instant> Turns() const {
    const std::lock_guard lock(mutex_);
    return turns_;
  }

 private:
  std::atomic<int64_t> now_ns_{Duration(std::chrono::hours(24 * 8)).count()};
  mutable std::mutex mutex_;
  mutable std::vector<Instant> turns_;
};

class ThreadsFixture : public ::testing::Test {
 protected:
  static constexpr int kThreads = 16;
  // Each thread's part of ten times `bound`.
  static constexpr int64_t PartOfTenTimes(int64_t bound) {
    return (10 * bound + kThreads - 1) / kThreads;
  }

  void Build(std::vector<Rule> rules) {
    GuardOptions options;
    options.clock = &clock_;
    options.statistics = true;
    auto guard = Guard::Create(SetOf(std::move(rules)), options);
    ASSERT_TRUE(guard.ok()) << guard.error().message;
    guard_ = *std::move(guard);
  }
  void Reload(std::vector<Rule> rules) {
    const Result<void> loaded = guard_->Reload(SetOf(std::move(rules)));
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }
  // f(number of the thread), on all of them from one moment on.
  template <typename F>
  static void OnThreads(F f, int count = kThreads) {
    std::barrier start(count);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        f(i);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
  // A call of `resource` by user number `user`; it waits for as long as the rules let it.
  Entry Enter(std::string_view resource = "r", int user = 0, int64_t cost = 0,
              bool priority = false) {
    const std::string name = "user " + std::to_string(user);
    const std::array<DimensionValue, 1> dimensions = {{{"user", name}}};
    return guard_->Enter({.resource = resource,
                          .method = {},
                          .path = {},
                          .dimensions = dimensions,
                          .cost = cost,
                          .priority = priority},
                         kNever);
  }
  // How many of ten times `bound` calls go at once, each over before its thread's next.
  int64_t GoOfTenTimes(int64_t bound) {
    std::atomic<int64_t> went{0};
    OnThreads([&](int) {
      for (int64_t i = 0; i < PartOfTenTimes(bound); ++i)
        went += Enter() ? 1 : 0;
    });
    return went;
  }
  // Those of ten times `bound` calls that go; they stay in progress.
  std::vector<Entry> HoldOfTenTimes(int64_t bound) {
    std::vector<std::vector<Entry>> held(kThreads);
    OnThreads([&](int thread) {
      for (int64_t i = 0; i < PartOfTenTimes(bound); ++i) {
        Entry entry = Enter();
        if (entry) held[static_cast<size_t>(thread)].push_back(std::move(entry));
      }
    });
    std::vector<Entry> all;
    for (std::vector<Entry>& own : held)
      std::move(own.begin(), own.end(), std::back_inserter(all));
    return all;
  }
  // Of the rule of this name.
  [[nodiscard]] engine::RuleCounters CountersOf(std::string_view rule) const {
    for (const engine::RuleCounters& one : guard_->engine().Counters().rules) {
      if (one.rule == rule) return one;
    }
    return {};
  }
  void ExpectThatNothingIsInProgress() const {
    for (const engine::RuleCounters& rule : guard_->engine().Counters().rules)
      EXPECT_EQ(rule.inflight, 0) << rule.rule;
    const engine::StatisticsReport report =
        guard_->engine().ReportStatistics({.resource = {}, .most = 100}, clock_.Now());
    EXPECT_EQ(report.entrance.inflight, 0);
    for (const engine::Traffic& resource : report.resources)
      EXPECT_EQ(resource.inflight, 0) << resource.resource;
  }

  StillClock clock_;
  std::unique_ptr<Guard> guard_;

 private:
  static RuleSet SetOf(std::vector<Rule> rules) {
    RuleSet set;
    set.rules = std::move(rules);
    return set;
  }
};

}  // namespace flowguard
