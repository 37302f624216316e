// SPDX-License-Identifier: Apache-2.0
//
// One limit with a cell for every key: per client address, user, tenant.  For
// programs that need no rule set; Guard is the general form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "flowguard/clock.h"
#include "flowguard/decision.h"
#include "flowguard/result.h"

namespace flowguard {

struct KeyedLimiterOptions {
  Rate rate;                     // e.g. {100, 1s}
  int64_t burst = 0;             // 0: rate.limit.  Not of kWarmUp
  size_t capacity = 100'000;     // live keys that are never forgotten; under 24 bytes each
  uint64_t hash_seed = 0;        // 0: drawn at random.  Tests name one
  const Clock* clock = nullptr;  // default: SystemClock()
  Duration wait{};               // CheckFor waits at most this; 0: an hour
  // kTokenBucket, kSmoothBursty or kWarmUp, as of Limiter.  A key of kWarmUp takes up to
  // 128 bytes.
  Algorithm algorithm = Algorithm::kTokenBucket;
  Duration warm_up{};   // kWarmUp, which needs it: from cold to warm
  int cold_factor = 3;  // kWarmUp: how many times slower than the rate when cold
};

// A token bucket for each key: at most burst + floor(t/T) units of a key in any
// interval t, where T = ceil(window/limit) ns.
//
// With Guava's algorithms every key has a RateLimiter, all of them made by Create.
//
// Memory: a table of fixed size, allocated once (kWarmUp: as keys come).  A key that is full again
// takes no room.  Above `capacity` live keys, the key nearest to its full quota is forgotten first;
// evictions() counts that. Threads: all methods, from any thread.  No lock (kWarmUp: one of 64).
class KeyedLimiter {
 public:
  // Errors: kInvalidArgument for a negative or absurd rate, burst, wait or capacity, and
  // for options that the algorithm does not have.
  static Result<std::unique_ptr<KeyedLimiter>> Create(const KeyedLimiterOptions& options);
  ~KeyedLimiter();
  KeyedLimiter(const KeyedLimiter&) = delete;
  KeyedLimiter& operator=(const KeyedLimiter&) = delete;

  // True when `cost` units of `key` were taken now.  A refusal changes nothing.
  [[nodiscard]] bool TryAcquire(std::string_view key, int64_t cost = 1) noexcept;
  [[nodiscard]] bool TryAcquireAt(Instant now, std::string_view key, int64_t cost = 1) noexcept;

  // One unit of each key, in order; allowed[i] tells of keys[i].  Faster than one by
  // one when the table is larger than the caches: the cells are fetched together.
  // Requires: allowed.size() >= keys.size().
  void TryAcquireBatch(Instant now, std::span<const std::string_view> keys,
                       std::span<bool> allowed) noexcept;

  // The whole answer: the five numbers.
  Decision CheckAt(Instant now, std::string_view key, int64_t cost = 1) noexcept;
  // Sleeps until the units are there, at most `timeout`; refuses at once, taking nothing,
  // when the wait would be longer.  The answer is that from before the sleep.
  Decision CheckFor(Duration timeout, std::string_view key, int64_t cost = 1) noexcept;

  [[nodiscard]] size_t bytes() const noexcept;  // of all keys
  [[nodiscard]] uint64_t evictions() const noexcept;

 private:
  struct Impl;
  explicit KeyedLimiter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace flowguard
