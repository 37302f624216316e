// SPDX-License-Identifier: Apache-2.0
//
// Sixteen threads ask for ten times what the rules have, at one instant: exactly that much
// goes, whatever the kind of rule, and nothing stays in progress, however the calls end.
#include <algorithm>
#include <ostream>
#include <stdexcept>

#include "flowguard/protect.h"

#include "guard/threads_fixture_test.h"

namespace flowguard {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::ErrorCountBreaker;
using testing::LimitRule;

struct Kind {
  std::string name;
  std::vector<Rule> rules;
  int64_t bound = 0;    // calls that go at one instant, of each user
  int users = 1;        // that the rules tell apart
  Duration rest{};      // after it as many go again
  int64_t cost = 0;     // of a call
  bool breaks = false;  // the rules have a breaker, which is half-open when the calls come
  bool priority = false;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

// --- the kinds

constexpr int kUsers = 100;

Rule PerUser(Rule rule) {
  rule.by = {"user"};
  return rule;
}

Rule Probes(int probes) {
  Rule rule = ErrorCountBreaker("probes", 0);
  rule.breaker.probes = probes;
  rule.breaker.open_for = seconds(5);
  return rule;
}

// 160 at once, and 8 of each user; a fresh warm-up has a part of that.
std::vector<Kind> KindsOfLimits() {
  struct Bound {
    const char* name;
    Algorithm algorithm;
    int64_t limit, bound;
    int64_t limit_per_user, bound_per_user;
  };
  const Bound bounds[] = {
      {"token_bucket", Algorithm::kTokenBucket, 160, 160, 8, 8},
      {"leaky_bucket", Algorithm::kLeakyBucket, 160, 160, 8, 8},
      {"sliding_log", Algorithm::kSlidingLog, 160, 160, 8, 8},
      {"sliding_buckets", Algorithm::kSlidingBuckets, 160, 160, 8, 8},
      {"sliding_window", Algorithm::kSlidingWindow, 160, 160, 8, 8},
      {"fixed_window", Algorithm::kFixedWindow, 160, 160, 8, 8},
      {"weighted_average", Algorithm::kWeightedAverage, 160, 160, 8, 8},
      {"smooth_bursty", Algorithm::kSmoothBursty, 160, 161, 8, 9},
      {"warm_up", Algorithm::kWarmUp, 160, 1, 8, 1},
      {"warm_up_window", Algorithm::kWarmUpWindow, 150, 50, 9, 3},
  };
  std::vector<Kind> kinds;
  for (const Bound& b : bounds) {
    const std::string name = b.name;
    const Rule one = LimitRule("rule", b.limit, hours(1), b.algorithm);
    const Rule many = LimitRule("rule", b.limit_per_user, hours(1), b.algorithm);
    kinds.push_back({.name = name, .rules = {one}, .bound = b.bound, .rest = hours(30)});
    kinds.push_back({.name = name + "_per_user",
                     .rules = {PerUser(many)},
                     .bound = b.bound_per_user,
                     .users = kUsers,
                     .rest = hours(30)});
  }
  // 40 are there, and 120 can be booked ahead.
  Rule booked = LimitRule("rule", 120, hours(1));
  booked.burst = 40;
  booked.wait = hours(1);
  kinds.push_back({.name = "booked_ahead", .rules = {booked}, .bound = 160, .rest = hours(30)});
  // 80 are there, and each slot is lent once for when it is free again.
  Rule lent = LimitRule("rule", 80, hours(1), Algorithm::kSlidingLog);
  lent.borrow = hours(1);
  kinds.push_back(
      {.name = "borrowed", .rules = {lent}, .bound = 160, .rest = hours(30), .priority = true});
  Rule even = LimitRule("rule", 160, hours(1), Algorithm::kWarmUp);
  even.cold_factor = 1;
  even.wait = hours(1);
  kinds.push_back({.name = "warm_up_ahead", .rules = {even}, .bound = 161, .rest = hours(30)});
  return kinds;
}

std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds = KindsOfLimits();
  const Rule slots = ConcurrencyRule("slots", 160);
  kinds.push_back({.name = "concurrency", .rules = {slots}, .bound = 160});
  kinds.push_back({.name = "concurrency_of_cost_4", .rules = {slots}, .bound = 40, .cost = 4});
  kinds.push_back({.name = "concurrency_per_user",
                   .rules = {PerUser(ConcurrencyRule("slots", 8))},
                   .bound = 8,
                   .users = kUsers});
  kinds.push_back({.name = "system_inflight",
                   .rules = {testing::RuleOfSystem("most", testing::MostInflight(160))},
                   .bound = 160});
  kinds.push_back({.name = "system_qps",
                   .rules = {testing::RuleOfSystem("most", testing::MostQps(160))},
                   .bound = 160,
                   .rest = seconds(2)});
  kinds.push_back(
      {.name = "probes", .rules = {Probes(48)}, .bound = 48, .rest = seconds(5), .breaks = true});
  kinds.push_back({.name = "probes_per_user",
                   .rules = {PerUser(Probes(8))},
                   .bound = 8,
                   .users = kUsers,
                   .rest = seconds(5),
                   .breaks = true});
  // Each of them has less than those before it: what they let go must come back.
  kinds.push_back(
      {.name = "all_together",
       .rules = {testing::RuleOfSystem("most", testing::MostInflight(160)),
                 LimitRule("rate", 120, hours(1)), ConcurrencyRule("slots", 80), Probes(40)},
       .bound = 40,
       .rest = hours(2),
       .breaks = true});
  return kinds;
}

// --- the ends

enum class End {
  kOk,
  kError,
  kIgnoredError,
  kCancelled,
  kTwice,
  kActualCost,
  kDestroyed,
  kThrown,
  kMoved,
  kReplaced,
};
constexpr int kEnds = static_cast<int>(End::kReplaced) + 1;

void EndBy(Entry entry, End end) {
  switch (end) {
    case End::kOk:
      return entry.Settle(Outcome::kOk);
    case End::kError:
      return entry.Settle(Outcome::kError);
    case End::kIgnoredError:
      return entry.Settle(Outcome::kIgnoredError);
    case End::kCancelled:
      return entry.Settle(Outcome::kCancelled);
    case End::kTwice:
      entry.Settle(Outcome::kOk);
      return entry.Settle(Outcome::kError);
    case End::kActualCost:
      return entry.Settle(Outcome::kOk, 1);
    case End::kDestroyed:
      return;
    case End::kThrown:
      try {
        const Entry held = std::move(entry);
        throw std::runtime_error("broken");
      } catch (const std::runtime_error&) {
        return;
      }
    case End::kMoved: {
      Entry other = std::move(entry);
      entry.Settle(Outcome::kError);  // NOLINT(bugprone-use-after-move): it holds no call
      return other.Settle(Outcome::kOk);
    }
    case End::kReplaced:
      entry = Entry();
      return;
  }
}

class KindsOnThreads : public ThreadsFixture, public ::testing::WithParamInterface<Kind> {
 protected:
  // All that was taken before has come back, and a breaker is about to probe.
  void Rest() {
    const Kind& kind = GetParam();
    clock_.Advance(kind.rest);
    if (!kind.breaks) return;
    for (int user = 0; user < kind.users; ++user) {
      Entry call = Enter("r", user);
      ASSERT_TRUE(call) << "a call, or a probe, of user " << user;
      call.Settle(Outcome::kError);
    }
    clock_.Advance(kind.rest);
  }
  [[nodiscard]] uint64_t Refused() const {
    uint64_t refused = 0;
    for (const engine::RuleCounters& rule : guard_->engine().Counters().rules)
      refused += rule.refused;
    return refused;
  }
};

TEST_P(KindsOnThreads, AdmitExactlyTheBoundAndKeepNothing) {
  const Kind& kind = GetParam();
  const int64_t each = PartOfTenTimes(kind.bound);
  const int64_t all = kind.bound * kind.users;
  ASSERT_NO_FATAL_FAILURE(Build(kind.rules));
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    ASSERT_NO_FATAL_FAILURE(Rest());
    const uint64_t refused = Refused();
    std::vector<std::atomic<int64_t>> admitted(static_cast<size_t>(kind.users));
    std::vector<std::vector<Entry>> held(kThreads);
    OnThreads([&](int thread) {
      for (int64_t i = 0; i < each * kind.users; ++i) {
        const auto user = static_cast<size_t>(i) % admitted.size();
        Entry entry = Enter("r", static_cast<int>(user), kind.cost, kind.priority);
        if (!entry) continue;
        ++admitted[user];
        held[static_cast<size_t>(thread)].push_back(std::move(entry));
      }
    });

    for (const std::atomic<int64_t>& of_user : admitted)
      EXPECT_EQ(of_user.load(), kind.bound);
    EXPECT_EQ(Refused() - refused, static_cast<uint64_t>(each * kThreads * kind.users - all));
    EXPECT_EQ(CountersOf("slots").inflight,
              CountersOf("slots").loaded ? all * std::max<int64_t>(kind.cost, 1) : 0);
    EXPECT_EQ(guard_->engine()
                  .ReportStatistics({.resource = {}, .most = 0}, clock_.Now())
                  .entrance.inflight,
              all);

    // Each call ends on another thread than it began on.
    OnThreads([&](int thread) {
      int way = thread;
      for (Entry& entry : held[static_cast<size_t>((thread + 1) % kThreads)])
        EndBy(std::move(entry), static_cast<End>(way++ % kEnds));
    });
    ExpectThatNothingIsInProgress();
  }
}

