// SPDX-License-Identifier: Apache-2.0
//
// Requests of which a dimension has several values: each has its own cell, and the request
// takes of all or of none.
#include <string>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "engine/lists_fixture_test.h"
#include "testing/matchers.h"

namespace flowguard::engine {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConcurrencyRule;
using testing::FakeRequest;
using testing::IsAllowed;
using testing::IsRefusedBy;
using testing::LimitRule;
using testing::Waits;

using ListsTest = ListsFixture;

TEST_F(ListsTest, ARefusedValueLeavesTheOthersWhatTheyHadForEveryAlgorithm) {
  for (const Algorithm algorithm : testing::kEveryLocalAlgorithm) {
    SCOPED_TRACE("algorithm " + std::to_string(static_cast<int>(algorithm)));
    Build({BySku(LimitRule("a", 5, minutes(1), algorithm))});
    UseUp("A");
    const int64_t whole = LeftOf("B");

    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(Check(Of({"B", "A", "C"})), IsRefusedBy("a", Reason::kLimit));
      EXPECT_THAT(Check(Of({"A", "B", "C"})), IsRefusedBy("a", Reason::kLimit));
      EXPECT_THAT(Check(Of({"B", "C", "A"})), IsRefusedBy("a", Reason::kLimit));
    }

    EXPECT_EQ(LeftOf("B"), whole);
    EXPECT_EQ(LeftOf("C"), whole);
    EXPECT_THAT(Check(Of({"B", "C"})), IsAllowed());
    EXPECT_LT(LeftOf("B"), whole);
    EXPECT_LT(LeftOf("C"), whole);
  }
}

TEST_F(ListsTest, EachValueGivesItsUnitsAndTheAnswerIsOfTheOneWithTheLeast) {
  Build({BySku(LimitRule("a", 5, minutes(1)))});
  EXPECT_THAT(Check(Of({"B"}, 2)), IsAllowed());

  EXPECT_EQ(Peek(Of({"A", "B", "C"})).remaining, 3) << "a look takes nothing";
  const Decision decision = Check(Of({"A", "B", "C"}, 2));

  EXPECT_THAT(decision, IsAllowed());
  EXPECT_EQ(decision.remaining, 1);
  EXPECT_EQ(LeftOf("A"), 3);
  EXPECT_EQ(LeftOf("B"), 1);
  EXPECT_EQ(LeftOf("C"), 3);
}

TEST_F(ListsTest, TheAnswerToARefusalIsTheLongestWait) {
  Rule rule = BySku(LimitRule("a", 60, minutes(1)));
  rule.overrides = {{"slow", {1, minutes(1)}, std::nullopt}};
  Build({rule});
  UseUp("fast");
  UseUp("slow");

  for (const FakeRequest& request : {Of({"fast", "slow"}), Of({"slow", "fast", "other"})}) {
    const Decision decision = Check(request);
    EXPECT_THAT(decision, IsRefusedBy("a", Reason::kLimit));
    EXPECT_EQ(decision.retry_after, minutes(1));
    FakeRequest look = request;
    look.cost = 1;
    EXPECT_EQ(Peek(look).retry_after, minutes(1));
  }
  EXPECT_EQ(LeftOf("other"), 60);
}

TEST_F(ListsTest, OverridesAreOfEachValue) {
  Rule rule = BySku(LimitRule("a", 5, minutes(1)));
  rule.overrides = {{"rare", {1, minutes(1)}, std::nullopt}};
  Build({rule});

  const Decision decision = Check(Of({"A", "rare"}));

  EXPECT_THAT(decision, IsAllowed());
  EXPECT_EQ(decision.limit, 1);
  EXPECT_THAT(Check(Of({"A", "rare"})), IsRefusedBy("a", Reason::kLimit));
  EXPECT_EQ(LeftOf("A"), 4);
}

TEST_F(ListsTest, AValueThatStandsTwiceTakesTwice) {
  Build({BySku(LimitRule("a", 3, minutes(1)))});

  EXPECT_EQ(Check(Of({"A", "B", "A"})).remaining, 1);

  EXPECT_EQ(LeftOf("B"), 2);
  EXPECT_THAT(Peek(Of({"A", "A"}, 1)), IsRefusedBy("a", Reason::kLimit));
  EXPECT_THAT(Check(Of({"A", "A"})), IsRefusedBy("a", Reason::kLimit));
  EXPECT_EQ(LeftOf("A"), 1);
}

