// SPDX-License-Identifier: Apache-2.0
//
// Takes from several buckets in one call are decided as each by itself would be.
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "quota/cells_fixture_test.h"

namespace flowguard::quota {
namespace {

class JoinedTakesTest : public CellsTest {
 protected:
  static CellCall TakeOf(std::string_view key, const CellShape& shape, int64_t cost = 1,
                         int32_t count = 1) {
    CellCall call;
    call.key = key;
    call.shape = &shape;
    call.cost = cost;
    call.count = count;
    return call;
  }
  static CellShape BucketOf(int64_t limit, int64_t window_us) {
    CellShape shape{.algorithm = Algorithm::kTokenBucket, .config = {}};
    shape.config.rate = {.limit = limit, .window = Duration(window_us * 1000)};
    return shape;
  }
  // As from a rule whose numbers need the long form.
  static CellShape FineBucket() { return BucketOf(3'000, 1'000'000); }
};

TEST_F(JoinedTakesTest, DecidesAsEachByItself) {
  constexpr unsigned kSeed = 71;
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  const auto below = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  const std::vector<std::string> joined_keys{"a", "b", "c", "d", "e"};
  const std::vector<std::string> single_keys{"a1", "b1", "c1", "d1", "e1"};
  int granted = 0;
  int refused = 0;
  for (int timeline = 0; timeline < 10 && !HasFailure(); ++timeline) {
    commander.connection.Ask({"FLUSHALL"});
    std::vector<CellShape> shapes;
    for (size_t i = 0; i < joined_keys.size(); ++i) {
      const int64_t limit = 1 + below(20);
      shapes.push_back(BucketOf(limit, limit * (1 + below(5'000))));
      CellShape& shape = shapes.back();
      if (below(3) == 0) shape.algorithm = Algorithm::kLeakyBucket;
      if (below(2) == 0) shape.config.wait = Duration(below(9'000) * 1000);
      if (below(2) == 0) shape.config.max_debt = below(20);
    }
    for (int step = 0; step < 60 && !HasFailure(); ++step) {
      *commander.now_us += below(9'000);
      // A clock that is set back makes states impossible, which is mended.
      if (below(20) == 0) *commander.now_us -= 40'000'000;
      std::vector<CellCall> calls;
      std::vector<CellReply> expected;
      for (size_t i = 0; i < joined_keys.size(); ++i) {
        calls.push_back(
            TakeOf(joined_keys[i], shapes[i], 1 + below(3), static_cast<int32_t>(1 + below(3))));
        CellCall alone = calls.back();
        alone.key = single_keys[i];
        expected.push_back(Ask(alone));
      }
      const int scripts = commander.scripts_run;
      const std::vector<CellReply> replies = AskAll(calls);
      EXPECT_EQ(commander.scripts_run, scripts + 1);
      ASSERT_EQ(replies.size(), expected.size());
      for (size_t i = 0; i < replies.size(); ++i) {
        const std::string where = "timeline " + std::to_string(timeline) + " step " +
                                  std::to_string(step) + " key " + joined_keys[i];
        EXPECT_EQ(replies[i].status, CellReply::Status::kDone) << where;
        EXPECT_EQ(replies[i].granted, expected[i].granted) << where;
        EXPECT_EQ(replies[i].mark, expected[i].mark) << where;
        EXPECT_EQ(replies[i].now_us, expected[i].now_us) << where;
        EXPECT_EQ(replies[i].numbers.allowed, expected[i].numbers.allowed) << where;
        EXPECT_EQ(replies[i].numbers.remaining, expected[i].numbers.remaining) << where;
        EXPECT_EQ(replies[i].numbers.retry_after, expected[i].numbers.retry_after) << where;
        EXPECT_EQ(replies[i].numbers.wait, expected[i].numbers.wait) << where;
        (replies[i].granted == calls[i].count ? granted : refused) += 1;
      }
    }
  }
  EXPECT_GT(granted, 500);
  EXPECT_GT(refused, 500);
}

TEST_F(JoinedTakesTest, ARefusalWritesNothingAndATakeOutlivesItsState) {
  const CellShape shape = BucketOf(2, 2'000'000);
  EXPECT_EQ(AskAll(std::vector{TakeOf("a", shape, 1, 3), TakeOf("b", shape)})[0].granted, 2);
  EXPECT_GE(TtlMs("a"), 2'000 + 4'000);
  EXPECT_LE(TtlMs("a"), 2'000 + 5'001);
  const std::string before = Dump("a");
  EXPECT_EQ(AskAll(std::vector{TakeOf("a", shape), TakeOf("b", shape)})[0].granted, 0);
  EXPECT_EQ(Dump("a"), before);
}

TEST_F(JoinedTakesTest, AKeyThatHoldsSomethingElseFailsAlone) {
  const CellShape shape = BucketOf(9, 9'000'000);
  commander.connection.Ask({"RPUSH", "list", "x"});
  commander.connection.Ask({"SET", "text", "not a number"});
  const std::vector<CellReply> replies = AskAll(std::vector{
      TakeOf("a", shape), TakeOf("list", shape), TakeOf("text", shape), TakeOf("b", shape)});
  EXPECT_EQ(replies[0].granted, 1);
  EXPECT_EQ(replies[1].status, CellReply::Status::kFailed);
  EXPECT_EQ(replies[2].granted, 1) << "a text of another form is no state";
  EXPECT_EQ(replies[3].granted, 1);
  EXPECT_EQ(commander.connection.AskText({"LPOP", "list"}), "x");
  for (const char* const text : {"not a number", "nan", "-7", ""}) {
    commander.connection.Ask({"SET", "text", text});
    EXPECT_EQ(Take(shape, 1, 1, "text").granted, 1) << text;
    EXPECT_GT(TtlMs("text"), 0) << text;
  }
}

TEST_F(JoinedTakesTest, ACellThatIsAskedTwiceIsCountedTwice) {
  const CellShape shape = BucketOf(4, 4'000'000);
  const std::vector<CellReply> replies = AskAll(std::vector{
      TakeOf("a", shape, 3), TakeOf("b", shape), TakeOf("a", shape), TakeOf("a", shape)});
  EXPECT_EQ(replies[0].granted, 1);
  EXPECT_EQ(replies[2].granted, 1);
  EXPECT_EQ(replies[3].granted, 0);
}

TEST_F(JoinedTakesTest, AStateOfAFinerRuleIsRoundedUp) {
  const CellShape fine = FineBucket();
  const CellShape coarse = BucketOf(1'000, 1'000'000);
  EXPECT_FALSE(cells.TakesJoin("a", fine));
  EXPECT_TRUE(cells.TakesJoin("a", coarse));
  for (const char* const key : {"a", "b", "c"})
    ASSERT_EQ(Take(fine, 1, 1, key).granted, 1);
  // 333.333 us of the first take, and 1 000 us.
  EXPECT_EQ(Take(coarse, 1, 1, "a").numbers.reset_after, std::chrono::microseconds(1'334));
  EXPECT_EQ(AskAll(std::vector{TakeOf("b", coarse), TakeOf("c", coarse)})[1].numbers.reset_after,
            std::chrono::microseconds(1'334));
}

}  // namespace
}  // namespace flowguard::quota