INSTANTIATE_TEST_SUITE_P(All, KindsOnThreads, ::testing::ValuesIn(AllKinds()),
                         [](const auto& kind) { return kind.param.name; });

// --- rules together

using ThreadsTest = ThreadsFixture;

// A turn of leaky_bucket or warm_up is given back only while nobody is behind it: there some
// may be lost for the moment, and none is had twice.
TEST_F(ThreadsTest, WhatALaterRuleRefusesTakesNothingOfAnyAlgorithm) {
  for (const Algorithm algorithm : testing::kEveryLocalAlgorithm) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)));
    const bool exact = algorithm != Algorithm::kLeakyBucket && algorithm != Algorithm::kWarmUp;
    constexpr int64_t kLimit = 160;
    constexpr int64_t kSlots = 40;
    const Rule rate = LimitRule("rate", kLimit, hours(1), algorithm);
    Build({rate});
    clock_.Advance(hours(30));
    const int64_t whole = GoOfTenTimes(kLimit);
    clock_.Advance(hours(30));
    Reload({rate, ConcurrencyRule("slots", kSlots)});

    std::vector<Entry> held = HoldOfTenTimes(kLimit);
    const auto went = static_cast<int64_t>(held.size());
    held.clear();

    EXPECT_EQ(went, std::min(whole, kSlots));
    ExpectThatNothingIsInProgress();
    Reload({rate});
    const int64_t left = GoOfTenTimes(kLimit);
    EXPECT_LE(left, whole - went);
    if (exact) {
      EXPECT_EQ(left, whole - went);
    }
    clock_.Advance(hours(30));
    EXPECT_EQ(GoOfTenTimes(kLimit), whole) << "what was lost was a turn, not the rate";
  }
}

