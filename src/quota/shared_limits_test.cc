// SPDX-License-Identifier: Apache-2.0
//
// Programs that embed the library and share limits over a real redis-server.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/clock.h"
#include "flowguard/guard.h"
#include "flowguard/shared.h"

#include "testing/redis_server.h"
#include "testing/rules.h"

namespace flowguard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::RedisServer;
using testing::SharedRule;
using testing::WaitFor;

// Longer than any pause of a busy machine, where the answer is what is looked at.
constexpr Duration kPatient = seconds(10);
constexpr Request kRequest{.resource = "r"};

// One program.
struct Program {
  std::unique_ptr<SharedLimits> shared;
  std::unique_ptr<Guard> guard;
};

Rule SharedSlots(int64_t slots) {
  Rule rule = ConcurrencyRule("slots", slots);
  rule.scope = Scope::kShared;
  rule.on_store_failure = StoreFailurePolicy::kClosed;
  return rule;
}

class SharedLimitsTest : public ::testing::Test {
 protected:
  [[nodiscard]] Program Start(std::vector<Rule> rules, Duration deadline = kPatient,
                              int nodes = 0) const {
    SharedLimitsOptions with;
    with.redis = server_.url();
    with.nodes = nodes;
    auto shared = SharedLimits::Open(with);
    EXPECT_TRUE(shared.ok()) << shared.error().message;
    Program program;
    program.shared = std::move(shared).value();
    program.guard = MakeGuard(*program.shared, std::move(rules), deadline);
    EXPECT_TRUE(program.shared->WaitUntilConnected(kPatient));
    return program;
  }
  static std::unique_ptr<Guard> MakeGuard(SharedLimits& shared, std::vector<Rule> rules,
                                          Duration deadline) {
    RuleSet set;
    set.rules = std::move(rules);
    GuardOptions options;
    options.store = shared.store();
    options.store_deadline = deadline;
    auto guard = Guard::Create(std::move(set), options);
    EXPECT_TRUE(guard.ok()) << guard.error().message;
    return std::move(guard).value();
  }

  RedisServer server_;
};

TEST_F(SharedLimitsTest, ThreadsOfTwoProgramsHaveOneTotal) {
  constexpr int kLimit = 300;
  constexpr int kThreads = 4;
  Program programs[2] = {Start({SharedRule("r", kLimit, hours(1))}),
                         Start({SharedRule("r", kLimit, hours(1))})};
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < kLimit / 2; ++call)
        admitted += programs[i % 2].guard->Check(kRequest).allowed() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(admitted, kLimit);
  const SharedLimitsStatus first = programs[0].shared->status();
  const SharedLimitsStatus second = programs[1].shared->status();
  EXPECT_EQ(first.granted + second.granted, static_cast<uint64_t>(kLimit));
  EXPECT_EQ(first.failed + second.failed, 0U);
  EXPECT_TRUE(first.connected);
  EXPECT_FALSE(first.away);
}

TEST_F(SharedLimitsTest, GuardsOfOneProgramMayUseOneConnection) {
  Program program = Start({SharedRule("r", 20, hours(1))});
  const auto other = MakeGuard(*program.shared, {SharedRule("r", 20, hours(1))}, kPatient);
  std::atomic<int> admitted{0};
  const auto call = [&](Guard& guard) {
    for (int i = 0; i < 20; ++i)
      admitted += guard.Check(kRequest).allowed() ? 1 : 0;
  };
  std::thread beside([&] { call(*other); });
  call(*program.guard);
  beside.join();
  EXPECT_EQ(admitted, 20);
}

TEST_F(SharedLimitsTest, CallbacksRunOnceOnTheThreadAndMayAskAgain) {
  std::atomic<int> allowed{0};
  std::atomic<int> told{0};
  std::atomic<bool> elsewhere{true};
  std::function<void(const Decision&)> again;
  const std::thread::id here = std::this_thread::get_id();
  Program program = Start({SharedRule("r", 3, hours(1))});
  again = [&](const Decision& decision) {
    elsewhere = elsewhere && std::this_thread::get_id() != here;
    if (decision.allowed()) {
      ++allowed;
      program.guard->CheckAsync(kRequest, again);
    }
    ++told;
  };
  program.guard->CheckAsync(kRequest, again);
  ASSERT_TRUE(WaitFor([&] { return told == 4; }));
  EXPECT_EQ(allowed, 3);
  EXPECT_TRUE(elsewhere);
}

TEST_F(SharedLimitsTest, ACheckInsideACallbackEndsByItsDeadline) {
  std::promise<std::pair<Reason, Reason>> told;
  Program program = Start({SharedRule("r", 10, hours(1))}, milliseconds(200));
  program.guard->CheckAsync(kRequest, [&](const Decision& decision) {
    told.set_value({decision.reason, program.guard->Check(kRequest).reason});
  });
  const auto [outer, inner] = told.get_future().get();
  EXPECT_EQ(outer, Reason::kNone);
  EXPECT_EQ(inner, Reason::kStoreFailure);
}

