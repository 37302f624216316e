// SPDX-License-Identifier: Apache-2.0
//
// What was admitted when, and by how much that is above what a token bucket allows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "flowguard/rule.h"

namespace flowguard::bench {

class Admissions {
 public:
  explicit Admissions(size_t usual) { counts_.reserve(usual); }

  void Add(int64_t time_us, int64_t units) {
    ++decisions_;
    if (!counts_.empty() && counts_.back().first == time_us) {
      counts_.back().second += units;
    } else {
      counts_.emplace_back(time_us, units);
    }
  }
  void Clear() {
    counts_.clear();
    decisions_ = 0;
  }
  [[nodiscard]] int64_t decisions() const { return decisions_; }

  // The most units that any interval, from any admission to any later one, has above
  // burst + rate * its length.  Not above 0: the bound holds.
  [[nodiscard]] double Excess(const Rate& rate, int64_t burst) {
    std::sort(counts_.begin(), counts_.end());
    const double per_us =
        static_cast<double>(rate.limit) * 1e3 / static_cast<double>(rate.window.count());
    double level = 0;
    double most = 0;
    int64_t last = counts_.empty() ? 0 : counts_.front().first;
    for (const auto& [time_us, units] : counts_) {
      level = std::max(level - per_us * static_cast<double>(time_us - last), 0.0);
      level += static_cast<double>(units);
      most = std::max(most, level);
      last = time_us;
    }
    return most - static_cast<double>(burst);
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> counts_;
  int64_t decisions_ = 0;
};

}  // namespace flowguard::bench
