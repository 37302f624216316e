// SPDX-License-Identifier: Apache-2.0
//
// Sixteen threads that wait for turns, and an executor's jobs: each turn is one caller's.
#include <algorithm>
#include <stdexcept>

#include "flowguard/executor.h"

#include "guard/threads_fixture_test.h"

namespace flowguard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::LimitRule;

using TurnsTest = ThreadsFixture;

// Ten a second, one at a time, and a wait of ten seconds: one goes, a hundred wait.
std::vector<Rule> RulesThatWait() {
  std::vector<Rule> rules;
  for (const Algorithm algorithm : {Algorithm::kTokenBucket, Algorithm::kLeakyBucket,
                                    Algorithm::kSmoothBursty, Algorithm::kWarmUp}) {
    Rule rule = LimitRule("rule", 10, seconds(1), algorithm);
    if (algorithm == Algorithm::kTokenBucket) rule.burst = 1;
    if (algorithm == Algorithm::kWarmUp) rule.cold_factor = 1;
    rule.wait = seconds(10);
    rules.push_back(std::move(rule));
  }
  return rules;
}

TEST_F(TurnsTest, EveryTurnIsGivenToOneCaller) {
  for (const Rule& rule : RulesThatWait()) {
    for (const Duration timeout : {Duration(seconds(3)), Duration(hours(1))}) {
      SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(rule.algorithm)));
      const size_t before = clock_.Turns().size();
      Build({rule});
      const int64_t waiting = std::min(timeout, rule.wait) / milliseconds(100);
      std::atomic<int64_t> went{0};

      OnThreads([&](int) {
        for (int64_t i = 0; i < PartOfTenTimes(waiting + 1); ++i)
          went += guard_->CheckFor({.resource = "r"}, timeout).allowed() ? 1 : 0;
      });

      EXPECT_EQ(went, waiting + 1);
      std::vector<Instant> turns = clock_.Turns();
      turns.erase(turns.begin(), turns.begin() + static_cast<std::ptrdiff_t>(before));
      std::sort(turns.begin(), turns.end());
      ASSERT_EQ(turns.size(), static_cast<size_t>(waiting));
      for (int64_t k = 1; k <= waiting; ++k)
        ASSERT_EQ(turns[static_cast<size_t>(k - 1)], clock_.Now() + k * milliseconds(100));
      ExpectThatNothingIsInProgress();
    }
  }
}

// Who has waited takes its slot then, and of all who come back at once no more than may.
TEST_F(TurnsTest, ThoseWhoHaveWaitedShareTheSlots) {
  constexpr int64_t kSlots = 5;
  for (const Rule& rule : RulesThatWait()) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(rule.algorithm)));
    Build({rule, ConcurrencyRule("slots", kSlots)});

    std::vector<Entry> held = HoldOfTenTimes(kSlots);

    EXPECT_EQ(held.size(), size_t{kSlots});
    EXPECT_EQ(CountersOf("slots").inflight, kSlots);
    held.clear();
    ExpectThatNothingIsInProgress();
  }
}

// Each thread stamps its call before it asks, so that they come out of order.
TEST_F(TurnsTest, PassesAreATurnApartWhateverTheOrderOfTheirStamps) {
  constexpr int kMany = 64;
  constexpr int64_t kSteps = 5'000;
  constexpr Duration kStep = milliseconds(1);
  constexpr Duration kTurn = milliseconds(10);
  for (Rule rule : RulesThatWait()) {
    // What it has stored by a late pass goes at once.
    if (rule.algorithm == Algorithm::kSmoothBursty) continue;
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(rule.algorithm)));
    rule.rate = {100, seconds(1)};
    rule.wait = {};
    Build({rule});
    std::atomic<int64_t> step{0};
    std::vector<std::vector<Instant>> passes(kMany);

    OnThreads(
        [&](int thread) {
          for (int64_t mine = step++; mine < kSteps; mine = step++) {
            const Instant now = clock_.Now() + mine * kStep;
            if (guard_->CheckAt(now, {.resource = "r"}).allowed())
              passes[static_cast<size_t>(thread)].push_back(now);
          }
        },
        kMany);

    std::vector<Instant> all;
    for (const std::vector<Instant>& own : passes)
      all.insert(all.end(), own.begin(), own.end());
    std::sort(all.begin(), all.end());
    EXPECT_LE(all.size(), static_cast<size_t>(kSteps * kStep / kTurn));
    for (size_t i = 1; i < all.size(); ++i) {
      EXPECT_GE(all[i] - all[i - 1], kTurn) << i;
      // All but one of the threads may hold a stamp back that would have passed.
      EXPECT_LE(all[i] - all[i - 1], kTurn + (kMany - 1) * kStep) << i;
    }
  }
}

// --- jobs

