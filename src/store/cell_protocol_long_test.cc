// SPDX-License-Identifier: Apache-2.0
//
// The searches of cell_protocol_test.cc that visit up to a million states.
#include <vector>

#include <gtest/gtest.h>

#include "store/cell_protocol.h"
#include "store/cell_protocol_search.h"

namespace flowguard::store {
namespace {

TEST(CellProtocolLongTest, ThreeThreadsInsertingOneKeyKeepOneCell) {
  Explore<1>({{kTakeA}, {kTakeA}, {kTakeA}}, TableOf<1>({}));
}

// Another key claims places of the first under way, so that the inserting threads
// see different free places.
TEST(CellProtocolLongTest, InsertingKeysThatShareTheirPlacesDisturbNoOne) {
  Explore<1>({{kTakeA}, {kTakeA}, {kTakeB}}, TableOf<1>({}));
  Explore<2>({{kTakeA2}, {kTakeA2}, {kTakeC}}, TableOf<2>({{3, kNow - 5}, {2, kNow}}));
}

TEST(CellProtocolLongTest, ThreeThreadsInAFullTableKeepOneCellAKey) {
  World world = TableOf<1>({{4, kNow + 500}, {3, kNow + 400}, {2, kNow + 300}});
  world.stash_used = true;
  Explore<1>({{kTakeA}, {kTakeA}, {kTakeB}}, world, true);
}

}  // namespace
}  // namespace flowguard::store
