// SPDX-License-Identifier: Apache-2.0
//
// What Sentinel decided by a rule, as observed on Sentinel itself, and what FlowGuard
// decides by the same rule, read from its JSON: equal, or both are stated.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/rules_text.h"

#include "testing/engine_fixture.h"

namespace flowguard {
namespace {

using std::chrono::milliseconds;
using testing::FakeRequest;

using Counts = std::vector<int>;

constexpr Duration kTenMs = milliseconds(10);

// The start is a whole minute, as it is in the vectors.
class SentinelRules : public testing::EngineFixture {
 protected:
  // A list of Sentinel's in a file of this name.
  void BringList(std::string_view file, std::string_view json) {
    const auto parsed = ParseRules(json, file);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ASSERT_FALSE(parsed->rules.rules.empty());
    rule_ = parsed->rules.rules.front().name;
    Build({});
    const Result<void> loaded = engine_->Load(parsed->rules);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    start_ = now_;
  }
  // One rule for the resource "r".
  void Bring(std::string_view file, std::string_view members) {
    BringList(file, "[{\"resource\":\"r\"," + std::string(members) + "}]");
  }
  void BringFlow(std::string_view members) { Bring("flow-rules.json", members); }
  void BringDegrade(std::string_view members) { Bring("degrade-rules.json", members); }
  void BringParam(std::string_view members) {
    Bring("param-rules.json", "\"paramIdx\":0," + std::string(members));
  }

  // How many calls pass at each of these ms, asked for one by one until one is refused.
  Counts Greedy(const std::vector<int>& at_ms, const FakeRequest& request = FakeRequest("r")) {
    Counts passed;
    for (const int at : at_ms) {
      now_ = start_ + milliseconds(at);
      int count = 0;
      while (Check(request).allowed())
        ++count;
      passed.push_back(count);
    }
    return passed;
  }

  // The waits of calls in one instant, in ms; -1: refused.
  Counts Waits(int calls, const FakeRequest& request = FakeRequest("r")) {
    Counts waits;
    for (int i = 0; i < calls; ++i) {
      const Decision decision = Check(request);
      waits.push_back(decision.allowed() ? static_cast<int>(decision.wait / milliseconds(1)) : -1);
    }
    return waits;
  }

  // "PB..." of calls with these costs in one instant.
  std::string Batches(const std::vector<int64_t>& costs, FakeRequest request = FakeRequest("r")) {
    std::string verdicts;
    for (const int64_t cost : costs) {
      request.cost = cost;
      verdicts += Check(request).allowed() ? 'P' : 'B';
    }
    return verdicts;
  }

  // Calls that pass in each second when `tries` ask every 10 ms.
  Counts PerSecond(int seconds, int tries) {
    Counts passed;
    for (int second = 0; second < seconds; ++second) {
      int count = 0;
      for (int i = 0; i < 100; ++i, now_ += kTenMs) {
        for (int k = 0; k < tries; ++k)
          count += Check().allowed() ? 1 : 0;
      }
      passed.push_back(count);
    }
    return passed;
  }

  // A call from entry to end.  Returns whether it was let through.
  bool Call(Outcome outcome, Duration took = milliseconds(1)) {
    engine::Attempt attempt;
    Enter(attempt, FakeRequest("r"));
    if (!attempt.entered()) return false;
    now_ += took;
    Settle(attempt, outcome);
    return true;
  }
  bool CallAt(int at_ms, Outcome outcome) {
    now_ = start_ + milliseconds(at_ms);
    return Call(outcome, Duration{});
  }
  [[nodiscard]] bool IsOpen() { return CountersOf(rule_).breakers_open > 0; }

  // Which call opens the breaker, from 1; 0: none.  By letter: ok, error.
  int OpensAtOutcome(std::string_view outcomes) {
    for (size_t i = 0; i < outcomes.size(); ++i) {
      Call(outcomes[i] == 'e' ? Outcome::kError : Outcome::kOk);
      if (IsOpen()) return static_cast<int>(i) + 1;
    }
    return 0;
  }
  int OpensAtTime(const std::vector<int>& took_ms) {
    for (size_t i = 0; i < took_ms.size(); ++i) {
      Call(Outcome::kOk, milliseconds(took_ms[i]));
      if (IsOpen()) return static_cast<int>(i) + 1;
    }
    return 0;
  }