TEST_F(ThreadsTest, RelatedCallsAllGoAndCloseTheRuleFromTheLimitOn) {
  constexpr int64_t kLimit = 160;
  for (Rule rule : {LimitRule("rule", kLimit, hours(1)), ConcurrencyRule("rule", kLimit)}) {
    rule.on.resource = "read";
    rule.relate_to = "write";
    Build({rule});
    std::atomic<int64_t> writes{0};
    std::vector<std::vector<Entry>> held(kThreads);
    const auto write = [&](int thread) {
      Entry entry = Enter("write");
      EXPECT_TRUE(entry);
      held[static_cast<size_t>(thread)].push_back(std::move(entry));
    };
    OnThreads([&](int thread) {
      while (writes.fetch_add(1) < kLimit - 1) {
        write(thread);
        EXPECT_TRUE(Enter("read")) << "one call fewer than the limit";
      }
    });
    write(0);
    OnThreads([&](int thread) {
      for (int64_t i = 0; i < PartOfTenTimes(kLimit); ++i) {
        write(thread);
        EXPECT_FALSE(Enter("read"));
      }
    });

    OnThreads([&](int thread) {
      int way = thread;
      for (Entry& entry : held[static_cast<size_t>((thread + 1) % kThreads)])
        EndBy(std::move(entry), static_cast<End>(way++ % kEnds));
    });

    ExpectThatNothingIsInProgress();
    if (rule.kind == RuleKind::kLimit) clock_.Advance(hours(1));
    EXPECT_TRUE(Enter("read"));
  }
}