// Told of a wait, its caller would come back for ever.
TEST_F(ListsTest, AValueThatStandsMoreOftenThanItsLimitNeverGoes) {
  Build({BySku(LimitRule("a", 2, minutes(1)))});

  const Decision decision = Check(Of({"A", "A", "A"}));

  EXPECT_THAT(decision, IsRefusedBy("a", Reason::kInvalidCost));
  EXPECT_EQ(decision.retry_after, kNever);
  EXPECT_EQ(LeftOf("A"), 2);
}

TEST_F(ListsTest, NoListCostsMoreThanARequestCan) {
  Rule rule = BySku(LimitRule("a", 10, minutes(1), Algorithm::kSmoothBursty));
  Build({rule});

  EXPECT_THAT(Check(Of({"A", "A", "A"}, base::kCostMax)), IsAllowed()) << "those after it wait";

  EXPECT_FALSE(Check(Of({"A"})).allowed());
}

TEST_F(ListsTest, ValuesThatAreOneByTheDimensionAreOne) {
  RuleSet set;
  Rule rule = LimitRule("a", 3, minutes(1));
  rule.by = {"tenant"};
  set.rules = {rule};
  set.dimensions = {{"tenant", "", MissingPolicy::kShare, "", true, true}};
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());

  const FakeRequest request("r", {{"tenant", "Acme"}, {"tenant", " acme "}});
  EXPECT_EQ(Check(request).remaining, 1);
  EXPECT_THAT(Check(request), IsRefusedBy("a", Reason::kLimit));
}

TEST_F(ListsTest, ListsInTwoPartsOfAKeyAreEveryCombination) {
  Rule rule = LimitRule("a", 5, minutes(1));
  rule.by = {"user", "param:sku"};
  Build({rule});
  const auto left = [&](const char* user, const char* sku) {
    return Peek(FakeRequest("r", {{"user", user}, {"param:sku", sku}})).remaining;
  };

  EXPECT_THAT(Check(FakeRequest("r", {{"param:sku", "A"},
                                      {"user", "ann"},
                                      {"param:sku", "B"},
                                      {"user", "bob"},
                                      {"param:sku", "C"}})),
              IsAllowed());

  for (const char* user : {"ann", "bob"}) {
    for (const char* sku : {"A", "B", "C"})
      EXPECT_EQ(left(user, sku), 4) << user << ' ' << sku;
    EXPECT_EQ(left(user, "D"), 5);
  }
  EXPECT_EQ(left("eve", "A"), 5);
}

TEST_F(ListsTest, ARuleWithoutTheDimensionTakesOnce) {
  Rule user = LimitRule("user", 5, minutes(1));
  user.by = {"user"};
  Build({LimitRule("all", 9, minutes(1)), user, BySku(LimitRule("sku", 7, minutes(1)))});
  const FakeRequest request("r", {{"user", "ann"}, {"param:sku", "A"}, {"param:sku", "B"}});

  EXPECT_THAT(Check(request), IsAllowed());

  const auto explained = engine_->Explain(request, now_);
  ASSERT_EQ(explained.size(), 3u);
  EXPECT_EQ(explained[0].decision.remaining, 8);
  EXPECT_EQ(explained[1].decision.remaining, 4);
  EXPECT_EQ(explained[2].decision.remaining, 6);
  EXPECT_EQ(explained[1].key, "user=ann");
  EXPECT_EQ(explained[2].key, "param:sku=A, param:sku=B");
}

TEST_F(ListsTest, AnotherRulesRefusalGivesAllBack) {
  Build({BySku(LimitRule("a", 5, minutes(1))), LimitRule("wall", 0, minutes(1))});

  EXPECT_THAT(Check(Of({"A", "B", "A"})), IsRefusedBy("wall", Reason::kLimit));

  Load({BySku(LimitRule("a", 5, minutes(1)))});
  EXPECT_EQ(LeftOf("A"), 5);
  EXPECT_EQ(LeftOf("B"), 5);
}

