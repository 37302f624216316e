// SPDX-License-Identifier: Apache-2.0
//
// What system rules are held against: the calls in progress and the requests of the last
// second of the whole process, counted here, exact however many threads ask; and what is
// told from outside (CPU usage, load), or follows from the statistics of the entrance (mean
// response time, the room by the best point seen).
//
// The counts are of all that come in, by whatever rules they are met, while a rule in force
// names such a number: another rule's, or another number, finds them as they are.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "flowguard/time.h"

#include "base/mutex.h"
#include "engine/system_reading.h"
#include "limit/numbers.h"
#include "limit/sliding_buckets.h"
#include "stats/inflight.h"
#include "stats/resource_stats.h"

namespace flowguard::engine {

// No rule names a number of calls, or of requests in a second.
inline constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();

// Threads: all methods from any thread.
class SystemGate {
 public:
  SystemGate();
  SystemGate(const SystemGate&) = delete;
  SystemGate& operator=(const SystemGate&) = delete;

  // --- calls in progress

  // Counts a call, if at most `most` are in progress then.
  // Cost:     a compare-and-swap on a line that all threads share.
  [[nodiscard]] bool TryEnter(int64_t most) noexcept { return calls_.TryEnter(most).has_value(); }
  // Requires: a call has entered that has not left.
  void Leave() noexcept { calls_.Leave(); }
  [[nodiscard]] int64_t Inside() const noexcept { return calls_.Count(); }

  // --- requests of the last second

  // Counts a request, if no second has seen more than `most` then.  The second slides by
  // parts of 17 ms, of which one more than fit are counted.
  // Cost:     a lock that all threads share.
  [[nodiscard]] bool Take(int64_t most, Instant now, limit::Receipt& receipt) noexcept
      FG_EXCLUDES(mutex_);
  void GiveBack(const limit::Receipt& receipt, Instant now) noexcept FG_EXCLUDES(mutex_);
  [[nodiscard]] int64_t Taken(Instant now) noexcept FG_EXCLUDES(mutex_);

  // --- readings

  void SetReading(const SystemReading& reading) noexcept;
  [[nodiscard]] SystemReading Reading() const noexcept;
  // Looks at the statistics of the entrance again, where that was kLookEvery ago.
  // Cost:     two loads; else a walk over the buckets of a minute.
  void Look(const stats::ResourceStats& entrance, Instant now) noexcept;
  // Of the calls that ended in the second before Look; none while there were none.
  [[nodiscard]] std::optional<Duration> MeanTime() const noexcept;
  // Whether more than `inflight` calls at once would only wait for each other, by the best
  // second of the minute before Look.  Nothing is full that has not ended a call in it.
  [[nodiscard]] bool IsFull(int64_t inflight) const noexcept;

 private:
  static constexpr Duration kLookEvery = std::chrono::milliseconds(100);
  static constexpr double kUnknown = -1;

  [[nodiscard]] limit::SlidingBuckets::Spec SpecOf(int64_t most) const noexcept;

  stats::Inflight calls_;

  const limit::SlidingBuckets::Spec spec_;  // of as many as can be counted
  base::Mutex mutex_;
  std::vector<uint64_t> second_ FG_GUARDED_BY(mutex_);

  std::atomic<double> cpu_{kUnknown};
  std::atomic<double> load_{kUnknown};
  std::atomic<int64_t> look_at_ns_{0};
  std::atomic<int64_t> mean_time_ns_{-1};
  std::atomic<double> room_{kUnknown};
};

}  // namespace flowguard::engine
