// SPDX-License-Identifier: Apache-2.0
#include "serve/token_space.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::serve {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::token::Status;

const Instant kStart = Instant(hours(24 * 8));

int Passing(QuestionGuard& guard, Instant now, int most = 10'000'000) {
  int passed = 0;
  while (passed < most && guard.Pass(now))
    ++passed;
  return passed;
}

TEST(QuestionGuardTest, SoManyAtOnceAndAgainASecondLater) {
  QuestionGuard guard;
  guard.Set(3);
  EXPECT_EQ(Passing(guard, kStart), 3);
  EXPECT_FALSE(guard.Pass(kStart));
  EXPECT_TRUE(guard.Pass(kStart + seconds(1)));
  EXPECT_TRUE(guard.Pass(kStart + seconds(1)));
}

TEST(QuestionGuardTest, AnotherNumberAppliesAtOnceAndRefillsNothing) {
  QuestionGuard guard;
  guard.Set(3);
  EXPECT_EQ(Passing(guard, kStart), 3);
  guard.Set(10);
  EXPECT_FALSE(guard.Pass(kStart));
  EXPECT_EQ(Passing(guard, kStart + milliseconds(501)), 5);
  EXPECT_EQ(Passing(guard, kStart + hours(1)), 10);
  guard.Set(1);
  EXPECT_FALSE(guard.Pass(kStart + hours(1)));
}

TEST(QuestionGuardTest, NoNumberIsExceededInTheLongRun) {
  for (const int64_t most : {int64_t{1}, int64_t{3}, int64_t{7}, int64_t{30'000}}) {
    QuestionGuard guard;
    guard.Set(most);
    int64_t passed = 0;
    for (int step = 0; step <= 10'000; ++step)
      passed += Passing(guard, kStart + milliseconds(step));
    EXPECT_LE(passed, most * 11);
    EXPECT_GE(passed, most * 11 - 1 - most / 1000);
  }
}

TEST(QuestionGuardTest, AClockThatStepsBackLocksNobodyOut) {
  QuestionGuard guard;
  guard.Set(3);
  EXPECT_EQ(Passing(guard, kStart + hours(24)), 3);
  EXPECT_FALSE(guard.Pass(kStart + hours(24) - milliseconds(1)));
  EXPECT_EQ(Passing(guard, kStart), 3);
}

TEST(QuestionGuardTest, ThreadsTogetherPassNoMore) {
  QuestionGuard guard;
  guard.Set(1'000);
  std::atomic<int> passed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int asked = 0; asked < 1'000; ++asked)
        passed += guard.Pass(kStart) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(passed, 1'000);
}

TEST(TokenSpaceTest, CountsEveryStatusOfEveryThread) {
  const auto space = std::make_unique<TokenSpace>("app");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      space->Count(base::ThreadSlot(), Status::kBadRequest);
      space->Count(base::ThreadSlot(), Status::kAlreadyRelease);
      space->Count(base::ThreadSlot(), Status::kAlreadyRelease);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(space->Answered().front(), 4u);
  EXPECT_EQ(space->Answered().back(), 8u);
}

TEST(TokenClientsTest, ClientsCountWhereTheyJoined) {
  TokenClients clients;
  EXPECT_EQ(clients.Join("a"), 1u);
  EXPECT_EQ(clients.Join("a"), 2u);
  EXPECT_EQ(clients.Join(""), 1u);
  EXPECT_EQ(clients.InAll(), 3u);
  clients.Leave("a");
  EXPECT_EQ(clients.In("a"), 1u);
  clients.Leave("a");
  EXPECT_EQ(clients.In("a"), 0u);
  EXPECT_EQ(clients.In("b"), 0u);
  EXPECT_EQ(clients.InAll(), 1u);
}

}  // namespace
}  // namespace flowguard::serve