  std::string rule_;
  Instant start_{};
};

template <typename Vector>
std::string SentinelOf(const Vector& vector) {
  return ::testing::PrintToString(vector.sentinel);
}

// --- windows

struct GreedyVector {
  const char* name;
  const char* members;
  std::vector<int> at_ms;
  Counts sentinel;
  Counts flowguard;
};

class FlowVectors : public SentinelRules, public ::testing::WithParamInterface<GreedyVector> {};

TEST_P(FlowVectors, PassInEachInstant) {
  BringFlow(GetParam().members);
  EXPECT_EQ(Greedy(GetParam().at_ms), GetParam().flowguard)
      << "Sentinel: " << SentinelOf(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Windows, FlowVectors,
    ::testing::Values(GreedyVector{"V1",
                                   R"("count":10)",
                                   {0, 499, 500, 999, 1000, 1500, 2000},
                                   {10, 0, 0, 0, 10, 0, 10},
                                   {10, 0, 0, 0, 10, 0, 10}},
                      // The difference: twenty pass between 999 and 1500 in Sentinel.
                      GreedyVector{"V2",
                                   R"("count":10)",
                                   {999, 1000, 1499, 1500, 2000, 2500},
                                   {10, 0, 0, 10, 0, 10},
                                   {10, 0, 0, 0, 10, 0}},
                      GreedyVector{"V3Half", R"("count":0.5)", {0, 1000}, {0, 0}, {0, 0}},
                      GreedyVector{"V3None", R"("count":0)", {0, 1000}, {0, 0}, {0, 0}},
                      GreedyVector{"V3Fraction", R"("count":2.9)", {0}, {2}, {2}},
                      // An unknown behaviour refuses at once.
                      GreedyVector{
                          "V22", R"("count":3,"controlBehavior":9)", {0, 500}, {3, 0}, {3, 0}}),
    [](const auto& one) { return one.param.name; });

TEST_F(SentinelRules, V4ACostOfTheCountPassesAndMoreNever) {
  BringFlow(R"("count":5)");
  EXPECT_EQ(Batches({6, 5}), "BP");
}

TEST_F(SentinelRules, V5BatchesInOneInstant) {
  BringFlow(R"("count":5)");
  EXPECT_EQ(Batches({3, 3, 2, 1}), "PBPB");
}

// --- warm-up

struct WarmUpVector {
  const char* name;
  const char* members;
  int tries;
  Counts sentinel;
  Counts flowguard;
};

class WarmUpVectors : public SentinelRules, public ::testing::WithParamInterface<WarmUpVector> {};

TEST_P(WarmUpVectors, PassInEachSecond) {
  BringFlow(GetParam().members);
  EXPECT_EQ(PerSecond(static_cast<int>(GetParam().flowguard.size()), GetParam().tries),
            GetParam().flowguard)
      << "Sentinel: " << SentinelOf(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    WarmUp, WarmUpVectors,
    ::testing::Values(
        WarmUpVector{"V25",
                     R"("controlBehavior":1,"count":10)",
                     1,
                     {3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7, 10, 10, 10, 10},
                     {3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7, 10, 10, 10, 10}},
        WarmUpVector{"V26",
                     R"("controlBehavior":1,"count":100)",
                     20,
                     {33, 34, 36, 38, 41, 44, 47, 52, 58, 68, 83, 100},
                     {33, 34, 36, 38, 41, 44, 47, 52, 58, 68, 83, 100}},
        WarmUpVector{"V27",
                     R"("controlBehavior":1,"count":20)",
                     1,
                     {6, 6, 7, 7, 8, 8, 9, 10, 11, 12, 15, 19, 20},
                     {6, 6, 7, 7, 8, 8, 9, 10, 11, 12, 15, 19, 20}},
        WarmUpVector{"V28",
                     R"("controlBehavior":1,"count":100,"warmUpPeriodSec":5)",
                     20,
                     {33, 36, 40, 46, 56, 76, 100},
                     {33, 36, 40, 46, 56, 76, 100}},
        // The difference: Sentinel never passes anything.
        WarmUpVector{"V29", R"("controlBehavior":1,"count":1)", 1, {0, 0, 0, 0}, {1, 1, 1, 1}}),
    [](const auto& one) { return one.param.name; });

// --- queues

struct QueueVector {
  const char* name;
  const char* members;
  Counts waits_ms;  // of both; -1: refused
};

class QueueVectors : public SentinelRules, public ::testing::WithParamInterface<QueueVector> {};

TEST_P(QueueVectors, WaitInOneInstant) {
  BringFlow(std::string(R"("controlBehavior":2,)") + GetParam().members);
  EXPECT_EQ(Waits(static_cast<int>(GetParam().waits_ms.size())), GetParam().waits_ms);
}

INSTANTIATE_TEST_SUITE_P(
    Queues, QueueVectors,
    ::testing::Values(QueueVector{"V32",
                                  R"("count":10,"maxQueueingTimeMs":500)",
                                  {0, 100, 200, 300, 400, 500, -1}},
                      QueueVector{"V34", R"("count":5,"maxQueueingTimeMs":300)", {0, 200, -1}},
                      QueueVector{"V35", R"("count":0.5,"maxQueueingTimeMs":500)", {0, -1}},
                      QueueVector{"V37", R"("count":0,"maxQueueingTimeMs":500)", {-1}}),
    [](const auto& one) { return one.param.name; });

TEST_F(SentinelRules, V37NoCostPassesTheQueue) {
  BringFlow(R"("controlBehavior":2,"count":10,"maxQueueingTimeMs":1)");
  EXPECT_EQ(Waits(2), (Counts{0, -1}));
  now_ += milliseconds(100);
  EXPECT_EQ(Waits(1), (Counts{0})) << "the refused call took nothing";
}

// --- breakers

TEST_F(SentinelRules, V38SlowRatioOpensAboveItAndNotAtIt) {
  BringDegrade(R"("count":50,"slowRatioThreshold":0.5,"minRequestAmount":4,"timeWindow":2)");
  EXPECT_EQ(OpensAtTime({60, 60, 10, 10, 60, 60}), 5);
}

TEST_F(SentinelRules, V39SlowRatioOfOneOpens) {
  BringDegrade(R"("count":50,"slowRatioThreshold":1.0,"minRequestAmount":3,"timeWindow":2)");
  EXPECT_EQ(OpensAtTime({60, 60, 60}), 3);
}

TEST_F(SentinelRules, V40SlowRatioOfZeroOpensAtTheFirstSlowCall) {
  BringDegrade(R"("count":50,"slowRatioThreshold":0,"minRequestAmount":1,"timeWindow":2)");
  EXPECT_EQ(OpensAtTime({10, 51}), 2);
}

TEST_F(SentinelRules, V41ACallOfExactlyTheTimeIsNotSlow) {
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

class ErrorVectors : public SentinelRules, public ::testing::WithParamInterface<ErrorVector> {};

TEST_P(ErrorVectors, OpenAtThisCall) {
  BringDegrade(GetParam().members + std::string(R"(,"timeWindow":2)"));
  EXPECT_EQ(OpensAtOutcome(GetParam().outcomes), GetParam().flowguard)
      << "Sentinel: " << SentinelOf(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Errors, ErrorVectors,
    ::testing::Values(
        ErrorVector{"V42", R"("grade":1,"count":0.5,"minRequestAmount":4)", "eoeoee", 5, 5},
        // The difference: Sentinel never opens.
        ErrorVector{"V43", R"("grade":1,"count":1.0,"minRequestAmount":3)", "eeeeee", 0, 3},
        ErrorVector{"V44", R"("grade":1,"count":0,"minRequestAmount":1)", "oe", 2, 2},
        ErrorVector{"V45", R"("grade":2,"count":2,"minRequestAmount":3)", "eee", 3, 3},
        ErrorVector{"V46", R"("grade":2,"count":0,"minRequestAmount":5)", "eeeee", 5, 5}),
    [](const auto& one) { return one.param.name; });

TEST_F(SentinelRules, V47OpensProbesFailsWaitsAgainAndCloses) {
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
TEST_F(SentinelRules, V48ErrorsAroundAnEdgeAddUp) {
  BringDegrade(R"("grade":2,"count":1,"minRequestAmount":1,"timeWindow":2)");
  CallAt(900, Outcome::kError);
  EXPECT_FALSE(IsOpen());
  CallAt(1000, Outcome::kError);
  EXPECT_TRUE(IsOpen());
}

// --- hot parameters

const std::vector<int> kParamTimes = {0, 500, 1000, 1001, 1200, 2002, 2003, 3500, 61'000, 61'001};

FakeRequest WithValue(std::string value) {
  return FakeRequest("r", {{"arg0", std::move(value)}});
}

class ParamVectors : public SentinelRules, public ::testing::WithParamInterface<GreedyVector> {};

TEST_P(ParamVectors, PassInEachInstant) {
  BringParam(GetParam().members);
  EXPECT_EQ(Greedy(GetParam().at_ms, WithValue("A")), GetParam().flowguard)
      << "Sentinel: " << SentinelOf(GetParam());
}

// The difference: Sentinel fills the bucket up in one step at the first call after the
// window, FlowGuard evenly, so that an idle part of a window is not lost.  Over long times
// both admit the count in each window.
INSTANTIATE_TEST_SUITE_P(Params, ParamVectors,
                         ::testing::Values(GreedyVector{"V57",
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
                                                        {2, 1, 1, 0, 0, 2, 0, 2, 2, 0}}),
                         [](const auto& one) { return one.param.name; });

TEST_F(SentinelRules, V61BatchesOfOneValue) {
  BringParam(R"("count":5)");
  EXPECT_EQ(Batches({6, 3, 3, 2}, WithValue("A")), "BPBP");
}

// The difference: after 4,000 other values Sentinel has forgotten the hot one.
TEST_F(SentinelRules, V63OtherValuesDoNotMakeAHotOneFree) {
  BringParam(R"("count":1)");
  EXPECT_EQ(Batches({1, 1}, WithValue("hot")), "PB");
  for (int i = 0; i < 4'000; ++i)
    EXPECT_EQ(Batches({1}, WithValue(std::to_string(i))), "P");
  EXPECT_EQ(Batches({1}, WithValue("hot")), "B");
}

TEST_F(SentinelRules, V64QueueOfOneValue) {
  BringParam(R"("count":5,"controlBehavior":2,"maxQueueingTimeMs":500)");
  EXPECT_EQ(Waits(5, WithValue("A")), (Counts{0, 200, 400, -1, -1}));
}

TEST_F(SentinelRules, V66AQueueWithoutTimePassesOne) {
  BringParam(R"("count":5,"controlBehavior":2)");
  EXPECT_EQ(Waits(40, WithValue("A"))[0], 0);
  EXPECT_EQ(Waits(40, WithValue("A")), Counts(40, -1));
}

TEST_F(SentinelRules, ValuesOfTheirOwnLimitAndNoValueAtAll) {
  BringParam(R"("count":1,"paramFlowItemList":[
      {"object":"vip","count":3,"classType":"java.lang.String"},
      {"object":"7","count":0,"classType":"int"}])");
  EXPECT_EQ(Batches({1, 1, 1, 1}, WithValue("vip")), "PPPB");
  EXPECT_EQ(Batches({1}, WithValue("7")), "B");
  EXPECT_EQ(Batches({1, 1}, WithValue("A")), "PB");
  EXPECT_EQ(Batches({1, 1, 1}), "PPP") << "a call without the argument";
}

// --- origins, relations, chains

FakeRequest From(std::string origin, std::string_view resource = "r") {
  return FakeRequest(resource, {{"origin", std::move(origin)}});
}

TEST_F(SentinelRules, V19ARuleOfAnOriginIsForThatOrigin) {
  BringFlow(R"("count":1,"limitApp":"app1")");
  EXPECT_EQ(Batches({1, 1}, From("app1")), "PB");
  EXPECT_EQ(Batches({1, 1}, From("app2")), "PP");
  EXPECT_EQ(Batches({1, 1}), "PP");
}

TEST_F(SentinelRules, V19OtherIsEachOriginThatNoRuleNames) {
  BringList("flow-rules.json", R"([{"resource":"r","count":9,"limitApp":"app1"},
                                   {"resource":"r","count":1,"limitApp":"other"}])");
  EXPECT_EQ(Batches({1, 1}, From("app1")), "PP");
  EXPECT_EQ(Batches({1, 1}, From("app2")), "PB");
  EXPECT_EQ(Batches({1, 1}, From("app3")), "PB");
  EXPECT_EQ(Batches({1, 1}), "PP");
}

TEST_F(SentinelRules, V20RelateRefusesByTheCallsOfTheOtherResource) {
  BringFlow(R"("count":2,"strategy":1,"refResource":"pay")");
  EXPECT_EQ(Batches({1, 1, 1}), "PPP");
  EXPECT_EQ(Batches({1, 1, 1}, FakeRequest("pay")), "PPP");
  EXPECT_EQ(Batches({1}), "B");
}

TEST_F(SentinelRules, V20ChainCountsTheCallsOfItsContext) {
  BringFlow(R"("count":1,"strategy":2,"refResource":"web")");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("r", {{"context", "web"}})), "PB");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("r", {{"context", "job"}})), "PP");
  EXPECT_EQ(Batches({1, 1}), "PP");
}

TEST_F(SentinelRules, APatternCountsEachResource) {
  BringList("flow-rules.json", R"([{"resource":"order:.*","regex":true,"count":1}])");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("order:a")), "PB");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("order:b")), "PB");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("orders")), "PP");
}

TEST_F(SentinelRules, V50bADefaultBreakerIsForResourcesWithoutOne) {
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

// --- authority

TEST_F(SentinelRules, V56AllowAndDenyLists) {
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
