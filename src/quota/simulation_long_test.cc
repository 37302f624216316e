// SPDX-License-Identifier: Apache-2.0
//
// More runs of the simulation than anybody waits for.
#include <gtest/gtest.h>

#include "quota/simulation_run_test.h"

namespace flowguard::quota {
namespace {

TEST(SimulationLongTest, NoBoundIsBrokenInAnyRun) {
  SimulationCounts counts;
  for (uint64_t seed = 1'000'000; seed < 1'050'000; ++seed)
    ASSERT_EQ(Simulate(seed, counts), "");
}

}  // namespace
}  // namespace flowguard::quota
