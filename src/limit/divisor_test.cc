// SPDX-License-Identifier: Apache-2.0
#include "limit/divisor.h"

#include <cstdint>
#include <random>

#include <gtest/gtest.h>

namespace flowguard::limit {
namespace {

constexpr int64_t kMost = (int64_t{1} << 62) - 1;

TEST(DivisorTest, EqualsDivisionAroundEveryMultipleAndAtTheEnds) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20'000; ++round) {
    const int64_t divisor = static_cast<int64_t>(random() >> (3 + random() % 60)) % kMost + 1;
    const Divisor by(divisor);
    const int64_t multiple = static_cast<int64_t>(random() >> 2) / divisor * divisor;
    for (const int64_t dividend : {int64_t{0}, int64_t{1}, divisor - 1, divisor, multiple,
                                   multiple == 0 ? 0 : multiple - 1, kMost - 1, kMost}) {
      ASSERT_EQ(by.Quotient(dividend), dividend / divisor) << dividend << " / " << divisor;
    }
  }
}

TEST(DivisorTest, DividesByPowersOfTwoAndTheirNeighbours) {
  for (int bit = 0; bit < 62; ++bit) {
    const int64_t power = int64_t{1} << bit;
    for (const int64_t divisor : {power, power - 1, power + 1}) {
      if (divisor < 1 || divisor > kMost) continue;
      EXPECT_EQ(Divisor(divisor).Quotient(kMost), kMost / divisor) << divisor;
      EXPECT_EQ(Divisor(divisor).Quotient(divisor - 1), 0) << divisor;
    }
  }
}

}  // namespace
}  // namespace flowguard::limit
