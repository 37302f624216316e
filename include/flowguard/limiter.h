// SPDX-License-Identifier: Apache-2.0
//
// One limit, no key, no rule set: the simplest use, at the speed of one clock read
// and one compare-and-swap.
//
//   auto limiter = flowguard::Limiter::Create({.rate = {100, std::chrono::seconds(1)}});
//   if (!limiter->TryAcquire()) return Busy();
//
// With the algorithms smooth_bursty and warm_up it is Guava's RateLimiter: tryAcquire is
// TryAcquire, tryAcquire with a timeout TryAcquireFor or CheckFor, acquire CheckFor with a
// timeout that is long enough.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "flowguard/clock.h"
#include "flowguard/decision.h"
#include "flowguard/result.h"

namespace flowguard {

struct LimiterOptions {
  Rate rate;                     // e.g. {100, 1s}
  int64_t burst = 0;             // 0: rate.limit.  Not of kWarmUp
  Duration wait{};               // TryAcquireFor and CheckFor wait at most this; 0: an hour
  const Clock* clock = nullptr;  // default: SystemClock().  Must outlive the Limiter
  // kTokenBucket, kSmoothBursty or kWarmUp.
  Algorithm algorithm = Algorithm::kTokenBucket;
  Duration warm_up{};   // kWarmUp, which needs it: from cold to warm
  int cold_factor = 3;  // kWarmUp: how many times slower than the rate when cold
};

// A token bucket: at most burst + floor(t/T) units in any interval t, where
// T = ceil(window/limit) ns.  One 8-byte word, alone on its cache line.
//
// Guava's two let one request of any cost through, which those after it wait for; what
// they guarantee is in docs/algorithms.md.  They start now, with nothing stored, or cold.
//
// Threads: all methods, from any thread.  No lock (kWarmUp: one), no allocation.
class alignas(64) Limiter {
 public:
  // Errors: kInvalidArgument for a negative or absurd rate, burst or wait, and for options
  // that the algorithm does not have.
  static Result<Limiter> Create(const LimiterOptions& options);
  ~Limiter();
  Limiter(Limiter&& other) noexcept;  // not while others use it
  Limiter& operator=(Limiter&&) = delete;

  // True when `cost` units were taken now.  A refusal changes nothing.  Cost 0 is
  // always granted; a negative one, or one above the burst of a token bucket, never.
  [[nodiscard]] bool TryAcquire(int64_t cost = 1) noexcept;
  [[nodiscard]] bool TryAcquireAt(Instant now, int64_t cost = 1) noexcept;

  // The whole answer: the five numbers.
  Decision Check(int64_t cost = 1) noexcept { return CheckAt(Now(), cost); }
  Decision CheckAt(Instant now, int64_t cost = 1) noexcept;

  // Sleeps until the units are there, at most `timeout`; refuses at once, taking
  // nothing, when the wait would be longer.
  [[nodiscard]] bool TryAcquireFor(Duration timeout, int64_t cost = 1) noexcept;
  // The same with the whole answer, from before the sleep.  A negative timeout is 0.
  Decision CheckFor(Duration timeout, int64_t cost = 1) noexcept;

 private:
  struct Smooth;  // of Guava's algorithms

  Limiter() noexcept;
  [[nodiscard]] Instant Now() const noexcept;
  void SleepUntil(Instant until) const noexcept;
  [[nodiscard]] bool Take(Instant now, int64_t cost) noexcept;
  [[nodiscard]] bool Refuse(int64_t tat_ns, int64_t now_ns, int64_t cost) noexcept;
  // What Take does with a cost that is not one of 1 to burst.
  [[nodiscard]] bool TakeOther(Instant now, int64_t cost) noexcept;
  Decision CheckWithin(Instant now, int64_t cost, Duration timeout) noexcept;

  std::atomic<int64_t> tat_ns_{0};  // theoretical arrival time
  int64_t interval_ns_ = 0;         // T
  int64_t capacity_ns_ = 0;         // T * burst
  int64_t burst_ = 0;               // 0: limit is 0, refuse all; or smooth_ decides
  int64_t wait_max_ns_ = 0;
  const Clock* clock_ = nullptr;  // null: the process's clock, read without a virtual call
  std::unique_ptr<Smooth> smooth_;
};

}  // namespace flowguard
