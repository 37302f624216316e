// SPDX-License-Identifier: Apache-2.0
//
// Lists of values under shared rules: a store is asked for each key.
#include <initializer_list>
#include <string_view>

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
using testing::IsRefusedBy;
using testing::SharedRule;

TakeOutcome Taken(int64_t cost = 1) {
  TakeOutcome outcome;
  outcome.status = TakeOutcome::Status::kTaken;
  outcome.numbers.limit = 9;
  outcome.numbers.remaining = 8;
  outcome.numbers.allowed = true;
  outcome.receipt.cost = cost;
  return outcome;
}

TakeOutcome NotTaken() {
  TakeOutcome outcome;
  outcome.status = TakeOutcome::Status::kRefused;
  outcome.numbers.limit = 9;
  outcome.numbers.retry_after = seconds(3);
  return outcome;
}

class SharedListsTest : public ListsFixture {
 protected:
  Step Begin(Attempt& attempt, const FakeRequest& request, Mode mode = Mode::kEnter) {
    return engine_->Begin(attempt, request, mode, now_);
  }
  void Resume(Attempt& attempt, std::initializer_list<TakeOutcome> outcomes) {
    engine_->Resume(attempt, {outcomes.begin(), outcomes.size()}, now_);
  }
};

TEST_F(SharedListsTest, TheStoreIsAskedForEachKey) {
  Rule rule = BySku(SharedRule("shared", 9, seconds(1)));
  rule.overrides = {{"B", {77, seconds(1)}, std::nullopt}};
  Build({rule});
  Attempt attempt;

  ASSERT_EQ(Begin(attempt, Of({"A", "B", "A"})), Step::kRemote);

  ASSERT_EQ(attempt.remote_takes().size(), 2u);
  EXPECT_NE(attempt.remote_takes()[0].key.find('A'), std::string_view::npos);
  EXPECT_EQ(attempt.remote_takes()[0].cost, 2);
  EXPECT_NE(attempt.remote_takes()[1].key.find('B'), std::string_view::npos);
  EXPECT_EQ(attempt.remote_takes()[1].cost, 1);
  EXPECT_EQ(attempt.remote_takes()[1].config.rate.limit, 77);
  Resume(attempt, {Taken(2), Taken()});
  EXPECT_TRUE(attempt.entered());
  EXPECT_EQ(CountersOf("shared").passed, 1u);
  Settle(attempt);

  Attempt peek;
  ASSERT_EQ(Begin(peek, Of({"A", "A"}, 1), Mode::kPeek), Step::kRemote);
  EXPECT_EQ(peek.remote_takes()[0].cost, 0);
  TakeOutcome one_left = Taken(0);
  one_left.numbers.remaining = 1;
  Resume(peek, {one_left});
  EXPECT_THAT(peek.decision(), IsRefusedBy("shared", Reason::kLimit)) << "it asks for two";
}

TEST_F(SharedListsTest, ARefusedValueGivesTheOthersBack) {
  Build({BySku(SharedRule("shared", 9, seconds(1)))});
  Attempt attempt;
  Begin(attempt, Of({"A", "B", "C"}));

  Resume(attempt, {Taken(), NotTaken(), Taken()});

  EXPECT_THAT(attempt.decision(), IsRefusedBy("shared", Reason::kLimit));
  EXPECT_EQ(attempt.store_dues().size(), 2u);
}

TEST_F(SharedListsTest, AShadowRuleTakesOfAllOrOfNone) {
  Rule rule = BySku(SharedRule("shared", 9, seconds(1)));
  rule.shadow = true;
  Build({rule, BySku(SharedRule("enforced", 9, seconds(1)))});
  Attempt attempt;
  Begin(attempt, Of({"A", "B"}));

  Resume(attempt, {Taken(), NotTaken(), Taken(), Taken()});

  EXPECT_TRUE(attempt.entered());
  ASSERT_EQ(attempt.store_dues().size(), 1u);
  EXPECT_EQ(attempt.store_dues()[0].take, &attempt.remote_takes()[0]);
  EXPECT_EQ(CountersOf("shared").shadow_refused, 1u);
  EXPECT_EQ(CountersOf("shared").passed, 0u);
  Settle(attempt, Outcome::kError);
  EXPECT_EQ(CountersOf("shared").failed_after, 0u);
  EXPECT_EQ(CountersOf("enforced").failed_after, 1u);
}

TEST_F(SharedListsTest, SlotsAreReleasedForEachKey) {
  Rule rule = BySku(ConcurrencyRule("slots", 9));
  rule.scope = Scope::kShared;
  Build({rule});
  Attempt attempt;
  Begin(attempt, Of({"A", "B"}));
  Resume(attempt, {Taken(), Taken()});
  EXPECT_EQ(CountersOf("slots").inflight, 2);

  Settle(attempt);

  EXPECT_EQ(CountersOf("slots").inflight, 0);
  EXPECT_EQ(attempt.store_dues().size(), 2u);
}

// Whatever the policy for a store that does not answer: it was never asked.
TEST_F(SharedListsTest, MoreKeysThanOneRequestMayAskForAreRefused) {
  for (const StoreFailurePolicy policy :
       {StoreFailurePolicy::kOpen, StoreFailurePolicy::kClosed, StoreFailurePolicy::kLocal}) {
    Build({BySku(SharedRule("list", 9, seconds(1), policy)),
           SharedRule("one", 9, seconds(1), policy)},
          /*nodes=*/4);
    Attempt attempt;
    EXPECT_EQ(Begin(attempt, OfMany(base::kRemoteTakesPerRequestMax + 1)), Step::kDone);
    EXPECT_THAT(attempt.decision(), IsRefusedBy("list", Reason::kOverload));
    EXPECT_EQ(Begin(attempt, OfMany(base::kRemoteTakesPerRequestMax)), Step::kDone)
        << "the other rule behind it would not be asked";
    EXPECT_THAT(attempt.decision(), IsRefusedBy("one", Reason::kOverload));
    EXPECT_EQ(Begin(attempt, OfMany(base::kRemoteTakesPerRequestMax - 1)), Step::kRemote);
    EXPECT_EQ(attempt.remote_takes().size(), base::kRemoteTakesPerRequestMax);
    engine_->Cancel(attempt, now_);
  }
}

TEST_F(SharedListsTest, EachKeyHasItsShareWhileTheStoreIsAway) {
  Build({BySku(SharedRule("shared", 8, minutes(1), StoreFailurePolicy::kLocal))}, /*nodes=*/4);
  const auto goes = [&](const FakeRequest& request) {
    Attempt attempt;
    Begin(attempt, request, Mode::kCheck);
    Resume(attempt, {});
    return attempt.decision().allowed();
  };
  EXPECT_TRUE(goes(Of({"A"})));
  EXPECT_TRUE(goes(Of({"A", "B"})));
  EXPECT_FALSE(goes(Of({"B", "A"}))) << "A has had its two";
  EXPECT_TRUE(goes(Of({"B"}))) << "and B kept its second";
  EXPECT_FALSE(goes(Of({"B"})));
}

}  // namespace
}  // namespace flowguard::engine
