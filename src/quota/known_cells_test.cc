// SPDX-License-Identifier: Apache-2.0
#include "quota/known_cells.h"

#include <deque>
#include <string>

#include <gtest/gtest.h>

#include "quota/store_fixture_test.h"

namespace flowguard::quota {
namespace {

class KnownCellsTest : public ::testing::Test {
 protected:
  // The cell of client `number`, used now.
  KnownCell* Use(size_t number) {
    KnownCell* const cell = Get(number);
    if (cell != nullptr) {
      cells_.Pin(*cell);
      cells_.Unpin(*cell);
    }
    return cell;
  }
  KnownCell* Get(size_t number) {
    return cells_.Get(rule_.TakeAs("12345678" + std::to_string(number)), 0);
  }
  [[nodiscard]] uint64_t forgotten() const { return counters_.Read().cells_forgotten; }

  const TestRule rule_{[] {
    Rule rule;
    rule.name = "r";
    rule.rate = {5, minutes(1)};
    return rule;
  }()};
  testing::ScriptedCellServer server_;
  StoreCounters counters_;
  KnownCells cells_{server_, 7, counters_};
};

TEST_F(KnownCellsTest, TheOneUnusedForLongestMakesRoom) {
  std::deque<KnownCell*> cells;
  for (size_t i = 0; i < base::kStoreCellsMax; ++i)
    cells.push_back(Use(i));
  EXPECT_EQ(Use(0), cells[0]);
  EXPECT_EQ(Use(2), cells[2]);
  EXPECT_EQ(forgotten(), 0u);
  EXPECT_EQ(Use(base::kStoreCellsMax), cells[1]);
  EXPECT_EQ(Use(base::kStoreCellsMax + 1), cells[3]);
  EXPECT_EQ(Use(0), cells[0]);
  EXPECT_EQ(forgotten(), 2u);
  for (size_t i = 4; i < base::kStoreCellsMax; ++i)
    EXPECT_EQ(Use(base::kStoreCellsMax + i), cells[i]);
  EXPECT_EQ(Use(1), cells[2]) << "0 was used after it";
}

TEST_F(KnownCellsTest, WhatIsPinnedStays) {
  std::deque<KnownCell*> cells;
  for (size_t i = 0; i < base::kStoreCellsMax; ++i) {
    cells.push_back(Get(i));
    cells_.Pin(*cells.back());
  }
  EXPECT_EQ(Get(base::kStoreCellsMax), nullptr);
  cells_.Unpin(*cells[77]);
  EXPECT_EQ(Get(base::kStoreCellsMax), cells[77]);
  EXPECT_EQ(Get(76), cells[76]);
}

// Rules out: after a reload a node goes on with the key of the resource that was, and others
// with that of the new one, so that one limit has two cells.
TEST_F(KnownCellsTest, AnotherResourceInTheKeyIsAnotherCell) {
  Rule rule;
  rule.name = "r";
  rule.rate = {5, minutes(1)};
  rule.tag = CellTag::kResource;
  rule.on.resource = "orders";
  const TestRule before(rule);
  rule.on.resource = "payments";
  const TestRule after(rule);
  KnownCell* const orders = cells_.Get(before.Take(), 0);
  KnownCell* const payments = cells_.Get(after.Take(), 0);
  ASSERT_NE(orders, payments);
  EXPECT_TRUE(orders->key().starts_with("rl:{orders}:")) << orders->key();
  EXPECT_TRUE(payments->key().starts_with("rl:{payments}:")) << payments->key();
  EXPECT_EQ(cells_.Get(after.Take(), 0), payments);
}

TEST_F(KnownCellsTest, ACellThatIsForgottenLeavesNothingBehind) {
  KnownCell* const before = Use(0);
  before->denials.Add(1, {.retry_after = seconds(1)}, Instant(), Instant());
  before->denies = true;
  before->last.remaining = 4;
  for (size_t i = 1; i <= base::kStoreCellsMax; ++i)
    Use(i);
  KnownCell* const after = Use(base::kStoreCellsMax);
  ASSERT_EQ(after, before);
  EXPECT_FALSE(after->MayRefuse());
  EXPECT_FALSE(after->Denial(1, Instant()).has_value());
  EXPECT_EQ(after->last.remaining, 0);
}

}  // namespace
}  // namespace flowguard::quota
