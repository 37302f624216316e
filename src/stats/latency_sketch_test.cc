// SPDX-License-Identifier: Apache-2.0
#include "stats/latency_sketch.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace flowguard::stats {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kLeast = int64_t{1} << kLatencyLowBits;
constexpr int64_t kMost = int64_t{1} << kLatencyHighBits;

TEST(LatencySketchTest, AnEmptySketchHasNoQuantile) {
  EXPECT_EQ(LatencySketch().Quantile(0.5), std::nullopt);
}

TEST(LatencySketchTest, TheStatedErrorIsBelowThreePercent) {
  EXPECT_LT(kLatencyError, 0.03);
}

TEST(LatencySketchTest, EveryDurationIsToldWithinTheStatedError) {
  // All ends of cells, and what is beside them.
  for (double at = kLeast; at < kMost; at *= 1.0007) {
    for (const int64_t ns : {static_cast<int64_t>(at) - 1, static_cast<int64_t>(at)}) {
      if (ns < kLeast) continue;
      const double told = static_cast<double>(LatencyOfCell(LatencyCellOf(Duration(ns))).count());
      ASSERT_LE(std::abs(told - static_cast<double>(ns)),
                kLatencyError * static_cast<double>(ns) + 0.5)
          << ns;
    }
  }
}

TEST(LatencySketchTest, CellsAreInOrder) {
  size_t last = 0;
  for (int64_t ns = 0; ns < 2 * kMost; ns += 1 + ns / 5'000) {
    const size_t cell = LatencyCellOf(Duration(ns));
    ASSERT_GE(cell, last);
    ASSERT_LE(cell, last + 1) << "no cell is left out";
    last = cell;
  }
  EXPECT_EQ(last, kLatencyCells - 1);
}

TEST(LatencySketchTest, WhatIsOutsideCountsAsTheNearest) {
  LatencySketch sketch;
  sketch.Add(-5s);
  sketch.Add(0ns);
  sketch.Add(Duration::max());
  EXPECT_EQ(sketch.Count(), 3u);
  EXPECT_EQ(sketch.Quantile(0), Duration(kLeast));
  EXPECT_EQ(sketch.Quantile(1), Duration(kMost));
}

int64_t RightQuantile(std::vector<int64_t> values, double q) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(q * static_cast<double>(values.size()));
  return values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

TEST(LatencySketchTest, QuantilesOfRandomDurationsAreWithinTheStatedError) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> some(10.0 + static_cast<double>(seed % 9), 0.3);
    std::exponential_distribution<double> more(1e-7);
    LatencySketch sketch;
    LatencySketch halves[2];
    std::vector<int64_t> values;
    for (size_t i = 0; i < 1 + seed * 97; ++i) {
      const double ns = i % 3 == 0 ? more(random) : some(random);
      values.push_back(std::clamp(static_cast<int64_t>(ns), kLeast, kMost - 1));
      sketch.Add(Duration(values.back()));
      halves[i % 2].Add(Duration(values.back()));
    }
    halves[0].Merge(halves[1]);
    EXPECT_EQ(halves[0], sketch) << "merged is as if all were added to one";
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const auto right = static_cast<double>(RightQuantile(values, q));
      const auto told = static_cast<double>(sketch.Quantile(q)->count());
      EXPECT_LE(std::abs(told - right), kLatencyError * right + 0.5) << q;
    }
  }
}

}  // namespace
}  // namespace flowguard::stats
