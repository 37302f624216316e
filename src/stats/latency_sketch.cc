// SPDX-License-Identifier: Apache-2.0
#include "stats/latency_sketch.h"

#include <cmath>

namespace flowguard::stats {

Duration LatencyOfCell(size_t cell) noexcept {
  if (cell == 0) return Duration(int64_t{1} << kLatencyLowBits);
  if (cell >= kLatencyCells - 1) return Duration(int64_t{1} << kLatencyHighBits);
  const uint64_t doubling = (cell - 1) / kCellsPerDoubling;
  const uint64_t part = (cell - 1) % kCellsPerDoubling;
  const double step = std::ldexp(1.0, kLatencyLowBits + static_cast<int>(doubling)) /
                      static_cast<double>(kCellsPerDoubling);
  const double low = step * static_cast<double>(kCellsPerDoubling + part);
  const double high = low + step;
  return Duration(std::llround(2 * low * high / (low + high)));
}

void LatencySketch::Merge(const LatencySketch& other) noexcept {
  for (size_t i = 0; i < kLatencyCells; ++i)
    cells_[i] += other.cells_[i];
  count_ += other.count_;
}

std::optional<Duration> LatencySketch::Quantile(double q) const noexcept {
  if (count_ == 0) return std::nullopt;
  const double wanted = std::ceil(q * static_cast<double>(count_));
  const uint64_t rank = wanted < 1                              ? 1
                        : wanted >= static_cast<double>(count_) ? count_
                                                                : static_cast<uint64_t>(wanted);
  uint64_t seen = 0;
  size_t cell = 0;
  for (; cell < kLatencyCells; ++cell) {
    seen += cells_[cell];
    if (seen >= rank) break;
  }
  return LatencyOfCell(cell);
}

}  // namespace flowguard::stats
