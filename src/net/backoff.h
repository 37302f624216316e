// SPDX-License-Identifier: Apache-2.0
//
// How long to wait before the next attempt to connect.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flowguard/time.h"

#include "base/bounds.h"

namespace flowguard::net {

// Doubles from kConnectBackoffMin to kConnectBackoffMax; each wait is drawn from its upper
// half, so that clients that failed together do not come back together.
class Backoff {
 public:
  explicit Backoff(uint64_t seed) noexcept : state_(seed) {}

  [[nodiscard]] Duration Next() noexcept {
    const Duration whole = wait_;
    wait_ = std::min(2 * wait_, base::kConnectBackoffMax);
    const auto half = static_cast<uint64_t>(whole.count() / 2);
    return whole - Duration(static_cast<int64_t>(Random() % (half + 1)));
  }
  void Reset() noexcept { wait_ = base::kConnectBackoffMin; }

 private:
  // SplitMix64.
  uint64_t Random() noexcept {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t state_;
  Duration wait_ = base::kConnectBackoffMin;
};

}  // namespace flowguard::net
