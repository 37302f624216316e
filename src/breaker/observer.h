// SPDX-License-Identifier: Apache-2.0
//
// What a breaker tells of itself.
#pragma once

#include <cstdint>

#include "flowguard/time.h"

#include "breaker/spec.h"

namespace flowguard::breaker {

enum class BreakerState : uint8_t {
  kClosed,    // calls go, and are counted
  kOpen,      // calls are refused
  kHalfOpen,  // a few calls go, to see how it stands
};

enum class BreakerReason : uint8_t {
  kCondition,       // closed -> open: the counts are those of the window
  kOpenForOver,     // open -> half-open
  kProbeBad,        // half-open -> open: the counts are those of the probes
  kProbesGood,      // half-open -> closed: the same
  kProbeGivenBack,  // half-open -> open: something else refused the only probe, so it
                    // learned nothing; the next call probes at once
};

// One transition.
struct BreakerEvent {
  uint64_t breaker = 0;  // the number its owner gave it
  BreakerState from{};
  BreakerState to{};
  BreakerReason reason{};
  Instant time{};       // the `now` of the call that brought it about
  CallCounts counts;    // at that moment; none for kOpenForOver and kProbeGivenBack
  uint64_t missed = 0;  // events before this one that were dropped, because the observer was
                        // slower than the breaker
};

// Threads:  called for one breaker by one thread at a time, in the order of its
//           transitions, on a thread that called the breaker; for several breakers by
//           several at once.  No lock is held: an observer may call the breaker, and sees
//           it in the event's state or a later one.  Events that this brings about come
//           after it returns.
// Errors:   what it throws ends here, and is counted (Breaker::observer_failures).
class BreakerObserver {
 public:
  BreakerObserver() = default;
  BreakerObserver(const BreakerObserver&) = delete;
  BreakerObserver& operator=(const BreakerObserver&) = delete;
  virtual ~BreakerObserver() = default;

  virtual void OnTransition(const BreakerEvent& event) = 0;
};

}  // namespace flowguard::breaker
