// SPDX-License-Identifier: Apache-2.0
//
// Many threads ask at ten times the limit: never more than it, and hardly less; and what a
// question costs in memory.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "serve/token_service_fixture_test.h"
#include "testing/thread_allocations.h"

namespace flowguard::serve {
namespace {

constexpr int kThreads = 8;

class TokenServiceThreadsTest : public TokenServiceFixture {
 protected:
  // Each of the threads asks `asks` times; how many passed.
  int PassedByThreads(int64_t flow_id, int asks) {
    std::atomic<int> passed{0};
    OnThreads([&](std::unique_ptr<engine::Attempt>& attempt) {
      for (int i = 0; i < asks; ++i)
        passed += Passes(attempt, flow_id, now_) ? 1 : 0;
    });
    return passed;
  }
  bool Passes(std::unique_ptr<engine::Attempt>& attempt, int64_t flow_id, Instant now) {
    TokenReply reply;
    EXPECT_TRUE(service_->Begin(attempt, FlowQuestion(flow_id), peer_, nullptr, now, reply));
    return reply.status == Status::kOk;
  }
  template <typename F>
  static void OnThreads(F&& f) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        auto attempt = std::make_unique<engine::Attempt>();
        f(attempt);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }

  // By step of 5 ms, in which ten times the limit of 5 ms is asked for.
  std::vector<int> PassedBySteps(int64_t flow_id, int64_t limit, int steps) {
    std::vector<std::atomic<int>> passed(static_cast<size_t>(steps));
    const auto asks = static_cast<int>(limit * 10 / 200 / kThreads + 1);
    std::barrier together(kThreads);
    OnThreads([&](std::unique_ptr<engine::Attempt>& attempt) {
      for (int step = 0; step < steps; ++step) {
        together.arrive_and_wait();
        for (int i = 0; i < asks; ++i) {
          const bool passes = Passes(attempt, flow_id, now_ + milliseconds(5 * step));
          passed[static_cast<size_t>(step)] += passes ? 1 : 0;
        }
      }
    });
    now_ += milliseconds(5 * steps);
    return {passed.begin(), passed.end()};
  }
  // The most of any second, which is 200 steps.
  static int MostInASecond(const std::vector<int>& passed) {
    int most = 0;
    int sum = 0;
    for (size_t i = 0; i < passed.size(); ++i) {
      sum += passed[i];
      if (i >= 200) sum -= passed[i - 200];
      most = std::max(most, sum);
    }
    return most;
  }
  static int Sum(const std::vector<int>& passed) {
    int sum = 0;
    for (const int one : passed)
      sum += one;
    return sum;
  }
};

TEST_F(TokenServiceThreadsTest, WhileTheClockStandsExactlyTheLimitPasses) {
  Rule buckets = ClusterRule("buckets", 2, 10'000, Algorithm::kSlidingBuckets);
  buckets.buckets = 200;
  Load({ClusterRule("log", 1, 100), buckets});
  EXPECT_EQ(PassedByThreads(1, 125), 100);
  EXPECT_EQ(PassedByThreads(2, 12'500), 10'000);
}

TEST_F(TokenServiceThreadsTest, NoSecondHasMoreThanTheLimitAndHardlyLess) {
  Rule buckets = ClusterRule("buckets", 2, 10'000, Algorithm::kSlidingBuckets);
  buckets.buckets = 200;
  Load({ClusterRule("log", 1, 100), buckets});
  const std::vector<int> log = PassedBySteps(1, 100, 600);
  EXPECT_LE(MostInASecond(log), 100);
  EXPECT_EQ(Sum(log), 300);
  // Three times the second and a bucket that it counts.
  const std::vector<int> counted = PassedBySteps(2, 10'000, 603);
  EXPECT_LE(MostInASecond(counted), 10'000);
  EXPECT_GE(Sum(counted) * 1000.0 / (603 * 5), 0.99 * 10'000);
}

TEST_F(TokenServiceThreadsTest, ReloadsAndClientsAndQuestionsGoTogether) {
  Rule counted = ClusterRule("clients", 2, 1'000'000'000, Algorithm::kTokenBucket);
  counted.cluster.per_client = true;
  TokenNamespace space = Space("default", {ClusterRule("log", 1, 100), counted});
  space.questions_per_second = 1'000'000'000;
  static_cast<void>(service_->Join("app"));
  Load({space});
  std::atomic<bool> ended{false};
  std::atomic<int> passed{0};
  std::atomic<int> refused{0};
  std::thread loader([&] {
    Instant now = now_;
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(service_->Load({space}, now).ok());
      static_cast<void>(service_->Join("app"));
      now += kClientsLookEvery;
      service_->Look(now);
      static_cast<void>(service_->Counted());
      service_->Leave("app");
    }
    ended = true;
  });
  OnThreads([&](std::unique_ptr<engine::Attempt>& attempt) {
    do {
      passed += Passes(attempt, 1, now_) ? 1 : 0;
      refused += Passes(attempt, 2, now_) ? 0 : 1;
    } while (!ended);
  });
  loader.join();
  EXPECT_EQ(passed, 100);
  EXPECT_EQ(refused, 0);
}

TEST_F(TokenServiceThreadsTest, AnAnswerAllocatesNothing) {
  Rule keyed = ClusterRule("keyed", 2, 1'000, Algorithm::kTokenBucket);
  keyed.by = {"user"};
  Load({ClusterRule("log", 1, 3), keyed});
  const std::string values = Text("ann") + Text("bob");
  const std::array questions = {FlowQuestion(1),   FlowQuestion(1, 1, true),    FlowQuestion(9),
                                FlowQuestion(0),   ParamQuestion(2, values, 2), FlowQuestion(2),
                                ReleaseQuestion(7)};
  TokenReply reply;
  const auto ask = [&] {
    for (const Question& question : questions)
      static_cast<void>(service_->Begin(attempt_, question, peer_, nullptr, now_, reply));
  };
  // Statistics give a thread that counts often lines of its own.
  for (int i = 0; i < 1'000; ++i)
    ask();
  const int64_t before = allocations;
  for (int i = 0; i < 100; ++i)
    ask();
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace flowguard::serve