TEST_F(ListsTest, AMissingPartIsWhatItIsWithoutLists) {
  RuleSet set;
  Rule rule = LimitRule("a", 5, minutes(1));
  rule.by = {"param:sku", "tenant"};
  set.rules = {rule};
  Build({});
  for (const MissingPolicy missing : {MissingPolicy::kSkip, MissingPolicy::kRefuse}) {
    set.dimensions = {{"tenant", "", missing, "", false, false}};
    ASSERT_TRUE(engine_->Load(set).ok());
    const Decision decision = Check(Of({"A", "B"}));
    const bool skips = missing == MissingPolicy::kSkip;
    EXPECT_EQ(decision.allowed(), skips);
    EXPECT_EQ(decision.reason, skips ? Reason::kNone : Reason::kMissingDimension);
  }
  EXPECT_EQ(CountersOf("a").refused, 1u);
}

// --- room

TEST_F(ListsTest, AListThatIsTooLongIsRefusedAndTakesNothing) {
  Build({BySku(LimitRule("a", 5, minutes(1)))});

  EXPECT_THAT(Check(OfMany(base::kRulesPerRequestMax)), IsAllowed());
  EXPECT_EQ(LeftOf("s0"), 4);
  for (const size_t count : {base::kRulesPerRequestMax + 1, size_t{1'000}}) {
    const Decision decision = Check(OfMany(count));
    EXPECT_THAT(decision, IsRefusedBy("a", Reason::kOverload));
    EXPECT_EQ(decision.retry_after, kNever);
    EXPECT_THAT(Peek(OfMany(count)), IsRefusedBy("a", Reason::kOverload));
  }
  EXPECT_EQ(LeftOf("s0"), 4);
  EXPECT_EQ(LeftOf("s32"), 5);
}

TEST_F(ListsTest, CombinationsAreCountedWithoutOverflow) {
  Rule rule = LimitRule("a", 5, minutes(1));
  rule.by = {"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"};
  RuleSet set;
  set.rules = {rule};
  FakeRequest::Values values;
  for (const std::string& name : rule.by) {
    set.dimensions.push_back({name, "", MissingPolicy::kShare, "", false, false});
    for (int i = 0; i < 256; ++i)  // 2^64 combinations
      values.emplace_back(name, std::to_string(i));
  }
  Build({});
  ASSERT_TRUE(engine_->Load(set).ok());

  EXPECT_THAT(Check(FakeRequest("r", values)), IsRefusedBy("a", Reason::kOverload));
}

// Whatever a list takes up, there is room for each of the other rules.
TEST_F(ListsTest, ListsOfSeveralRulesShareTheRoom) {
  const Rule wall = LimitRule("wall", 1, minutes(1));
  const Rule slots = BySku(ConcurrencyRule("slots", 5));
  Build({BySku(LimitRule("a", 5, minutes(1))), wall, slots});

  Attempt most;
  Enter(most, OfMany(16));  // two lists of 16 and one are 33: one too many
  EXPECT_THAT(most.decision(), IsRefusedBy("slots", Reason::kOverload));
  Enter(most, OfMany(15));
  EXPECT_THAT(most.decision(), IsAllowed());
  EXPECT_EQ(CountersOf("slots").inflight, 15);
  Settle(most);

  EXPECT_EQ(CountersOf("slots").inflight, 0);
  EXPECT_EQ(LeftOf("s15"), 0) << "of the wall";
  Load({BySku(LimitRule("a", 5, minutes(1)))});
  EXPECT_EQ(LeftOf("s14"), 4);
  EXPECT_EQ(LeftOf("s15"), 5);
}

// --- calls in progress

TEST_F(ListsTest, CallsEnterAndLeaveEachValue) {
  Build({BySku(ConcurrencyRule("slots", 2))});
  for (int round = 0; round < 3; ++round) {
    Attempt both;
    Attempt one;
    Attempt refused;
    Enter(both, Of({"A", "B"}));
    Enter(one, Of({"A"}));
    EXPECT_TRUE(both.entered());
    EXPECT_TRUE(one.entered());
    EXPECT_EQ(CountersOf("slots").inflight, 3);

    Enter(refused, Of({"C", "A", "B"}));
    EXPECT_THAT(refused.decision(), IsRefusedBy("slots", Reason::kConcurrency));
    EXPECT_EQ(CountersOf("slots").inflight, 3);
    EXPECT_EQ(LeftOf("A"), 0);
    EXPECT_EQ(LeftOf("B"), 1);
    EXPECT_EQ(LeftOf("C"), 2);
    EXPECT_THAT(Check(Of({"B", "B"})), IsRefusedBy("slots", Reason::kConcurrency))
        << "a check looks at both together";

    Settle(both);
    EXPECT_EQ(LeftOf("A"), 1);
    EXPECT_EQ(LeftOf("B"), 2);
    Settle(one);
    EXPECT_EQ(CountersOf("slots").inflight, 0);
  }
}

TEST_F(ListsTest, AValueTwiceIsInProgressTwice) {
  Build({BySku(ConcurrencyRule("slots", 3))});
  Attempt twice;
  Enter(twice, Of({"A", "A"}));
  EXPECT_EQ(LeftOf("A"), 1);

  Settle(twice);

  EXPECT_EQ(LeftOf("A"), 3);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

// --- waits

TEST_F(ListsTest, ARequestWaitsForTheLastOfItsValues) {
  Rule queue = BySku(LimitRule("queue", 1, seconds(1), Algorithm::kLeakyBucket));
  queue.wait = seconds(5);
  Build({queue, BySku(ConcurrencyRule("slots", 1))});
  EXPECT_THAT(Check(Of({"A"})), IsAllowed());
  EXPECT_THAT(Check(Of({"A"})), Waits(seconds(1)));
  EXPECT_THAT(Check(Of({"B"})), IsAllowed());

  Attempt attempt;
  Enter(attempt, Of({"A", "B", "C"}));
  EXPECT_THAT(attempt.decision(), Waits(seconds(2)));
  EXPECT_EQ(CountersOf("slots").inflight, 0) << "not while it waits";
  EXPECT_EQ(CountersOf("queue").waited, 2u);
  now_ += seconds(2);
  engine_->Continue(attempt, now_);

  EXPECT_THAT(attempt.decision(), IsAllowed());
  EXPECT_EQ(CountersOf("slots").inflight, 3);
  EXPECT_EQ(CountersOf("queue").passed, 4u);
  Settle(attempt);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

TEST_F(ListsTest, ACancelledWaitGivesEveryPlaceBack) {
  Rule queue = BySku(LimitRule("queue", 1, seconds(1), Algorithm::kLeakyBucket));
  queue.wait = seconds(5);
  Build({queue});
  EXPECT_THAT(Check(Of({"A", "B"})), IsAllowed());
  Attempt attempt;
  Enter(attempt, Of({"A", "B"}));
  ASSERT_TRUE(attempt.waiting());

  engine_->Cancel(attempt, now_);

  EXPECT_THAT(Check(Of({"A"})), Waits(seconds(1)));
  EXPECT_THAT(Check(Of({"B"})), Waits(seconds(1)));
}

TEST_F(ListsTest, RefusedWhenTheWaitEndsItHoldsNothing) {
  Rule queue = LimitRule("queue", 1, seconds(1), Algorithm::kLeakyBucket);
  queue.wait = seconds(5);
  Build({queue, BySku(ConcurrencyRule("slots", 1))});
  Spend();
  Attempt waiting;
  Enter(waiting, Of({"A", "B", "C"}));
  ASSERT_TRUE(waiting.waiting());
  now_ += seconds(1);
  Attempt holder;
  FakeRequest patient = Of({"B"});
  Enter(holder, patient);
  ASSERT_TRUE(holder.waiting());
  engine_->Continue(holder, now_);
  ASSERT_TRUE(holder.entered());

  engine_->Continue(waiting, now_);

  EXPECT_THAT(waiting.decision(), IsRefusedBy("slots", Reason::kConcurrency));
  EXPECT_EQ(CountersOf("slots").inflight, 1);
  Settle(holder);
  EXPECT_EQ(CountersOf("slots").inflight, 0);
}

// --- costs

TEST_F(ListsTest, TheActualCostIsOfEachValue) {
  Rule rule = BySku(LimitRule("tokens", 100, minutes(1)));
  rule.cost.reserve = 20;
  rule.cost.max_debt = 1'000;
  Build({rule});
  Attempt attempt;
  Enter(attempt, Of({"A", "B", "B"}));
  EXPECT_EQ(LeftOf("A"), 80);
  EXPECT_EQ(LeftOf("B"), 60);
  Settle(attempt, Outcome::kOk, 5);
  EXPECT_EQ(LeftOf("A"), 95);
  EXPECT_EQ(LeftOf("B"), 90);

  Enter(attempt, Of({"A", "B", "B"}));
  Settle(attempt, Outcome::kOk, 30);
  EXPECT_EQ(LeftOf("A"), 65);
  EXPECT_EQ(LeftOf("B"), 30);
}

}  // namespace
}  // namespace flowguard::engine
