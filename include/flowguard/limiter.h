// SPDX-License-Identifier: Apache-2.0
//
// One limit, no key, no rule set: the simplest use, at the speed of one clock read
// and one compare-and-swap.
//
//   auto limiter = flowguard::Limiter::Create({.rate = {100, std::chrono::seconds(1)}});
//   if (!limiter->TryAcquire()) return Busy();
#pragma once

#include <atomic>
#include <cstdint>

#include "flowguard/clock.h"
#include "flowguard/decision.h"
#include "flowguard/result.h"

namespace flowguard {

struct LimiterOptions {
  Rate rate;                     // e.g. {100, 1s}
  int64_t burst = 0;             // 0: rate.limit
  Duration wait{};               // TryAcquireFor waits at most this; 0: an hour
  const Clock* clock = nullptr;  // default: SystemClock().  Must outlive the Limiter
};

// A token bucket: at most burst + floor(t/T) units in any interval t, where
// T = ceil(window/limit) ns.  One 8-byte word, alone on its cache line.
//
// Threads: all methods, from any thread.  No lock, no allocation.
class alignas(64) Limiter {
 public:
  // Errors: kInvalidArgument for a negative or absurd rate, burst or wait.
  static Result<Limiter> Create(const LimiterOptions& options);
  Limiter(Limiter&& other) noexcept;  // not while others use it
  Limiter& operator=(Limiter&&) = delete;

  // True when `cost` units were taken now.  A refusal changes nothing.  Cost 0 is
  // always granted; a negative one, or one above the burst, never.
  [[nodiscard]] bool TryAcquire(int64_t cost = 1) noexcept;
  [[nodiscard]] bool TryAcquireAt(Instant now, int64_t cost = 1) noexcept;

  // The whole answer: the five numbers.
  Decision Check(int64_t cost = 1) noexcept { return CheckAt(Now(), cost); }
  Decision CheckAt(Instant now, int64_t cost = 1) noexcept;

  // Sleeps until the units are there, at most `timeout`; refuses at once, taking
  // nothing, when the wait would be longer.
  [[nodiscard]] bool TryAcquireFor(Duration timeout, int64_t cost = 1) noexcept;

 private:
  Limiter() = default;
  [[nodiscard]] Instant Now() const noexcept;
  [[nodiscard]] bool Take(Instant now, int64_t cost) noexcept;
  [[nodiscard]] bool Refuse(int64_t tat_ns, int64_t now_ns, int64_t cost) noexcept;

  std::atomic<int64_t> tat_ns_{0};  // theoretical arrival time
  int64_t interval_ns_ = 0;         // T
  int64_t capacity_ns_ = 0;         // T * burst
  int64_t burst_ = 0;               // 0: limit is 0, refuse all
  int64_t wait_max_ns_ = 0;
  const Clock* clock_ = nullptr;  // null: the process's clock, read without a virtual call
};

}  // namespace flowguard