// Two that read the rules, add one and write them back would lose one.
TEST_F(ThreadsTest, DeclarationsAndReloadsAtOnceLoseNoRule) {
  constexpr int kEach = 4;
  Build({});
  OnThreads([&](int thread) {
    for (int i = 0; i < kEach; ++i) {
      const std::string number = std::to_string(thread * kEach + i);
      Rule rule = ConcurrencyRule("declared-" + number, 1);
      rule.on.resource = rule.name;
      EXPECT_TRUE(guard_->Declare(rule).ok());
      Reload({ConcurrencyRule("loaded-" + number, 1)});
    }
  });
  const RuleSet set = guard_->engine().Rules();
  EXPECT_EQ(set.rules.size(), size_t{kThreads} * kEach + 1) << "all declared ones and the last";
}

// --- protected calls

// Those that run wait inside until all have asked, so that every round meets the bound.
TEST_F(ThreadsTest, ProtectedCallsAreBoundedAndLeaveNothingHoweverTheyEnd) {
  constexpr int kSlots = 3;
  constexpr int kRounds = 100;
  Build({ConcurrencyRule("slots", kSlots), LimitRule("rate", kSlots * kRounds, hours(1))});
  std::barrier asked(kThreads);
  std::barrier over(kThreads);
  std::vector<std::atomic<int>> ran(kRounds);
  const auto protector = Protect(*guard_, "r")
                             .FailedIf([](bool well) { return !well; })
                             .OnBlock([&](const Decision&, int) {
                               asked.arrive_and_wait();
                               return false;
                             });

  OnThreads([&](int) {
    auto call = protector.Wrap([&](int round) {
      ++ran[static_cast<size_t>(round)];
      asked.arrive_and_wait();
      if (round % 3 == 0) throw std::runtime_error("broken");
      return round % 3 == 1;
    });
    for (int round = 0; round < kRounds; ++round) {
      try {
        call(round);
      } catch (const std::runtime_error&) {
        EXPECT_EQ(round % 3, 0);
      }
      over.arrive_and_wait();
    }
  });

  for (const std::atomic<int>& of_round : ran)
    EXPECT_EQ(of_round.load(), kSlots);
  ExpectThatNothingIsInProgress();
  EXPECT_EQ(CountersOf("slots").passed, uint64_t{kSlots} * kRounds);
  EXPECT_EQ(CountersOf("slots").failed_after, uint64_t{kSlots} * (kRounds - kRounds / 3));
  EXPECT_FALSE(Enter()) << "as many as ran are all that was had of the rate";
}

}  // namespace
}  // namespace flowguard
