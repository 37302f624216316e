// SPDX-License-Identifier: Apache-2.0
//
// A clock that a test moves by hand.
#pragma once

#include <atomic>

#include "flowguard/clock.h"

namespace flowguard::testing {

// Threads: any.
class ManualClock final : public Clock {
 public:
  ManualClock() = default;
  [[nodiscard]] Instant Now() const noexcept override {
    return Instant(Duration(now_ns_.load(std::memory_order_acquire)));
  }
  [[nodiscard]] WallTime WallNow() const noexcept override {
    return WallTime(Duration(now_ns_.load(std::memory_order_acquire)));
  }
  // Time jumps to `until`; nobody sleeps.
  void SleepUntil(Instant until) const noexcept override {
    int64_t now = now_ns_.load(std::memory_order_acquire);
    const int64_t target = until.time_since_epoch().count();
    while (now < target && !now_ns_.compare_exchange_weak(now, target, std::memory_order_acq_rel)) {
    }
  }
  void Advance(Duration by) noexcept { now_ns_.fetch_add(by.count(), std::memory_order_acq_rel); }
  void Set(Instant now) noexcept {
    now_ns_.store(now.time_since_epoch().count(), std::memory_order_release);
  }

 private:
  mutable std::atomic<int64_t> now_ns_{int64_t{1'000'000} * 1'000'000'000};
};

}  // namespace flowguard::testing
