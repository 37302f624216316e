// SPDX-License-Identifier: Apache-2.0
//
// Guava's RateLimiter for tests, twice: its published description in doubles, and a cell
// that is asked as its callers ask it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "limit/test_cell.h"

namespace flowguard::limit {

// Permits stored and the next free ticket, in seconds and doubles.
class GuavaModel {
 public:
  // SmoothBursty: `burst` permits are stored at most, none at the start.
  GuavaModel(double rate, double burst) : interval_(1 / rate), most_(burst), refill_(interval_) {}
  // SmoothWarmingUp: all are stored at the start.
  GuavaModel(double rate, double period, double cold_factor)
      : interval_(1 / rate), threshold_(0.5 * period / interval_) {
    const double cold = cold_factor * interval_;
    most_ = threshold_ + 2 * period / (interval_ + cold);
    slope_ = (cold - interval_) / (most_ - threshold_);
    refill_ = period / most_;
    stored_ = most_;
    warms_ = true;
  }

  // How long a request at `now` waits.
  double Acquire(double now, double permits) {
    if (now > next_) {
      stored_ = std::min(most_, stored_ + (now - next_) / refill_);
      next_ = now;
    }
    const double wait = next_ - now;
    const double spent = std::min(permits, stored_);
    next_ += PriceOf(spent) + (permits - spent) * interval_;
    stored_ -= spent;
    return wait;
  }

 private:
  [[nodiscard]] double PriceOf(double spent) const {
    if (!warms_) return 0;
    const double above = std::max(stored_ - threshold_, 0.0);
    const double cold = std::min(above, spent);
    const double last = interval_ + (above - cold) * slope_;
    const double first = interval_ + above * slope_;
    return cold * (first + last) / 2 + (spent - cold) * interval_;
  }

  double interval_;
  double most_ = 0;
  double refill_ = 1;
  double threshold_ = 0;
  double slope_ = 0;
  double stored_ = 0;
  double next_ = 0;
  bool warms_ = false;
};

// A cell whose callers sleep out every wait, as acquire does; times in seconds.
class GuavaLimiter {
 public:
  GuavaLimiter(Algorithm algorithm, Config config)
      : config_(WithWait(config)), cell_(algorithm, config_) {
    if (cell_.spec().has_start()) cell_.StartAt(now_);
  }

  double Acquire(int64_t permits = 1) {
    const Numbers numbers = cell_.Decide(now_, permits);
    EXPECT_TRUE(numbers.allowed);
    now_ += numbers.wait.count();
    return static_cast<double>(numbers.wait.count()) / 1e9;
  }
  std::vector<double> Acquire(std::vector<int64_t> costs) {
    std::vector<double> waits;
    for (const int64_t cost : costs)
      waits.push_back(Acquire(cost));
    return waits;
  }
  std::vector<double> AcquireTimes(size_t times) { return Acquire(std::vector<int64_t>(times, 1)); }
  void Sleep(double seconds) { now_ += static_cast<int64_t>(seconds * 1e9); }
  // Per second.
  void SetRate(int64_t rate) {
    config_.rate.limit = rate;
    cell_.Reload(config_);
  }
  [[nodiscard]] int64_t now() const { return now_; }

 private:
  static Config WithWait(Config config) {
    config.wait = std::chrono::hours(1);
    return config;
  }

  int64_t now_ = 604'800'000'000'000;
  Config config_;
  TestCell cell_;
};

// Guava tells waits with two digits.
inline void ExpectWaits(const std::vector<double>& waits, const std::vector<double>& expected) {
  ASSERT_EQ(waits.size(), expected.size());
  for (size_t i = 0; i < waits.size(); ++i)
    EXPECT_NEAR(waits[i], expected[i], 0.005001) << "request " << i;
}

}  // namespace flowguard::limit
