// SPDX-License-Identifier: Apache-2.0
//
// For the tests of this folder: a breaker, a time in milliseconds that the test moves,
// and short words for calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "breaker/breaker.h"

namespace flowguard::breaker {

inline Duration Ms(int64_t ms) {
  return std::chrono::milliseconds(ms);
}

// A multiple of 60 s, as in Sentinel's own scripts.
inline constexpr int64_t kT0Ms = 1'800'000'000;

// `ms` after T0.
inline Instant At(int64_t ms) {
  return Instant(Ms(kT0Ms + ms));
}

class Recorder : public BreakerObserver {
 public:
  void OnTransition(const BreakerEvent& event) override { events.push_back(event); }
  std::vector<BreakerEvent> events;
};

class BreakerFixture : public ::testing::Test {
 protected:
  void Build(const BreakerSpec& spec) {
    auto made = Breaker::Create(spec, &recorder_, 7);
    ASSERT_TRUE(made.ok()) << made.error().message;
    breaker_ = *std::move(made);
  }

  // Admitted or not; what was admitted is left open.
  bool Enters(int64_t ms) {
    BreakerAdmission admission = breaker_->TryEnter(At(ms));
    if (admission.admitted()) open_.push_back(admission.ticket);
    last_ = admission;
    return admission.admitted();
  }
  // A call that ends in the instant in which it began.  Requires: it is admitted.
  void Call(int64_t ms, Outcome outcome = Outcome::kOk, int64_t took_ms = 0) {
    BreakerAdmission admission = breaker_->TryEnter(At(ms));
    ASSERT_TRUE(admission.admitted()) << "at " << ms;
    breaker_->Settle(admission.ticket, outcome, Ms(took_ms), At(ms));
  }
  // One call for each letter at once: o ok, e error, s slow (60 ms), f fast (10 ms); result:
  // after how many it opened, 0 if it did not.
  int OpensAt(const std::string& letters, int64_t ms = 0) {
    int count = 0;
    for (const char letter : letters) {
      Call(ms, letter == 'e' ? Outcome::kError : Outcome::kOk,
           letter == 's'   ? 60
           : letter == 'f' ? 10
                           : 0);
      ++count;
      if (state() == BreakerState::kOpen) return count;
    }
    return 0;
  }
  void Settle(size_t which, int64_t ms, Outcome outcome = Outcome::kOk, int64_t took_ms = 0) {
    breaker_->Settle(open_.at(which), outcome, Ms(took_ms), At(ms));
  }
  [[nodiscard]] BreakerState state() const { return breaker_->state(); }

  Recorder recorder_;
  std::unique_ptr<Breaker> breaker_;
  std::vector<BreakerTicket> open_;
  BreakerAdmission last_;
};

inline BreakerSpec ErrorCount(int64_t errors, int64_t min_calls) {
  BreakerSpec spec;
  spec.condition = BreakerCondition::kErrorCount;
  spec.errors = errors;
  spec.min_calls = min_calls;
  spec.window = Ms(1'000);
  spec.open_for = Ms(2'000);
  return spec;
}

inline BreakerSpec ErrorRatio(double ratio, int64_t min_calls) {
  BreakerSpec spec = ErrorCount(0, min_calls);
  spec.condition = BreakerCondition::kErrorRatio;
  spec.ratio = ratio;
  return spec;
}

inline BreakerSpec SlowRatio(double ratio, int64_t min_calls, int64_t over_ms = 50) {
  BreakerSpec spec = ErrorRatio(ratio, min_calls);
  spec.condition = BreakerCondition::kSlowRatio;
  spec.slow_over = Ms(over_ms);
  return spec;
}

}  // namespace flowguard::breaker
