// SPDX-License-Identifier: Apache-2.0
//
// Some thousand runs of the simulation.  A seed that breaks a bound is told.
#include <gtest/gtest.h>

#include "quota/simulation_run_test.h"

namespace flowguard::quota {
namespace {

// Fewer runs where each takes ten times as long.
#if defined(__SANITIZE_ADDRESS__)
#define FG_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FG_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(FG_ADDRESS_SANITIZER)
constexpr uint64_t kSeeds = 100;
#else
constexpr uint64_t kSeeds = 1'000;
#endif

TEST(SimulationTest, NoBoundIsBrokenInAnyRun) {
  SimulationCounts counts;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::string broken = Simulate(seed, counts);
    ASSERT_EQ(broken, "");
  }
  // Each of these happened, many times.
  EXPECT_GT(counts.requests, 50 * kSeeds);
  for (const uint64_t happened :
       {counts.admitted_by_store, counts.admitted_by_share, counts.refused, counts.unknown,
        counts.leased, counts.denied, counts.prefiltered, counts.coalesced, counts.together,
        counts.given_back, counts.crashes, counts.fallbacks}) {
    EXPECT_GT(happened, kSeeds / 4);
  }
}

TEST(SimulationTest, OneSeedIsOneRun) {
  SimulationCounts first;
  SimulationCounts second;
  Simulate(17, first);
  Simulate(17, second);
  EXPECT_EQ(first.requests, second.requests);
  EXPECT_EQ(first.admitted_by_store, second.admitted_by_store);
  EXPECT_EQ(first.unknown, second.unknown);
}

}  // namespace
}  // namespace flowguard::quota