class JobsOnThreads : public ThreadsFixture {
 protected:
  void MakeExecutor(const ExecutorOptions& options) {
    auto made = Executor::Create(*guard_, options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    executor_ = *std::move(made);
  }
  // All threads submit `each` jobs that run `run`.
  void SubmitAll(int64_t each, const std::function<void()>& run) {
    OnThreads([&](int thread) {
      for (int64_t i = 0; i < each; ++i) {
        Job job;
        job.resource = "export";
        job.dimensions = {{"user", "user " + std::to_string(thread)}};
        job.run = run;
        job.done = [this](const JobReport& report) { ++ends_[static_cast<size_t>(report.end)]; };
        if (executor_->Submit(std::move(job)).ok()) ++taken_;
      }
    });
  }
  // Waits for a condition of the counters.
  template <typename F>
  void Until(F holds) {
    while (!holds(executor_->counters()))
      std::this_thread::yield();
  }
  [[nodiscard]] uint64_t Ended(JobEnd end) const { return ends_[static_cast<size_t>(end)].load(); }

  std::unique_ptr<Executor> executor_;
  std::atomic<uint64_t> taken_{0};
  std::array<std::atomic<uint64_t>, 5> ends_{};
};

TEST_F(JobsOnThreads, AsManyRunAsTheLimitHasAndTheOthersStayQueued) {
  constexpr uint64_t kLimit = 160;
  constexpr uint64_t kJobs = 10 * kLimit;
  Build({LimitRule("rate", kLimit, hours(1))});
  MakeExecutor({.threads = kThreads, .capacity = kJobs});
  std::atomic<uint64_t> ran{0};
  SubmitAll(kJobs / kThreads, [&] {
    if (++ran % 3 == 0) throw std::runtime_error("broken");
  });

  Until([](const ExecutorCounters& c) { return c.ran + c.failed >= kLimit; });
  const uint64_t asked = executor_->counters().asked;
  executor_->AskAgain();
  Until([asked](const ExecutorCounters& c) { return c.asked > asked; });
  EXPECT_EQ(ran, kLimit);
  EXPECT_EQ(executor_->counters().queued, kJobs - kLimit);

  executor_->Shutdown(ShutdownMode::kDrop);
  EXPECT_EQ(taken_, kJobs);
  EXPECT_EQ(Ended(JobEnd::kRan) + Ended(JobEnd::kFailed), kLimit);
  EXPECT_EQ(Ended(JobEnd::kFailed), kLimit / 3);
  EXPECT_EQ(Ended(JobEnd::kDropped), kJobs - kLimit);
  EXPECT_EQ(CountersOf("rate").passed, kLimit);
  ExpectThatNothingIsInProgress();
}

// Time stands still: nothing but the end of a job starts the next one.
TEST_F(JobsOnThreads, NoMoreRunThanThereAreSlotsAndNoSlotStaysFree) {
  constexpr uint64_t kSlots = 5;
  constexpr uint64_t kJobs = 160;
  Build({ConcurrencyRule("slots", kSlots)});
  MakeExecutor({.threads = kThreads, .capacity = kJobs});
  std::atomic<bool> go{false};
  std::atomic<uint64_t> inside{0};
  std::atomic<bool> too_many{false};
  SubmitAll(kJobs / kThreads, [&] {
    if (++inside > kSlots) too_many = true;
    go.wait(false);
    --inside;
    throw std::runtime_error("broken");
  });

  Until([](const ExecutorCounters& c) { return c.running == kSlots; });
  EXPECT_EQ(static_cast<uint64_t>(CountersOf("slots").inflight), kSlots);
  go = true;
  go.notify_all();
  Until([](const ExecutorCounters& c) { return c.failed == kJobs; });

  EXPECT_FALSE(too_many);
  executor_->Shutdown(ShutdownMode::kDrain);
  EXPECT_EQ(Ended(JobEnd::kFailed), kJobs);
  ExpectThatNothingIsInProgress();
}

TEST_F(JobsOnThreads, TheQueueTakesWhatItHoldsAndNoMore) {
  constexpr uint64_t kCapacity = 160;
  Build({LimitRule("rate", 1, hours(1))});
  ASSERT_TRUE(guard_->Check({.resource = "export"}).allowed());
  MakeExecutor({.threads = kThreads, .capacity = kCapacity});

  SubmitAll(PartOfTenTimes(kCapacity), [] {});

  EXPECT_EQ(taken_, kCapacity);
  EXPECT_EQ(executor_->counters().submitted, kCapacity);
  EXPECT_EQ(executor_->counters().rejected, 9 * kCapacity);
  executor_->Shutdown(ShutdownMode::kDrop);
  EXPECT_EQ(Ended(JobEnd::kDropped), kCapacity);
  EXPECT_EQ(CountersOf("rate").passed, 1u);
  ExpectThatNothingIsInProgress();
}

}  // namespace
}  // namespace flowguard
