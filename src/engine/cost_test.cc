// SPDX-License-Identifier: Apache-2.0
//
// Costs that are known only when a call ends: reserved, then settled.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/matchers.h"
#include "testing/rules.h"

namespace flowguard::engine {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::FakeRequest;
using testing::IsRefusedBy;
using testing::LimitRule;

class CostTest : public testing::EngineFixture {
 protected:
  static Rule Tokens() {
    Rule rule = LimitRule("tokens", 10'000, minutes(1));
    rule.cost = {.reserve = 2'000, .settle = "", .max_debt = 5'000};
    return rule;
  }
};

TEST_F(CostTest, UnusedUnitsAreGivenBack) {
  Build({Tokens()});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));
  EXPECT_EQ(attempt.decision().remaining, 8'000);

  Settle(attempt, Outcome::kOk, 500);

  EXPECT_EQ(Peek().remaining, 9'500);
}

TEST_F(CostTest, UnitsAboveTheReservedOnesAreCharged) {
  Build({Tokens()});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  Settle(attempt, Outcome::kOk, 3'000);

  EXPECT_EQ(Peek().remaining, 7'000);
}

TEST_F(CostTest, RulesSettleByTheHeadersThatTheyName) {
  Rule tokens = Tokens();
  tokens.cost.settle = "header:X-Usage-Tokens";
  Rule bytes = LimitRule("bytes", 10'000, minutes(1));
  bytes.cost = {.reserve = 100, .settle = "header:x-bytes", .max_debt = 0};
  Build({tokens, bytes, LimitRule("calls", 10'000, minutes(1))});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));
  ASSERT_EQ(attempt.hold_count(), 3u);
  EXPECT_EQ(attempt.settle_header(0), "x-usage-tokens");
  EXPECT_EQ(attempt.settle_header(1), "x-bytes");
  EXPECT_EQ(attempt.settle_header(2), "");

  attempt.set_actual_cost(0, 0);
  attempt.set_actual_cost(1, 700);
  Settle(attempt);

  EXPECT_EQ(CountersOf("calls").passed, 1u);
  const auto explained = engine_->Explain(FakeRequest("r"), now_);
  ASSERT_EQ(explained.size(), 3u);
  EXPECT_EQ(explained[0].decision.remaining, 10'000);
  EXPECT_EQ(explained[1].decision.remaining, 9'300);
  EXPECT_EQ(explained[2].decision.remaining, 9'999);
}

TEST_F(CostTest, DebtIsBoundedAndPaidOffByLaterRequests) {
  Build({Tokens()});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  Settle(attempt, Outcome::kOk, 1'000'000);

  const Decision decision = Check();
  EXPECT_THAT(decision, IsRefusedBy("tokens", Reason::kLimit));
  EXPECT_EQ(decision.retry_after, seconds(42)) << "5,000 of debt and 2,000, at 6 ms";
}

TEST_F(CostTest, WithoutAnActualCostTheReservedUnitsStaySpent) {
  Build({Tokens()});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  Settle(attempt, Outcome::kCancelled);

  EXPECT_EQ(Peek().remaining, 8'000);
}

TEST_F(CostTest, ARuleThatCountsRequestsIsNotSettledInAnotherRulesUnits) {
  Rule requests = LimitRule("requests", 10, minutes(1));
  Build({requests, Tokens()});
  Attempt attempt;
  Enter(attempt, FakeRequest("r"));

  Settle(attempt, Outcome::kOk, 0);

  EXPECT_EQ(Peek().remaining, 9);
}

// What a caller sees while others are in flight is what is left after theirs: no two
// see the same budget.
TEST_F(CostTest, CallsInFlightNeverReserveMoreThanThereIs) {
  Rule rule = Tokens();
  rule.rate.window = std::chrono::hours(24 * 300);  // nothing drains meanwhile
  rule.cost.max_debt = 0;
  Build({rule});
  std::atomic<int64_t> in_flight{0};
  std::atomic<int64_t> most{0};
  std::atomic<int> entered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) {
        Attempt attempt;
        Enter(attempt, FakeRequest("r"));
        if (!attempt.entered()) continue;
        const int64_t reserved = in_flight.fetch_add(2'000) + 2'000;
        int64_t seen = most.load();
        while (reserved > seen && !most.compare_exchange_weak(seen, reserved)) {
        }
        entered.fetch_add(1);
        in_flight.fetch_sub(2'000);
        Settle(attempt, Outcome::kOk, 1);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();

  EXPECT_LE(most.load(), 10'000);
  EXPECT_GT(entered.load(), 5);
  EXPECT_EQ(Peek().remaining, 10'000 - entered.load());
}

}  // namespace
}  // namespace flowguard::engine
