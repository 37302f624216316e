// SPDX-License-Identifier: Apache-2.0
//
// Time and chance of a simulation: everything is drawn from one seed and happens in one
// order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <utility>
#include <vector>

#include "flowguard/rule.h"
#include "flowguard/time.h"

namespace flowguard::quota {

inline int64_t NsOf(Instant when) {
  return when.time_since_epoch().count();
}

// Everything that is drawn, and when things happen.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {}

  [[nodiscard]] Instant now() const noexcept { return now_; }
  void At(Instant when, std::function<void()> what) {
    events_.push({std::max(when, now_), next_++, std::move(what)});
  }
  void After(Duration delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }
  bool RunOne(Instant until) {
    if (events_.empty() || events_.top().when > until) return false;
    Event event = events_.top();
    events_.pop();
    now_ = event.when;
    event.what();
    return true;
  }

  int64_t Between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  bool Chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }

 private:
  struct Event {
    Instant when;
    uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(when, number) > std::pair(other.when, other.number);
    }
  };
  std::mt19937_64 random_;
  std::priority_queue<Event> events_;
  Instant now_ = Instant(std::chrono::hours(24 * 8));
  uint64_t next_ = 0;
};

// What a run is about.
struct Setting {
  int nodes = 3;
  std::vector<Rule> rules;  // the first is held against the bounds of its algorithm
  double loss = 0;
  Duration delay_max{};
  double crash = 0;      // of a node, in each tenth of a second
  double partition = 0;  // of a node, likewise
  double give_back = 0;  // of an admitted request
  Duration every{};      // between requests of a node, on average
  int64_t cost_max = 1;
  int64_t server_ahead_us = 0;
};

}  // namespace flowguard::quota
