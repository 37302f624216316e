// SPDX-License-Identifier: Apache-2.0
//
// Cells whose takes are asked in company: one flight for many of them, and each is told
// what is its own.
#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "quota/store_fixture_test.h"

namespace flowguard::quota {
namespace {

using testing::SharedRule;

class SharedStoreJoinedTest : public StoreFixture {
 protected:
  void SetUp() override {
    server_.set_joins(true);
    StoreFixture::SetUp();
  }
  static TestRule Named(const std::string& name, int64_t limit = 5) {
    return TestRule(SharedRule(name, limit, minutes(1)));
  }
  const TestRule a_ = Named("a");
  const TestRule b_ = Named("b");
  const TestRule c_ = Named("c");
};

TEST_F(SharedStoreJoinedTest, TakesOfManyCellsAreOneFlight) {
  const TestRule two = Named("two", 2);
  std::vector<uint64_t> tickets;
  for (const TestRule* const rule : {&two, &b_, &two, &c_, &two})
    tickets.push_back(Ask({rule->Take()}));
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 1u);
  ASSERT_EQ(server_.asked()[0].calls.size(), 3u);
  EXPECT_EQ(server_.asked()[0].calls[0].count, 3);
  Run();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(OutcomeOf(tickets[i]).status, Status::kTaken) << i;
  EXPECT_EQ(OutcomeOf(tickets[4]).status, Status::kRefused);
  EXPECT_EQ(OutcomeOf(tickets[1]).numbers.remaining, 4);
  EXPECT_EQ(store_->status().flights, 1u);
  EXPECT_TRUE(store_->quiet());
}

TEST_F(SharedStoreJoinedTest, MoreCellsThanAFlightHoldsGoInTheNext) {
  constexpr size_t kCells = 3 * base::kCellCallsPerFlightMax;
  std::deque<TestRule> rules;
  for (size_t i = 0; i < kCells; ++i) {
    rules.push_back(Named("r" + std::to_string(i), 1));
    Ask({rules.back().Take()});
  }
  loop_.Settle(*store_);
  EXPECT_EQ(server_.asked().size(), 4u);
  Run();
  EXPECT_EQ(store_->status().granted, kCells);
  EXPECT_EQ(store_->status().calls, kCells);
}

TEST_F(SharedStoreJoinedTest, ACellThatWaitsForItsReplyIsNotAskedAgain) {
  const uint64_t first = Ask({a_.Take()});
  Ask({b_.Take()});
  loop_.Settle(*store_);
  const uint64_t second = Ask({a_.Take()});
  Ask({c_.Take()});
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 2u);
  EXPECT_EQ(server_.asked()[1].calls.size(), 1u);
  server_.Answer(loop_.Now(), 1);
  EXPECT_FALSE(Answered(first));
  server_.Answer(loop_.Now());
  EXPECT_TRUE(Answered(first));
  EXPECT_FALSE(Answered(second));
  Run();
  EXPECT_EQ(OutcomeOf(second).numbers.remaining, 3);
}

TEST_F(SharedStoreJoinedTest, ShortOfTimeIsNotSharedWithThoseWhoHaveIt) {
  Ask({a_.Take()}, milliseconds(5));
  Ask({b_.Take()}, milliseconds(20));
  Ask({c_.Take()}, milliseconds(21));
  loop_.Settle(*store_);
  ASSERT_EQ(server_.asked().size(), 2u);
  EXPECT_EQ(server_.asked()[0].deadline, loop_.Now() + milliseconds(5));
  EXPECT_EQ(server_.asked()[1].deadline, loop_.Now() + milliseconds(21));
  Run();
}

TEST_F(SharedStoreJoinedTest, CellsOfDifferentPlacesAreNotMixed) {
  server_.set_spread(true);
  Ask({a_.Take()});
  Ask({b_.Take()});
  loop_.Settle(*store_);
  EXPECT_EQ(server_.asked().size(), 2u);
  Run();
}

TEST_F(SharedStoreJoinedTest, AFlightThatIsLostFailsAllOfIt) {
  const uint64_t a = Ask({a_.Take()});
  const uint64_t b = Ask({b_.Take()});
  loop_.Settle(*store_);
  server_.Lose(loop_.Now());
  EXPECT_EQ(OutcomeOf(a).status, Status::kFailed);
  EXPECT_EQ(OutcomeOf(b).status, Status::kFailed);
  loop_.Settle(*store_);
  EXPECT_TRUE(store_->quiet());
}

}  // namespace
}  // namespace flowguard::quota
