// SPDX-License-Identifier: Apache-2.0
//
// What a circuit breaker tells of itself, for logs, alarms and fallbacks.
#pragma once

#include <cstdint>
#include <string_view>

#include "flowguard/time.h"

namespace flowguard {

enum class BreakerState : uint8_t {
  kClosed,    // calls go, and are counted
  kOpen,      // calls are refused
  kHalfOpen,  // a few calls go, to see how it stands
};

// One transition of one breaker.
struct BreakerChange {
  std::string_view rule;
  uint64_t number = 0;  // which of the rule's breakers: 0, or of a rule with `by` one a key
  BreakerState from{};
  BreakerState to{};
  Instant at{};
  // Of the window when it opened, or of the probes; 0 where neither decided.
  int64_t calls = 0;
  int64_t bad = 0;      // slow or failed, by the rule
  uint64_t missed = 0;  // changes before this one that were not told, as the listener was slow
};

// Threads:  called for one breaker by one thread at a time, in the order of its changes, on
//           a thread that asked or settled; for several breakers by several at once.  No
//           lock is held.  It should be quick: a call waits for it.
// Errors:   what it throws ends there.
class BreakerListener {
 public:
  BreakerListener() = default;
  BreakerListener(const BreakerListener&) = delete;
  BreakerListener& operator=(const BreakerListener&) = delete;
  virtual ~BreakerListener() = default;

  virtual void OnBreaker(const BreakerChange& change) = 0;
};

}  // namespace flowguard
