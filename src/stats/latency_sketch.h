// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of durations with a bounded relative error, in fixed memory.
//
// Durations are counted in cells: every doubling from 1,024 ns on is cut into
// kCellsPerDoubling equal parts.  A cell answers with the harmonic mean of its ends, a and b,
// whose relative distance from either is (b - a) / (a + b), at most 1 / (2 * 17 + 1).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "flowguard/time.h"

namespace flowguard::stats {

inline constexpr uint64_t kCellsPerDoubling = 17;
inline constexpr int kLatencyLowBits = 10;   // 1,024 ns; what is shorter counts as it
inline constexpr int kLatencyHighBits = 37;  // 137 s; what is longer counts as it
inline constexpr size_t kLatencyCells =
    static_cast<size_t>(kLatencyHighBits - kLatencyLowBits) * kCellsPerDoubling + 2;
// The most that a quantile is off, as a part of the right one, from 1,024 ns to 137 s.
inline constexpr double kLatencyError = 1.0 / (2 * kCellsPerDoubling + 1);  // 2.86 %

// The cell of a duration.
[[nodiscard]] constexpr size_t LatencyCellOf(Duration duration) noexcept {
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0));
  const int bits =
      static_cast<int>(std::bit_width(ns)) - 1;  // ns is from 2^bits to below twice that
  if (bits < kLatencyLowBits) return 0;
  if (bits >= kLatencyHighBits) return kLatencyCells - 1;
  const uint64_t above = ns - (uint64_t{1} << bits);
  const uint64_t part = (above * kCellsPerDoubling) >> bits;
  return static_cast<size_t>(bits - kLatencyLowBits) * kCellsPerDoubling + part + 1;
}

// What is told of the durations of a cell.
[[nodiscard]] Duration LatencyOfCell(size_t cell) noexcept;

// Threads: as an ordinary value.
class LatencySketch {
 public:
  void Add(Duration duration) noexcept { AddToCell(LatencyCellOf(duration), 1); }
  void AddToCell(size_t cell, uint64_t count) noexcept {
    cells_[cell] += count;
    count_ += count;
  }
  // As if all of `other` had been added here.
  void Merge(const LatencySketch& other) noexcept;

  [[nodiscard]] uint64_t Count() const noexcept { return count_; }

  // A duration off by kLatencyError at most from the one of rank ceil(q * Count()) in
  // ascending order (the least for q = 0); none while the sketch is empty.
  // Requires: 0 <= q <= 1.
  // Cost:     a walk over the cells.
  [[nodiscard]] std::optional<Duration> Quantile(double q) const noexcept;

  friend bool operator==(const LatencySketch&, const LatencySketch&) = default;

 private:
  std::array<uint64_t, kLatencyCells> cells_{};
  uint64_t count_ = 0;
};

}  // namespace flowguard::stats