TEST_F(SharedLimitsTest, SlotsAreHeldOverProgramsUntilTheEntryEnds) {
  Program first = Start({SharedSlots(1)});
  Program second = Start({SharedSlots(1)});
  Entry entry = first.guard->Enter(kRequest);
  ASSERT_TRUE(entry);
  EXPECT_FALSE(second.guard->Enter(kRequest));
  entry.Settle(Outcome::kOk);
  EXPECT_TRUE(WaitFor([&] { return static_cast<bool>(second.guard->Enter(kRequest)); }));
}

TEST_F(SharedLimitsTest, UnitsThatACallDidNotUseComeBack) {
  Rule reserved = SharedRule("reserved", 10, hours(1));
  reserved.cost.reserve = 10;
  Program program = Start({reserved});
  Entry entry = program.guard->Enter(kRequest);
  ASSERT_TRUE(entry);
  EXPECT_FALSE(program.guard->Enter(kRequest));
  entry.Settle(Outcome::kOk, 0);
  EXPECT_TRUE(WaitFor([&] { return static_cast<bool>(program.guard->Enter(kRequest)); }));
}

TEST_F(SharedLimitsTest, ProgramsAreCountedAndThoseThatEndLeave) {
  Program first = Start({SharedRule("r", 10, hours(1))});
  ASSERT_TRUE(WaitFor([&] { return first.shared->status().nodes == 1; }));
  {
    Program second = Start({SharedRule("r", 10, hours(1))});
    EXPECT_TRUE(WaitFor([&] { return second.shared->status().nodes == 2; }));
  }
  Program third = Start({SharedRule("r", 10, hours(1))});
  EXPECT_TRUE(WaitFor([&] { return third.shared->status().nodes == 2; }));
}

TEST_F(SharedLimitsTest, NobodyWaitsLongerThanTheDeadlineForAServerThatStands) {
  // The share of two programs; the count that the server gave is 1.
  Program program =
      Start({SharedRule("local", 10, hours(1), StoreFailurePolicy::kLocal)}, milliseconds(20), 2);
  ASSERT_TRUE(WaitFor([&] { return program.shared->status().nodes == 1; }));
  server_.Pause();
  const Instant before = SystemClock().Now();
  int admitted = 0;
  for (int i = 0; i < 20; ++i)
    admitted += program.guard->Check(kRequest).allowed() ? 1 : 0;
  const Duration took = SystemClock().Now() - before;
  EXPECT_EQ(admitted, 10) << "the whole limit, for it is alone";
  EXPECT_LT(took, seconds(5)) << "a deadline each would be less still";
  EXPECT_TRUE(WaitFor([&] { return program.shared->status().away; }));
  // The end of a Guard, with answers that nobody waited for still to come.
  program.guard = nullptr;
  server_.Resume();
  EXPECT_TRUE(program.shared->WaitUntilConnected(kPatient));
}

TEST_F(SharedLimitsTest, WithoutAServerRulesFollowTheirPolicy) {
  SharedLimitsOptions with;
  with.redis = "redis://127.0.0.1:" + std::to_string(testing::FreePort());
  with.nodes = 2;
  auto shared = SharedLimits::Open(with);
  ASSERT_TRUE(shared.ok());
  EXPECT_FALSE((*shared)->WaitUntilConnected(milliseconds(1)));
  Rule closed = SharedRule("closed", 10, hours(1));
  closed.on.resource = "closed";
  Rule open = SharedRule("open", 10, hours(1), StoreFailurePolicy::kOpen);
  open.on.resource = "open";
  Rule local = SharedRule("local", 10, hours(1), StoreFailurePolicy::kLocal);
  local.on.resource = "local";
  const auto guard = MakeGuard(**shared, {closed, open, local}, milliseconds(5));
  EXPECT_EQ(guard->Check({.resource = "closed"}).reason, Reason::kStoreFailure);
  EXPECT_TRUE(guard->Check({.resource = "open"}).allowed());
  int admitted = 0;
  for (int i = 0; i < 20; ++i)
    admitted += guard->Check({.resource = "local"}).allowed() ? 1 : 0;
  EXPECT_EQ(admitted, 5) << "half of the limit";
}

TEST(SharedLimitsErrors, SayWhatIsWrong) {
  SharedLimitsOptions options;
  options.redis = "http://x";
  EXPECT_EQ(SharedLimits::Open(options).error().code, ErrorCode::kInvalidArgument);
  options.redis = "rediss://127.0.0.1?tls_ca=/nonexistent";
  EXPECT_EQ(SharedLimits::Open(options).error().code, ErrorCode::kInvalidArgument);
  options.redis = "redis://127.0.0.1";
  options.nodes = -1;
  EXPECT_EQ(SharedLimits::Open(options).error().message, "nodes: -1; it is from 0 to 10000");
  options.nodes = 0;
  options.deadline = {};
  EXPECT_EQ(SharedLimits::Open(options).error().message, "deadline: 0 ns; it is at least 1 ns");
}

}  // namespace
}  // namespace flowguard
