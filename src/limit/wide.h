// SPDX-License-Identifier: Apache-2.0
//
// Integer arithmetic that cannot overflow, for the making of specs and for
// products of counts and nanoseconds.
#pragma once

#include <cstdint>
#include <limits>

#include "flowguard/time.h"

namespace flowguard::limit {

__extension__ typedef unsigned __int128 Uint128;
__extension__ typedef __int128 Int128;

[[nodiscard]] constexpr int64_t Nanos(Instant instant) noexcept {
  return instant.time_since_epoch().count();
}

[[nodiscard]] constexpr int64_t Saturate(Int128 value) noexcept {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return value > kMax ? kMax : static_cast<int64_t>(value);
}

// floor(a * b / c).  Requires: a, b >= 0, c > 0, the quotient fits.
// Cost: one 64-bit division where the product fits, else a 128-bit one.
[[nodiscard]] constexpr int64_t MulDivFloor(int64_t a, int64_t b, int64_t c) noexcept {
  const Uint128 product = static_cast<Uint128>(a) * static_cast<Uint128>(b);
  if (product <= std::numeric_limits<uint64_t>::max()) {
    return static_cast<int64_t>(static_cast<uint64_t>(product) / static_cast<uint64_t>(c));
  }
  return static_cast<int64_t>(product / static_cast<Uint128>(c));
}

// ceil(a * b / c).  Requires: as MulDivFloor, and a * b + c < 2^127.
[[nodiscard]] constexpr int64_t MulDivCeil(int64_t a, int64_t b, int64_t c) noexcept {
  const Uint128 product =
      static_cast<Uint128>(a) * static_cast<Uint128>(b) + static_cast<Uint128>(c - 1);
  if (product <= std::numeric_limits<uint64_t>::max()) {
    return static_cast<int64_t>(static_cast<uint64_t>(product) / static_cast<uint64_t>(c));
  }
  return static_cast<int64_t>(product / static_cast<Uint128>(c));
}

}  // namespace flowguard::limit
