// SPDX-License-Identifier: Apache-2.0
//
// What call_window.h promises of threads, in every order of their steps with at most
// three preemptions (two for three threads).
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "breaker/call_window_impl.h"
#include "breaker/test_breaker.h"
#include "testing/interleavings.h"

namespace flowguard::breaker {
namespace {

using testing::RunAllInterleavings;
using testing::SteppedSync;
using Window = BasicCallWindow<SteppedSync>;
using Program = testing::Interleaving::Program;

// Threads that count calls at given times, all within one window.
class WindowRun {
 public:
  explicit WindowRun(std::vector<std::vector<int64_t>> calls_ms) : calls_ms_(std::move(calls_ms)) {}

  std::vector<Program> Make() {
    window_ = std::make_unique<Window>(ErrorCount(100, 1));
    begun_ = ended_ = most_ = 0;
    std::vector<Program> programs;
    for (const std::vector<int64_t>& calls : calls_ms_) {
      programs.emplace_back([this, &calls] {
        for (const int64_t ms : calls)
          Count(ms);
      });
    }
    return programs;
  }

  void Check() {
    EXPECT_EQ(window_->Look(At(200)), (CallCounts{begun_, begun_})) << "lost or doubled";
    EXPECT_EQ(most_, begun_) << "nobody saw all of them";
  }

 private:
  void Count(int64_t ms) {
    const int64_t ended = ended_;
    ++begun_;
    CallCounts counts;
    EXPECT_TRUE(window_->Count(
        At(ms), true, [] { return true; }, counts));
    ++ended_;
    EXPECT_EQ(counts.calls, counts.bad);
    EXPECT_GT(counts.calls, ended);
    EXPECT_LE(counts.calls, begun_);
    most_ = std::max(most_, counts.calls);
  }

  const std::vector<std::vector<int64_t>> calls_ms_;
  std::unique_ptr<Window> window_;
  int64_t begun_ = 0;
  int64_t ended_ = 0;
  int64_t most_ = 0;
};

size_t Explore(int preemptions_max, std::vector<std::vector<int64_t>> calls_ms) {
  WindowRun run(std::move(calls_ms));
  return RunAllInterleavings(
      preemptions_max, [&] { return run.Make(); }, [&] { run.Check(); });
}

TEST(CallWindowInterleavingTest, CallsOfOneBucketAddUp) {
  EXPECT_GT(Explore(3, {{0, 0}, {0, 0}}), 100u);
}

// Rules out: a bucket that is counted twice, or not at all, while the next one begins.
TEST(CallWindowInterleavingTest, CallsAddUpWhileBucketsBegin) {
  EXPECT_GT(Explore(3, {{0, 100}, {0, 100}}), 1'000u);
  EXPECT_GT(Explore(3, {{0, 0}, {100, 200}}), 1'000u);
  EXPECT_GT(Explore(2, {{0}, {0, 100}, {100}}), 1'000u);
}

// Rules out: a call of an earlier phase that is counted in a later one.  The owner does as
// a breaker does: the phase ends, the window is cleared, another phase begins.
TEST(CallWindowInterleavingTest, NoCallOfAnEarlierPhaseIsCountedAfterAClear) {
  std::unique_ptr<Window> window;
  std::unique_ptr<SteppedSync::Atomic<int64_t>> phase;
  const auto in_phase = [&](int64_t mine) {
    return [&phase, mine] { return phase->load(std::memory_order_acquire) == mine; };
  };
  const auto make = [&] {
    window = std::make_unique<Window>(ErrorCount(100, 1));
    phase = std::make_unique<SteppedSync::Atomic<int64_t>>(1);
    const auto old_calls = [&] {
      CallCounts counts;
      for (const int64_t ms : {0, 100})
        static_cast<void>(window->Count(At(ms), true, in_phase(1), counts));
    };
    const auto owner = [&] {
      phase->store(2, std::memory_order_release);
      window->Clear();
      phase->store(3, std::memory_order_release);
      CallCounts counts;
      EXPECT_TRUE(window->Count(At(100), false, in_phase(3), counts));
      EXPECT_EQ(counts, (CallCounts{1, 0}));
    };
    return std::vector<Program>{old_calls, owner};
  };
  const auto check = [&] { EXPECT_EQ(window->Look(At(100)), (CallCounts{1, 0})); };

  EXPECT_GT(RunAllInterleavings(3, make, check), 1'000u);
}

}  // namespace
}  // namespace flowguard::breaker
