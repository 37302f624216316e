// SPDX-License-Identifier: Apache-2.0
//
// What Sentinel decided by a flow rule, as observed on Sentinel itself, and what FlowGuard
// decides by the same rule, read from its JSON, or converted from it with `compat: sentinel`:
// equal, or both are stated.  README.md lists which vector is where.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sentinel_fixture_test.h"

namespace flowguard {
namespace {

using std::chrono::milliseconds;
using testing::FakeRequest;

class FlowRules : public InBothCountings {};

INSTANTIATE_TEST_SUITE_P(Countings, FlowRules, kCountings,
                         [](const auto& one) { return NameOf(one.param); });

// --- windows

class FlowVectors : public VectorTest<GreedyVector> {};

TEST_P(FlowVectors, PassInEachInstant) {
  BringFlow(vector().members);
  EXPECT_EQ(Greedy(vector().at_ms), expected()) << sentinel();
}

INSTANTIATE_TEST_SUITE_P(
    Windows, FlowVectors,
    ::testing::Combine(
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
        kCountings),
    kVectorName);

// Above a thousand another algorithm counts.
TEST_P(FlowRules, V2OfALargeCount) {
  BringFlow(R"("count":3000)");
  EXPECT_EQ(Greedy({999, 1000, 1500, 2100}),
            alike() ? (Counts{3000, 0, 3000, 0}) : (Counts{3000, 0, 0, 3000}));
}

TEST_P(FlowRules, V4ACostOfTheCountPassesAndMoreNever) {
  BringFlow(R"("count":5)");
  EXPECT_EQ(Batches({6, 5}), "BP");
}

TEST_P(FlowRules, V5BatchesInOneInstant) {
  BringFlow(R"("count":5)");
  EXPECT_EQ(Batches({3, 3, 2, 1}), "PBPB");
}

// --- prioritised calls

// A window that is full at one time, and a prioritised call at another; -1: refused.
struct BorrowVector {
  const char* name;
  int filled_at_ms;
  int asked_at_ms;
  Counts sentinel;
  Counts flowguard;
};

class BorrowVectors : public VectorTest<BorrowVector> {};

TEST_P(BorrowVectors, WaitForWhatIsToCome) {
  BringFlow(R"("count":10)");
  EXPECT_EQ(Greedy({vector().filled_at_ms}), Counts{10});
  FakeRequest prioritised("r");
  prioritised.priority = true;
  now_ = start_ + milliseconds(vector().asked_at_ms);
  EXPECT_EQ(Waits(static_cast<int>(vector().flowguard.size()), prioritised), expected())
      << sentinel();
  EXPECT_FALSE(Check().allowed());  // others borrow nothing
}

// FlowGuard's window is a second from each call on, so that the call at 100 counts until 1100.
INSTANTIATE_TEST_SUITE_P(
    Priority, BorrowVectors,
    ::testing::Combine(
        ::testing::Values(BorrowVector{"V11", 0, 0, {-1}, {-1}},
                          BorrowVector{"V12", 0, 700, {300}, {300}},
                          BorrowVector{"V13", 300, 999, {1}, {301}},
                          BorrowVector{"V14", 600, 900, {-1}, {-1}},
                          BorrowVector{"V15",
                                       100,
                                       700,
                                       {300, 300, 300, 300, 300, 300, 300, 300, 300, 300, -1, -1},
                                       {400, 400, 400, 400, 400, 400, 400, 400, 400, 400, -1, -1}}),
        kCountings),
    kVectorName);

TEST_P(FlowRules, V15WhatWasBorrowedIsTakenWhenItComes) {
  BringFlow(R"("count":10)");
  EXPECT_EQ(Greedy({100}), Counts{10});
  now_ = start_ + milliseconds(700);
  FakeRequest prioritised("r");
  prioritised.priority = true;
  Waits(12, prioritised);
  const int until = alike() ? 2000 : 2100;
  EXPECT_EQ(Greedy({1000, 1100, until - 1, until}), (Counts{0, 0, 0, 10}));
}

// --- warm-up

struct WarmUpVector {
  const char* name;
  const char* members;
  int tries;
  Counts sentinel;
  Counts flowguard;
};

class WarmUpVectors : public VectorTest<WarmUpVector> {};

TEST_P(WarmUpVectors, PassInEachSecond) {
  BringFlow(vector().members);
  EXPECT_EQ(PerSecond(static_cast<int>(vector().flowguard.size()), vector().tries), expected())
      << sentinel();
}

INSTANTIATE_TEST_SUITE_P(
    WarmUp, WarmUpVectors,
    ::testing::Combine(
        ::testing::Values(WarmUpVector{"V25",
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
                                       {33, 36, 40, 46, 56, 76, 100}}),
        kCountings),
    kVectorName);

// The difference in both countings: Sentinel never passes anything.
TEST_P(FlowRules, V29ACountBelowTheColdFactorPassesOneASecond) {
  BringFlow(R"("controlBehavior":1,"count":1)");
  EXPECT_EQ(PerSecond(4, 1), (Counts{1, 1, 1, 1}));
}

TEST_P(FlowRules, V31WarmTheQueueSpacesCallsEvenly) {
  BringFlow(R"("controlBehavior":3,"count":10,"maxQueueingTimeMs":1000)");
  for (int i = 0; i < 60; ++i) {
    const Decision decision = Check();
    ASSERT_TRUE(decision.allowed()) << i;
    now_ += decision.wait;
  }
  for (int i = 0; i < 10; ++i) {
    const Decision decision = Check();
    ASSERT_TRUE(decision.allowed()) << i;
    EXPECT_NEAR(static_cast<double>(decision.wait / milliseconds(1)), 100, 10);
    now_ += decision.wait;
  }
}

TEST_P(FlowRules, V31AShortQueueRefusesTheSecondCall) {
  BringFlow(R"("controlBehavior":3,"count":10,"maxQueueingTimeMs":10)");
  EXPECT_EQ(Batches({1, 1}), "PB");
}

// --- queues

struct QueueVector {
  const char* name;
  const char* members;
  Counts waits_ms;  // of both; -1: refused
};

class QueueVectors : public VectorTest<QueueVector> {};

TEST_P(QueueVectors, WaitInOneInstant) {
  BringFlow(std::string(R"("controlBehavior":2,)") + vector().members);
  EXPECT_EQ(Waits(static_cast<int>(vector().waits_ms.size())), vector().waits_ms);
}

INSTANTIATE_TEST_SUITE_P(
    Queues, QueueVectors,
    ::testing::Combine(
        ::testing::Values(QueueVector{"V32",
                                      R"("count":10,"maxQueueingTimeMs":500)",
                                      {0, 100, 200, 300, 400, 500, -1}},
                          QueueVector{"V34", R"("count":5,"maxQueueingTimeMs":300)", {0, 200, -1}},
                          QueueVector{"V35", R"("count":0.5,"maxQueueingTimeMs":500)", {0, -1}},
                          QueueVector{"V37", R"("count":0,"maxQueueingTimeMs":500)", {-1}}),
        kCountings),
    kVectorName);

// No list says so: it is not valid there.
TEST_P(FlowRules, V33AQueueWithoutTimePassesOne) {
  BringFile("rules.yaml", "compat: " + std::string(alike() ? "sentinel" : "none") +
                              "\nrules: [{name: q, on: {resource: r}, limit: 10/s, "
                              "algorithm: leaky_bucket}]\n");
  EXPECT_EQ(Waits(2), (Counts{0, -1}));
}

TEST_P(FlowRules, V36CallsOneAfterTheOtherAllPass) {
  BringFlow(R"("controlBehavior":2,"count":10,"maxQueueingTimeMs":500)");
  for (int i = 0; i < 6; ++i) {
    const Decision decision = Check();
    ASSERT_TRUE(decision.allowed()) << i;
    now_ += decision.wait;
  }
  EXPECT_EQ(now_ - start_, milliseconds(500));
}

TEST_P(FlowRules, V37ARefusedCallTakesNoPlaceInTheQueue) {
  BringFlow(R"("controlBehavior":2,"count":10,"maxQueueingTimeMs":1)");
  EXPECT_EQ(Waits(2), (Counts{0, -1}));
  now_ += milliseconds(100);
  EXPECT_EQ(Waits(1), (Counts{0})) << "the refused call took nothing";
}

// --- origins, relations, chains

FakeRequest From(std::string origin, std::string_view resource = "r") {
  return FakeRequest(resource, {{"origin", std::move(origin)}});
}

TEST_P(FlowRules, V19ARuleOfAnOriginIsForThatOrigin) {
  BringFlow(R"("count":1,"limitApp":"app1")");
  EXPECT_EQ(Batches({1, 1}, From("app1")), "PB");
  EXPECT_EQ(Batches({1, 1}, From("app2")), "PP");
  EXPECT_EQ(Batches({1, 1}), "PP");
}

TEST_P(FlowRules, V19OtherIsEachOriginThatNoRuleNames) {
  BringList("flow-rules.json", R"([{"resource":"r","count":9,"limitApp":"app1"},
                                   {"resource":"r","count":1,"limitApp":"other"}])");
  EXPECT_EQ(Batches({1, 1}, From("app1")), "PP");
  EXPECT_EQ(Batches({1, 1}, From("app2")), "PB");
  EXPECT_EQ(Batches({1, 1}, From("app3")), "PB");
  EXPECT_EQ(Batches({1, 1}), "PP");
}

TEST_P(FlowRules, V20RelateRefusesByTheCallsOfTheOtherResource) {
  BringFlow(R"("count":2,"strategy":1,"refResource":"pay")");
  EXPECT_EQ(Batches({1, 1, 1}), "PPP");
  EXPECT_EQ(Batches({1, 1, 1}, FakeRequest("pay")), "PPP");
  EXPECT_EQ(Batches({1}), "B");
}

TEST_P(FlowRules, V20ChainCountsTheCallsOfItsContext) {
  BringFlow(R"("count":1,"strategy":2,"refResource":"web")");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("r", {{"context", "web"}})), "PB");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("r", {{"context", "job"}})), "PP");
  EXPECT_EQ(Batches({1, 1}), "PP");
}

TEST_P(FlowRules, APatternCountsEachResource) {
  BringList("flow-rules.json", R"([{"resource":"order:.*","regex":true,"count":1}])");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("order:a")), "PB");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("order:b")), "PB");
  EXPECT_EQ(Batches({1, 1}, FakeRequest("orders")), "PP");
}

}  // namespace
}  // namespace flowguard
