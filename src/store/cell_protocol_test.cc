// SPDX-License-Identifier: Apache-2.0
//
// What cell_protocol.h promises, in every interleaving of two or three threads.
#include "store/cell_protocol.h"

#include <vector>

#include <gtest/gtest.h>

#include "store/cell_protocol_search.h"

namespace flowguard::store {
namespace {

// Rules out: two threads that meet a new key keep two cells, and both admit the
// one request of its burst.
TEST(CellProtocolTest, TwoThreadsInsertingOneKeyKeepOneCell) {
  Explore<1>({{kTakeA}, {kTakeA}}, TableOf<1>({}));
  Explore<2>({{kTakeA}, {kTakeA}}, TableOf<2>({}));
}

// A place that frees up behind a thread's back: an earlier one than it claimed.
TEST(CellProtocolTest, InsertingWhileEarlierPlacesFreeUp) {
  const Call forget_b{Kind::kGiveBack, 2, kNow, 0};
  Explore<1>({{kTakeA}, {kTakeA}, {forget_b}}, TableOf<1>({{2, kNow + kUnit}}));
  Explore<1>({{kTakeA}, {kTakeA2, kTakeA2}, {forget_b}}, TableOf<1>({{2, kNow + kUnit}}));
}

// Rules out: a stale cell taken into use again by one thread while another that
// passed it already inserts a second one.
TEST(CellProtocolTest, TakingAStaleCellIntoUseAgainAgainstInserting) {
  for (size_t place = 0; place < 3; ++place) {
    std::vector<Cell> cells(3);
    cells[place] = {1, kNow - 5};
    World world = TableOf<1>(cells);
    world.stash_used = place == 2;
    Explore<1>({{kTakeA}, {kTakeA}, {kTakeB}}, world);
    Explore<1>({{kTakeA2}, {kTakeA2, kGiveBackA}}, world);
  }
}

// Rules out: a debit or give-back that lands in a slot after it changed hands.
TEST(CellProtocolTest, GivingBackNeverTouchesAnotherOwner) {
  const World world = TableOf<1>({{1, kNow + 2}});
  const Call late_b{Kind::kTake, 2, kNow + 2, 1};
  const Call late_c{Kind::kTake, 3, kNow + 2, 1};
  Explore<1>({{kGiveBackA}, {late_c}, {late_b}}, world);
  Explore<1>({{kTakeA2}, {late_c}, {kGiveBackA}}, world);
}

TEST(CellProtocolTest, TakesAndGiveBacksOfOneKeyAddUp) {
  Explore<1>({{kTakeA2, kGiveBackA}, {kTakeA2, kTakeA2}}, TableOf<1>({}));
  Explore<1>({{kTakeA2}, {kGiveBackA}, {kTakeA2}}, TableOf<1>({{1, kNow + kUnit}}));
}

// Rules out: an answer pieced together from the owner of one moment and the word
// of another.
TEST(CellProtocolTest, RefusalsAndPeeksAreTrueAtSomeInstant) {
  const Call late_c{Kind::kTake, 3, kNow + 2, 1};
  const Call exhausted{Kind::kTake, 1, kNow, 1};
  Explore<1>({{kPeekA, kPeekA}, {late_c}, {exhausted}}, TableOf<1>({{1, kNow + 2}}));
  Explore<1>({{exhausted}, {kGiveBackA}, {kPeekA}}, TableOf<1>({{1, kNow + kUnit}}));
}

TEST(CellProtocolTest, TheStashIsSeenByThreadsThatFoundItUnusedBefore) {
  const std::vector<Cell> full = {{2, kNow + 500}, {3, kNow + 500}};
  Explore<1>({{kTakeA}, {kTakeA}, {kTakeA}}, TableOf<1>(full));
  Explore<1>({{kTakeA, kTakeA}, {kTakeA2, kGiveBackA}}, TableOf<1>(full));
}

// The table is full: somebody must go, and still no key has two cells, no claim
// stays behind, and everybody finishes.
TEST(CellProtocolTest, EvictionLeavesOneCellAKey) {
  World world = TableOf<1>({{4, kNow + 500}, {3, kNow + 400}, {2, kNow + 300}});
  world.stash_used = true;
  Explore<1>({{kTakeA}, {kTakeA}}, world, true);
  Explore<1>({{kTakeA2, kGiveBackA}, {kTakeB}}, world, true);
}

// Clocks of two threads that differ: forgetting early is allowed, by that much.
TEST(CellProtocolTest, ThreadsWithDifferentClocksKeepOneCellAKey) {
  const Call ahead{Kind::kTake, 1, kNow + 3, 1};
  const Call behind{Kind::kTake, 1, kNow, 1};
  const Call ahead_b{Kind::kTake, 2, kNow + 3, 1};
  const World world = TableOf<1>({{}, {1, kNow + 2}});
  Explore<1>({{ahead}, {behind}}, world);
  Explore<1>({{ahead_b}, {behind}, {ahead}}, world);
}

}  // namespace
}  // namespace flowguard::store
