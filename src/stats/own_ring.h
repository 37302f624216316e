// SPDX-License-Identifier: Apache-2.0
//
// The buckets of a shard that one thread alone writes, a ring as ring_line.h says.
//
// The writer's steps are plain loads and stores.  A reader takes a bucket that is opened for
// another index meanwhile for an empty one:
//
//   open                              read
//   head := closed                    head is the index?
//   every word := 0    (release)      every word      (acquire)
//   head := the index  (release)      head is the index still?  count
//
// Every word is written with release, after the head that it belongs to, so that who reads a
// word of a later opening finds another head than before.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "flowguard/time.h"

#include "stats/count_bucket.h"
#include "stats/counts.h"
#include "stats/ring_line.h"
#include "stats/tagged_word.h"

namespace flowguard::stats {

// What was counted in one span of time by one thread, a cache line.
// Threads: one writes, any read.
class alignas(64) OwnBucket {
 public:
  [[nodiscard]] bool IsOf(int64_t index) const noexcept {
    return head_.load(std::memory_order_relaxed) == index;
  }
  void Open(int64_t index) noexcept {
    head_.store(kClosed, std::memory_order_relaxed);
    for (size_t i = 0; i < kEvents; ++i)
      words_[i].store(EventStart(i), std::memory_order_release);
    head_.store(index, std::memory_order_release);
  }

  // `amount` is at most kTaggedMax: a bucket has room for 65,536 of the largest.
  void Add(Event event, uint64_t amount) noexcept { Set(event, Get(event) + amount); }
  void Lower(Event event, uint64_t amount) noexcept {
    if (amount < Get(event)) Set(event, amount);
  }
  void Raise(Event event, uint64_t amount) noexcept {
    if (amount > Get(event)) Set(event, amount);
  }

  // Adds what was counted for `index` to `counts`.
  void AddTo(int64_t index, Counts& counts) const noexcept {
    if (head_.load(std::memory_order_acquire) != index) return;
    std::array<uint64_t, kEvents> values;
    for (size_t i = 0; i < kEvents; ++i)
      values[i] = std::min(words_[i].load(std::memory_order_acquire), kTaggedMax);
    if (head_.load(std::memory_order_relaxed) == index) counts += CountsOf(values);
  }

 private:
  static constexpr int64_t kClosed = -1;

  [[nodiscard]] uint64_t Get(Event event) const noexcept {
    return words_[static_cast<size_t>(event)].load(std::memory_order_relaxed);
  }
  void Set(Event event, uint64_t value) noexcept {
    words_[static_cast<size_t>(event)].store(value, std::memory_order_release);
  }

  std::atomic<int64_t> head_{kClosed};
  std::array<std::atomic<uint64_t>, kEvents> words_{};
};
static_assert(sizeof(OwnBucket) == 64);

// Threads: one writes, any read.
class OwnRing {
 public:
  // Without buckets: Reset comes first.
  OwnRing() = default;
  // Requires: as RingLine.
  void Reset(const WindowShape& shape) {
    line_ = RingLine(shape);
    bucket_ns_ = static_cast<uint64_t>(line_.bucket_ns());
    buckets_ = std::make_unique<OwnBucket[]>(line_.size());
    newest_.store(RingLine::kNone, std::memory_order_relaxed);
    // No stamp is within a bucket of this.
    start_ns_ = static_cast<uint64_t>(std::numeric_limits<int64_t>::min() / 2);
    current_ = buckets_.get();
  }

  // The writer's bucket for a stamp.
  // Cost:     a comparison; two divisions at the begin of a bucket.
  [[nodiscard]] OwnBucket& Find(Instant now) noexcept {
    const auto stamp = static_cast<uint64_t>(now.time_since_epoch().count());
    if (stamp - start_ns_ < bucket_ns_) [[likely]] {
      return *current_;
    }
    return Move(now);
  }

  // Calls f(ago, bucket, index), as RingLine::Each.
  template <typename F>
  void Each(Instant now, int64_t last, F&& f) const {
    line_.Each(now, newest_.load(std::memory_order_acquire), last,
               [&](int64_t ago, int64_t index) { f(ago, buckets_[line_.SlotOf(index)], index); });
  }

  // The begin of the newest bucket; none before the first stamp.
  [[nodiscard]] std::optional<Instant> Newest() const noexcept {
    const int64_t newest = newest_.load(std::memory_order_acquire);
    if (newest == RingLine::kNone) return std::nullopt;
    return Instant(Duration(newest * line_.bucket_ns()));
  }

  static size_t BytesOf(const WindowShape& shape) noexcept {
    return static_cast<size_t>(shape.buckets) * sizeof(OwnBucket);
  }

 private:
  [[gnu::noinline]] OwnBucket& Move(Instant now) noexcept {
    const int64_t wanted = line_.IndexOf(now);
    const RingLine::Target target = line_.TargetOf(wanted, newest_.load(std::memory_order_relaxed));
    if (target.newest) newest_.store(target.index, std::memory_order_release);
    OwnBucket& bucket = buckets_[line_.SlotOf(target.index)];
    if (!bucket.IsOf(target.index)) bucket.Open(target.index);
    if (target.index == wanted) {
      start_ns_ = static_cast<uint64_t>(wanted * line_.bucket_ns());
      current_ = &bucket;
    }
    return bucket;
  }

  // The writer's own, together: the bucket that it is in.
  uint64_t start_ns_ = 0;
  uint64_t bucket_ns_ = 0;
  OwnBucket* current_ = nullptr;
  std::atomic<int64_t> newest_{RingLine::kNone};
  RingLine line_;
  std::unique_ptr<OwnBucket[]> buckets_;
};

}  // namespace flowguard::stats
