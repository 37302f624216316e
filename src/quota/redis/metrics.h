// SPDX-License-Identifier: Apache-2.0
//
// What the Redis client counts.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "flowguard/time.h"

#include "quota/redis/commander.h"

namespace flowguard::quota::redis {

// A number that one thread writes and any thread reads.
class Counter {
 public:
  void Add(uint64_t more) noexcept { Set(value() + more); }
  void Set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// How often what took how long: eight buckets for each doubling, from one microsecond to
// over a minute, so that a bound is at most an eighth above the time.
class LatencyHistogram {
 public:
  static constexpr size_t kBuckets = 200;

  void Add(Duration took) noexcept {
    buckets_[BucketOf(took)].Add(1);
    sum_ns_.Add(static_cast<uint64_t>(took.count() > 0 ? took.count() : 0));
  }
  [[nodiscard]] uint64_t count(size_t bucket) const noexcept { return buckets_[bucket].value(); }
  [[nodiscard]] Duration sum() const noexcept {
    return Duration(static_cast<int64_t>(sum_ns_.value()));
  }
  // What is counted in `bucket` took less than this.
  [[nodiscard]] static constexpr Duration UpperBound(size_t bucket) noexcept {
    const uint64_t next = bucket + 1;
    const uint64_t us = next < 2 * kSteps ? next : (kSteps + next % kSteps) << (next / kSteps - 1);
    return std::chrono::microseconds(static_cast<int64_t>(us));
  }
  [[nodiscard]] static constexpr size_t BucketOf(Duration took) noexcept {
    const int64_t us = took / std::chrono::microseconds(1);
    if (us < 0) return 0;
    const auto value = static_cast<uint64_t>(us);
    if (value < kSteps) return static_cast<size_t>(value);
    const auto octave = static_cast<size_t>(std::bit_width(value)) - 4;
    const size_t bucket = octave * kSteps + static_cast<size_t>(value >> octave);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }

 private:
  static constexpr uint64_t kSteps = 8;
  std::array<Counter, kBuckets> buckets_;
  Counter sum_ns_;
};

// Of one client, all its connections together.
// Threads: the loop's writes, any reads.
struct Metrics {
  std::array<Counter, kFailureKinds> replies;  // by Failure; [kNone]: good ones
  LatencyHistogram latency;                    // of good ones, from Run to OnReply
  Counter late;                                // replies to commands that had been told kTimeout
  Counter connects;                            // connections that became ready
  Counter connect_failures;                    // and that did not
  Counter connected;                           // ready now
  Counter breaker_opened;
  Counter script_loads;  // EVAL in the place of EVALSHA
  Counter redirects;     // MOVED and ASK that were followed
  Counter topology_refreshes;
  Counter bytes_sent;
  Counter bytes_received;

  [[nodiscard]] const Counter& Of(Failure failure) const noexcept {
    return replies[static_cast<size_t>(failure)];
  }
};

}  // namespace flowguard::quota::redis
