// SPDX-License-Identifier: Apache-2.0
//
// Division by a number that is known when a spec is made, as one multiplication:
// a 64-bit division costs more than the rest of a decision.
#pragma once

#include <bit>
#include <cstdint>

#include "base/check.h"
#include "limit/wide.h"

namespace flowguard::limit {

// Exact for every dividend in [0, 2^62).
//
// With l = ceil(log2 d) and m = floor(2^(62+l) / d) + 1 the error m*d - 2^(62+l)
// lies in (0, 2^l], so floor(x*m / 2^(62+l)) = floor(x/d) for x < 2^62
// (Granlund and Montgomery, "Division by invariant integers using multiplication",
// theorem 4.2).  The dividend is shifted by 2 so that the high half of the product is
// the quotient but for l bits.
class Divisor {
 public:
  constexpr Divisor() noexcept = default;  // divides by 1
  // Requires: 1 <= divisor < 2^62.
  explicit constexpr Divisor(int64_t divisor) noexcept
      : shift_(static_cast<int>(std::bit_width(static_cast<uint64_t>(divisor) - 1))),
        magic_(
            static_cast<uint64_t>((Uint128{1} << (62 + shift_)) / static_cast<uint64_t>(divisor)) +
            1) {}

  // Requires: 0 <= dividend < 2^62.
  [[nodiscard]] constexpr int64_t Quotient(int64_t dividend) const noexcept {
    FG_DCHECK(dividend >= 0 && dividend < (int64_t{1} << 62));
    const Uint128 product = static_cast<Uint128>(static_cast<uint64_t>(dividend) << 2) * magic_;
    return static_cast<int64_t>(static_cast<uint64_t>(product >> 64) >> shift_);
  }

 private:
  int shift_ = 0;
  uint64_t magic_ = (uint64_t{1} << 62) + 1;
};

}  // namespace flowguard::limit
