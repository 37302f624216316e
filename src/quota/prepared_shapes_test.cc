// SPDX-License-Identifier: Apache-2.0
#include "quota/prepared_shapes.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/resp_text_test.h"

namespace flowguard::quota {
namespace {

using std::chrono::seconds;
using Words = std::vector<std::string>;

CellShape ShapeFor(int64_t limit) {
  CellShape shape;
  shape.config.rate = {.limit = limit, .window = seconds(1'000)};
  shape.config.burst = 10;
  return shape;
}

TEST(PreparedShapesTest, AShapeIsPreparedOnce) {
  PreparedShapes shapes;
  const CellShape shape = ShapeFor(1'000);
  PreparedShape& first = shapes.Get(shape);
  shapes.Release(first);
  PreparedShape& again = shapes.Get(CellShape(shape));
  EXPECT_EQ(&again, &first);
  EXPECT_EQ(again.shape(), shape);
  EXPECT_EQ(again.script().letters, "tb");
  EXPECT_EQ(again.script().numbers[0], 1'000'000);
  shapes.Release(again);
}

// In each place of the table there is every field that differs: none may be taken for another.
TEST(PreparedShapesTest, ShapesThatDifferInAnythingAreDifferent) {
  PreparedShapes shapes;
  std::vector<CellShape> different(9, ShapeFor(1'000));
  different[1].config.rate.limit = 999;
  different[2].config.rate.window = seconds(999);
  different[3].config.burst = 9;
  different[4].config.buckets = 7;
  different[5].config.wait = seconds(1);
  different[6].config.max_debt = 1;
  different[7].algorithm = Algorithm::kFixedWindow;
  different[8].concurrency = true;
  for (int round = 0; round < 3; ++round) {
    for (const CellShape& shape : different) {
      PreparedShape& prepared = shapes.Get(shape);
      EXPECT_EQ(prepared.shape(), shape);
      EXPECT_EQ(prepared.script().letters, ScriptShapeOf(shape).letters);
      shapes.Release(prepared);
    }
  }
}

// Rules out: a call that waits for its reply and finds the numbers of another shape.
TEST(PreparedShapesTest, AShapeInUseStaysWhenOthersTakeItsPlace) {
  PreparedShapes shapes;
  std::vector<PreparedShape*> in_use;
  const auto count = static_cast<int64_t>(4 * base::kPreparedShapesKept);
  for (int64_t limit = 1; limit <= count; ++limit)
    in_use.push_back(&shapes.Get(ShapeFor(limit)));
  for (int64_t limit = 1; limit <= count; ++limit) {
    PreparedShape& prepared = *in_use[static_cast<size_t>(limit - 1)];
    EXPECT_EQ(prepared.shape(), ShapeFor(limit));
    EXPECT_EQ(WordsOf(prepared.TakeWords(1))[0],
              std::to_string(1'000'000'000 / limit + (1'000'000'000 % limit != 0 ? 1 : 0)))
        << limit;
    shapes.Release(prepared);
  }
}

TEST(PreparedShapesTest, TheWordsOfATakeFollowItsCost) {
  PreparedShapes shapes;
  PreparedShape& prepared = shapes.Get(ShapeFor(1'000));
  EXPECT_EQ(WordsOf(prepared.TakeWords(1)), (Words{"1000000", "10000000", "10000000"}));
  EXPECT_EQ(WordsOf(prepared.JoinedTakeWords(3)), (Words{"3000000", "1", "10000000", "10000000"}));
  EXPECT_EQ(WordsOf(prepared.TakeWords(3)), (Words{"3000000", "10000000", "10000000"}));
  EXPECT_EQ(WordsOf(prepared.JoinedTakeWords(1)), (Words{"1000000", "1", "10000000", "10000000"}));
  shapes.Release(prepared);
}

}  // namespace
}  // namespace flowguard::quota
