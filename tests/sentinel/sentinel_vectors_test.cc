// SPDX-License-Identifier: Apache-2.0
//
// What Sentinel decided by a rule, as observed on Sentinel itself, and what FlowGuard
// decides by the same rule, read from its JSON, or converted from it with `compat: sentinel`:
// equal, or both are stated.  README.md lists which vector is where.
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sentinel_fixture_test.h"

namespace flowguard {
namespace {

using std::chrono::seconds;
using testing::FakeRequest;

class SentinelRules : public InBothCountings {};

INSTANTIATE_TEST_SUITE_P(Countings, SentinelRules, kCountings,
                         [](const auto& one) { return NameOf(one.param); });

// --- breakers

TEST_P(SentinelRules, V38SlowRatioOpensAboveItAndNotAtIt) {
  BringDegrade(R"("count":50,"slowRatioThreshold":0.5,"minRequestAmount":4,"timeWindow":2)");
  EXPECT_EQ(OpensAtTime({60, 60, 10, 10, 60, 60}), 5);
}

TEST_P(SentinelRules, V39SlowRatioOfOneOpens) {
  BringDegrade(R"("count":50,"slowRatioThreshold":1.0,"minRequestAmount":3,"timeWindow":2)");
  EXPECT_EQ(OpensAtTime({60, 60, 60}), 3);
}

TEST_P(SentinelRules, V40SlowRatioOfZeroOpensAtTheFirstSlowCall) {
  BringDegrade(R"("count":50,"slowRatioThreshold":0,"minRequestAmount":1,"timeWindow":2)");
  EXPECT_EQ(OpensAtTime({10, 51}), 2);
}

TEST_P(SentinelRules, V41ACallOfExactlyTheTimeIsNotSlow) {
  BringDegrade(R"("count":50,"slowRatioThreshold":0,"minRequestAmount":1,"timeWindow":2)");
  EXPECT_EQ(OpensAtTime({50, 50}), 0);
}

struct ErrorVector {
  const char* name;
  const char* members;
  const char* outcomes;  // ok, error
  int sentinel;          // the call that opens it; 0: none
  int flowguard;
};

class ErrorVectors : public VectorTest<ErrorVector> {};

TEST_P(ErrorVectors, OpenAtThisCall) {
  BringDegrade(vector().members + std::string(R"(,"timeWindow":2)"));
  EXPECT_EQ(OpensAtOutcome(vector().outcomes), expected()) << sentinel();
}

INSTANTIATE_TEST_SUITE_P(
    Errors, ErrorVectors,
    ::testing::Combine(
        ::testing::Values(
            ErrorVector{"V42", R"("grade":1,"count":0.5,"minRequestAmount":4)", "eoeoee", 5, 5},
            // The difference: Sentinel never opens.
            ErrorVector{"V43", R"("grade":1,"count":1.0,"minRequestAmount":3)", "eeeeee", 0, 3},
            ErrorVector{"V44", R"("grade":1,"count":0,"minRequestAmount":1)", "oe", 2, 2},
            ErrorVector{"V45", R"("grade":2,"count":2,"minRequestAmount":3)", "eee", 3, 3},
            ErrorVector{"V46", R"("grade":2,"count":0,"minRequestAmount":5)", "eeeee", 5, 5}),
        kCountings),
    kVectorName);

TEST_P(SentinelRules, V47OpensProbesFailsWaitsAgainAndCloses) {
  BringDegrade(R"("grade":2,"count":0,"minRequestAmount":1,"timeWindow":2)");
  ASSERT_TRUE(CallAt(0, Outcome::kError));
  ASSERT_TRUE(IsOpen());
  EXPECT_FALSE(CallAt(1999, Outcome::kOk));
  EXPECT_TRUE(CallAt(2000, Outcome::kError));
  EXPECT_TRUE(IsOpen());
  EXPECT_FALSE(CallAt(3999, Outcome::kOk));
  EXPECT_TRUE(CallAt(4000, Outcome::kOk));
  EXPECT_FALSE(IsOpen());
}

// The difference: in Sentinel the error at 900 belongs to another interval, and the third
// opens it.
TEST_P(SentinelRules, V48ErrorsAroundAnEdgeAddUp) {
  BringDegrade(R"("grade":2,"count":1,"minRequestAmount":1,"timeWindow":2)");
  CallAt(900, Outcome::kError);
  EXPECT_FALSE(IsOpen());
  CallAt(1000, Outcome::kError);
  EXPECT_EQ(IsOpen(), !alike());
  CallAt(1000, Outcome::kError);
  EXPECT_TRUE(IsOpen());
}

// The difference in both countings: Sentinel has two breakers then.
TEST_P(SentinelRules, V49ARuleThatStandsTwiceIsOneBreaker) {
  constexpr std::string_view kRule =
      R"({"resource":"r","grade":2,"count":0,"minRequestAmount":1,"timeWindow":2})";
  BringList("degrade-rules.json", "[" + std::string(kRule) + "," + std::string(kRule) + "]");
  ASSERT_TRUE(CallAt(0, Outcome::kError));
  uint64_t open = 0;
  for (const engine::RuleCounters& one : engine_->Counters().rules)
    open += one.breakers_open;
  EXPECT_EQ(open, 1u);
}

TEST_P(SentinelRules, V50bADefaultBreakerIsForResourcesWithoutOne) {
  BringList("degrade-rules.json",
            R"([{"resource":"*","grade":2,"count":0,"minRequestAmount":1,"timeWindow":2},
                {"resource":"own","grade":2,"count":9,"minRequestAmount":1,"timeWindow":2}])");
  for (const char* resource : {"r", "s", "own"}) {
    engine::Attempt attempt;
    Enter(attempt, FakeRequest(resource));
    ASSERT_TRUE(attempt.entered()) << resource;
    Settle(attempt, Outcome::kError);
  }
  EXPECT_FALSE(Check(FakeRequest("r")).allowed());
  EXPECT_FALSE(Check(FakeRequest("s")).allowed());
  EXPECT_TRUE(Check(FakeRequest("own")).allowed());
  EXPECT_TRUE(Check(FakeRequest("t")).allowed()) << "a breaker for each";
}

// --- hot parameters

const std::vector<int> kParamTimes = {0, 500, 1000, 1001, 1200, 2002, 2003, 3500, 61'000, 61'001};

FakeRequest WithValue(std::string value) {
  return FakeRequest("r", {{"arg0", std::move(value)}});
}

// The argument is a list.
FakeRequest WithValues(const std::vector<std::string>& values) {
  FakeRequest::Values given;
  for (const std::string& value : values)
    given.emplace_back("arg0", value);
  return FakeRequest("r", std::move(given));
}

class ParamVectors : public VectorTest<GreedyVector> {};

TEST_P(ParamVectors, PassInEachInstant) {
  BringParam(vector().members);
  EXPECT_EQ(Greedy(vector().at_ms, WithValue("A")), expected()) << sentinel();
}

// The difference: Sentinel fills the bucket up in one step at the first call after the
// window, FlowGuard evenly, so that an idle part of a window is not lost.  Over long times
// both admit the count in each window.
INSTANTIATE_TEST_SUITE_P(
    Params, ParamVectors,
    ::testing::Combine(::testing::Values(GreedyVector{"V57",
                                                      R"("count":5)",
                                                      kParamTimes,
                                                      {5, 0, 0, 5, 0, 5, 0, 5, 5, 0},
                                                      {5, 2, 3, 0, 1, 4, 0, 5, 5, 0}},
                                         GreedyVector{"V58",
                                                      R"("count":5,"burstCount":3)",
                                                      kParamTimes,
                                                      {8, 0, 0, 5, 0, 5, 0, 7, 8, 0},
                                                      {8, 2, 3, 0, 1, 4, 0, 7, 8, 0}},
                                         GreedyVector{"V59",
                                                      R"("count":5,"durationInSec":60)",
                                                      kParamTimes,
                                                      {5, 0, 0, 0, 0, 0, 0, 0, 5, 0},
                                                      {5, 0, 0, 0, 0, 0, 0, 0, 5, 0}},
                                         GreedyVector{"V60",
                                                      R"("count":2)",
                                                      kParamTimes,
                                                      {2, 0, 0, 2, 0, 2, 0, 2, 2, 0},
                                                      {2, 1, 1, 0, 0, 2, 0, 2, 2, 0}},
                                         // The pauses of Sentinel's own test.
                                         GreedyVector{
                                             "V65", R"("count":5)", {0, 3000}, {5, 5}, {5, 5}},
                                         GreedyVector{"V65Burst",
                                                      R"("count":5,"burstCount":3)",
                                                      {0, 1002, 2004, 4004, 5006},
                                                      {8, 5, 5, 8, 5},
                                                      {8, 5, 5, 8, 5}},
                                         GreedyVector{"V65Minute",
                                                      R"("count":5,"durationInSec":60)",
                                                      {0, 30'000, 60'000, 71'000},
                                                      {5, 0, 0, 5},
                                                      {5, 2, 3, 0}}),
                       kCountings),
    kVectorName);

TEST_P(SentinelRules, V61BatchesOfOneValue) {
  BringParam(R"("count":5)");
  EXPECT_EQ(Batches({6, 3, 3, 2}, WithValue("A")), "BPBP");
}

// The difference in both countings: Sentinel asks one value after the other, and B's unit
// stays taken: it has 4 left then.
TEST_P(SentinelRules, V62AListTakesAllOrNothing) {
  BringParam(R"("count":5)");
  EXPECT_EQ(Batches({1, 1, 1, 1, 1, 1}, WithValue("A")), "PPPPPB");
  EXPECT_EQ(Batches({1}, WithValues({"B", "A", "C"})), "B");
  EXPECT_EQ(Batches({5, 1}, WithValue("B")), "PB");
  EXPECT_EQ(Batches({5, 1}, WithValue("C")), "PB");
}

TEST_P(SentinelRules, EachElementOfAListIsAValue) {
  BringParam(R"("count":5)");
  EXPECT_EQ(Batches({2}, WithValues({"B", "C"})), "P");
  EXPECT_EQ(Batches({3, 1}, WithValue("B")), "PB");
  EXPECT_EQ(Batches({3, 1}, WithValue("C")), "PB");
}

// The difference in both countings: after 4,000 other values Sentinel has forgotten the hot
// one.
TEST_P(SentinelRules, V63OtherValuesDoNotMakeAHotOneFree) {
  BringParam(R"("count":1)");
  EXPECT_EQ(Batches({1, 1}, WithValue("hot")), "PB");
  for (int i = 0; i < 4'000; ++i)
    EXPECT_EQ(Batches({1}, WithValue(std::to_string(i))), "P");
  EXPECT_EQ(Batches({1}, WithValue("hot")), "B");
}

TEST_P(SentinelRules, V64QueueOfOneValue) {
  BringParam(R"("count":5,"controlBehavior":2,"maxQueueingTimeMs":500)");
  EXPECT_EQ(Waits(5, WithValue("A")), (Counts{0, 200, 400, -1, -1}));
}

TEST_P(SentinelRules, V66AQueueWithoutTimePassesOne) {
  BringParam(R"("count":5,"controlBehavior":2)");
  EXPECT_EQ(Waits(40, WithValue("A"))[0], 0);
  EXPECT_EQ(Waits(40, WithValue("A")), Counts(40, -1));
}

TEST_P(SentinelRules, V69CallsInProgressOfAValueEndAsTheyBegan) {
  BringParam(R"("grade":0,"count":2)");
  std::deque<engine::Attempt> calls;
  const auto enters = [&](const std::vector<std::string>& values) {
    engine::Attempt& call = calls.emplace_back();
    Enter(call, WithValues(values));
    const bool entered = call.entered();
    if (!entered) calls.pop_back();
    return entered;
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(enters({"A"}));
    EXPECT_TRUE(enters({"A", "C"}));
    EXPECT_FALSE(enters({"A"}));
    EXPECT_FALSE(enters({"B", "C", "A"})) << "and leaves B and C as they were";
    EXPECT_TRUE(enters({"B", "C"}));
    EXPECT_TRUE(enters({"B"}));
    EXPECT_FALSE(enters({"D", "C"}));
    EXPECT_EQ(CountersOf(rule_).inflight, 6);
    for (engine::Attempt& call : calls)
      Settle(call);
    EXPECT_EQ(CountersOf(rule_).inflight, 0);
    calls.clear();
  }
}

TEST_P(SentinelRules, ValuesOfTheirOwnLimitAndNoValueAtAll) {
  BringParam(R"("count":1,"paramFlowItemList":[
      {"object":"vip","count":3,"classType":"java.lang.String"},
      {"object":"7","count":0,"classType":"int"}])");
  EXPECT_EQ(Batches({1, 1, 1, 1}, WithValue("vip")), "PPPB");
  EXPECT_EQ(Batches({1}, WithValue("7")), "B");
  EXPECT_EQ(Batches({1, 1}, WithValue("A")), "PB");
  EXPECT_EQ(Batches({1, 1, 1}), "PPP") << "a call without the argument";
}

// --- system

TEST_P(SentinelRules, V52TheStrictestOfSeveralRulesCounts) {
  BringList("system-rules.json", R"([{"highestSystemLoad":3.4},{"highestSystemLoad":1.2},
                                     {"highestSystemLoad":2.3}])");
  std::deque<engine::Attempt> calls;
  for (int i = 0; i < 2; ++i)
    Enter(calls.emplace_back(), FakeRequest("r"));
  now_ += seconds(1);
  for (engine::Attempt& call : calls)
    Settle(call);
  const auto refuses_more = [&] {
    calls.clear();
    bool refused = false;
    for (int i = 0; i < 100 && !refused; ++i) {
      Enter(calls.emplace_back(), FakeRequest("r"));
      refused = !calls.back().entered();
    }
    for (engine::Attempt& call : calls)
      Settle(call);
    return refused;
  };
  engine_->SetSystemReading({.cpu = {}, .load = 1.2});
  EXPECT_FALSE(refuses_more());
  engine_->SetSystemReading({.cpu = {}, .load = 1.3});
  EXPECT_TRUE(refuses_more());
}

TEST_P(SentinelRules, V54ACpuOfZeroRefusesOnceAnythingIsUsed) {
  BringList("system-rules.json", R"([{"highestCpuUsage":0}])");
  EXPECT_TRUE(Check().allowed()) << "nothing was read yet";
  engine_->SetSystemReading({.cpu = 0.01, .load = {}});
  EXPECT_FALSE(Check().allowed());
}

// The difference in both countings: in Sentinel the last rule switches the others off when it
// has no limits.
TEST_P(SentinelRules, V55EachSystemRuleCounts) {
  for (const char* list : {R"([{"qps":10},{}])", R"([{},{"qps":10}])"}) {
    BringList("system-rules.json", list);
    EXPECT_EQ(Greedy({0}), (Counts{10})) << list;
    now_ += seconds(10);
  }
}

// --- authority

TEST_P(SentinelRules, V56AllowAndDenyLists) {
  const auto asks = [this](const char* origin) {
    return Check(FakeRequest("r", {{"origin", origin}})).allowed();
  };
  Bring("authority-rules.json", R"("limitApp":"a,b")");
  EXPECT_TRUE(asks("a"));
  EXPECT_FALSE(asks("c"));
  EXPECT_FALSE(asks("ab"));
  EXPECT_TRUE(Check().allowed()) << "a caller without a name";
  Bring("authority-rules.json", R"("limitApp":"a,b","strategy":1)");
  EXPECT_FALSE(asks("a"));
  EXPECT_TRUE(asks("c"));
}

}  // namespace
}  // namespace flowguard
