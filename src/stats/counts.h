// SPDX-License-Identifier: Apache-2.0
//
// What was counted in a span of time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "flowguard/time.h"

namespace flowguard::stats {

// Sums stay at their maximum instead of wrapping.
struct Counts {
  int64_t passed = 0;              // units admitted
  int64_t blocked = 0;             // units refused
  int64_t succeeded = 0;           // units of calls that have ended, failed ones among them
  int64_t failed = 0;              // units of calls that have ended with an error
  Duration rt_sum{0};              // response times, one a call
  int64_t inflight_max = 0;        // most calls in progress seen at an entry
  std::optional<Duration> rt_min;  // of the calls that did not fail

  // rt_sum / succeeded; none while nothing has ended.
  [[nodiscard]] std::optional<Duration> AverageRt() const noexcept {
    if (succeeded == 0) return std::nullopt;
    return rt_sum / succeeded;
  }

  Counts& operator+=(const Counts& other) noexcept {
    passed = Sum(passed, other.passed);
    blocked = Sum(blocked, other.blocked);
    succeeded = Sum(succeeded, other.succeeded);
    failed = Sum(failed, other.failed);
    rt_sum = Duration(Sum(rt_sum.count(), other.rt_sum.count()));
    inflight_max = std::max(inflight_max, other.inflight_max);
    if (other.rt_min.has_value() && (!rt_min.has_value() || *other.rt_min < *rt_min)) {
      rt_min = other.rt_min;
    }
    return *this;
  }
  friend bool operator==(const Counts&, const Counts&) = default;

 private:
  static int64_t Sum(int64_t a, int64_t b) noexcept {
    return a > std::numeric_limits<int64_t>::max() - b ? std::numeric_limits<int64_t>::max()
                                                       : a + b;
  }
};

}  // namespace flowguard::stats
