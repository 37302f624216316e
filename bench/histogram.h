// SPDX-License-Identifier: Apache-2.0
//
// Latencies as the load generators keep them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace flowguard::bench {

// Counts in buckets of 1/64 of a power of two: an error of at most 1.6 %.
class Histogram {
 public:
  void Add(uint64_t ns) {
    ++counts_[Index(ns)];
    ++total_;
    max_ = std::max(max_, ns);
  }
  [[nodiscard]] double QuantileUs(double q) const {
    const auto rank = static_cast<uint64_t>(q * static_cast<double>(total_));
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > rank) return static_cast<double>(Value(i)) / 1e3;
    }
    return static_cast<double>(max_) / 1e3;
  }
  [[nodiscard]] double MaxUs() const { return static_cast<double>(max_) / 1e3; }

 private:
  static size_t Index(uint64_t v) {
    if (v < 64) return v;
    const int shift = 63 - __builtin_clzll(v) - 6;
    return static_cast<size_t>(shift + 1) * 64 + ((v >> shift) & 63);
  }
  static uint64_t Value(size_t i) {
    if (i < 64) return i;
    return ((i & 63) | 64) << (i / 64 - 1);
  }
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(64 * 60);
  uint64_t total_ = 0;
  uint64_t max_ = 0;
};

}  // namespace flowguard::bench
