// SPDX-License-Identifier: Apache-2.0
//
// The buckets of one shard, a ring over the time line: bucket i, which begins at i times
// the length of a bucket after the epoch of Instant, stands in slot i modulo their number.
//
// Which bucket a stamp goes to, as the newest bucket of the ring is N of n buckets:
//   after N                        its own; N moves on
//   one of the last n              its own: it is late, and its bucket is still there
//   before, by 10 s at most        N: it is late, and its bucket is gone
//   before, by more                its own, which is now the newest: the clock stepped back
//
// N moves before a slot is opened, and who opens a slot looks at N after it looked at the
// slot, so a thread that was held up cannot take back a slot that went to a later bucket.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "base/check.h"
#include "stats/count_bucket.h"

namespace flowguard::stats {

// A window of `buckets` equal parts.
struct WindowShape {
  Duration window = std::chrono::seconds(1);
  int buckets = 10;

  [[nodiscard]] Duration Bucket() const noexcept { return window / buckets; }
  friend bool operator==(const WindowShape&, const WindowShape&) = default;
};

// Atomic: as in BasicCountBucket.
template <template <typename> typename Atomic>
class BasicCountRing {
 public:
  using Bucket = BasicCountBucket<Atomic>;

  // Without buckets: Reset comes first.
  BasicCountRing() = default;
  // Requires: the bucket at least kStatsBucketMin, 1 to kBucketsMax of them.
  void Reset(const WindowShape& shape);

  // The bucket for a stamp, in a ring that one thread alone writes.
  // Cost:     a comparison; two divisions at the begin of a bucket.
  [[nodiscard]] Bucket& FindAlone(Instant now) noexcept {
    const auto stamp = static_cast<uint64_t>(now.time_since_epoch().count());
    if (stamp - static_cast<uint64_t>(start_ns_) < static_cast<uint64_t>(bucket_ns_)) [[likely]] {
      return *current_;
    }
    return MoveAlone(now);
  }

  // Changes a number of the bucket for a stamp, from any thread; result: the number then.
  // Cost:     a division and a compare-and-swap, mostly.
  template <typename Change>
  uint64_t Update(Instant now, Event event, Change change) noexcept {
    for (;;) {
      const Place place = Find(now);
      const auto value = place.bucket->Update(place.tag, event, change);
      // None: the bucket went while this thread was on its way, so the stamp is late now.
      if (value.has_value()) return *value;
    }
  }

  // Calls f(ago, bucket, index) for the last `last` buckets that may hold counts: `ago` is
  // 0 for the bucket of `now`, and for those ahead of it by 10 s at most.
  // Threads:  any.
  template <typename F>
  void Each(Instant now, int64_t last, F&& f) const {
    const int64_t newest = newest_.load(std::memory_order_acquire);
    if (newest == kNone) return;
    const int64_t current = IndexOf(now);
    const auto size = static_cast<int64_t>(size_);
    if (newest > current && newest - current <= late_max_) {
      for (int64_t index = std::max(current, newest - size) + 1; index <= newest; ++index)
        f(int64_t{0}, SlotOf(index), index);
    }
    const int64_t oldest = std::max<int64_t>(current - std::min(last, size) + 1, 0);
    for (int64_t index = std::min(newest, current); index >= oldest; --index)
      f(current - index, SlotOf(index), index);
  }

  // The begin of the newest bucket; none before the first stamp.
  // Threads:  any.
  [[nodiscard]] std::optional<Instant> Newest() const noexcept {
    const int64_t newest = newest_.load(std::memory_order_acquire);
    if (newest == kNone) return std::nullopt;
    return Instant(Duration(newest * bucket_ns_));
  }

  static size_t BytesOf(const WindowShape& shape) noexcept {
    return static_cast<size_t>(shape.buckets) * sizeof(Bucket);
  }

 private:
  static constexpr int64_t kNone = -1;

  [[nodiscard]] int64_t IndexOf(Instant now) const noexcept;
  [[nodiscard]] Bucket& SlotOf(int64_t index) const noexcept {
    return buckets_[static_cast<size_t>(index) % size_];
  }
  Bucket& MoveAlone(Instant now) noexcept;
  struct Place {
    Bucket* bucket;
    Tag tag;  // the turn to add for
  };
  [[nodiscard]] Place Find(Instant now) noexcept;
  // Where a stamp goes, by the table above.
  struct Target {
    int64_t index;
    bool newest;  // it is to be the newest
  };
  [[nodiscard]] Target TargetOf(int64_t index, int64_t newest) const noexcept;

  std::unique_ptr<Bucket[]> buckets_;
  size_t size_ = 0;
  int64_t bucket_ns_ = 0;
  int64_t late_max_ = 0;  // buckets
  Atomic<int64_t> newest_{kNone};
  // The writer's own: the bucket that it is in.
  int64_t start_ns_ = 0;
  Bucket* current_ = nullptr;
};
using CountRing = BasicCountRing<std::atomic>;

template <template <typename> typename Atomic>
void BasicCountRing<Atomic>::Reset(const WindowShape& shape) {
  size_ = static_cast<size_t>(shape.buckets);
  bucket_ns_ = shape.Bucket().count();
  FG_CHECK(shape.buckets >= 1 && shape.buckets <= base::kBucketsMax);
  FG_CHECK(shape.Bucket() >= base::kStatsBucketMin);
  // At least one: stamps of two threads may be out of order around a boundary.
  late_max_ = std::max<int64_t>(base::kLateStampMax.count() / bucket_ns_, 1);
  buckets_ = std::make_unique<Bucket[]>(size_);
  newest_.store(kNone, std::memory_order_relaxed);
  // No stamp is within a bucket of this.
  start_ns_ = std::numeric_limits<int64_t>::min() / 2;
  current_ = buckets_.get();
}

template <template <typename> typename Atomic>
int64_t BasicCountRing<Atomic>::IndexOf(Instant now) const noexcept {
  return std::max<int64_t>(now.time_since_epoch().count(), 0) / bucket_ns_;
}

template <template <typename> typename Atomic>
typename BasicCountRing<Atomic>::Target BasicCountRing<Atomic>::TargetOf(
    int64_t index, int64_t newest) const noexcept {
  if (index > newest) return {index, true};  // kNone is before every index
  const int64_t behind = newest - index;
  if (behind < static_cast<int64_t>(size_)) return {index, false};
  if (behind <= late_max_) return {newest, false};
  return {index, true};
}

template <template <typename> typename Atomic>
BasicCountBucket<Atomic>& BasicCountRing<Atomic>::MoveAlone(Instant now) noexcept {
  const int64_t wanted = IndexOf(now);
  const Target target = TargetOf(wanted, newest_.load(std::memory_order_relaxed));
  if (target.newest) newest_.store(target.index, std::memory_order_release);
  Bucket& bucket = SlotOf(target.index);
  if (ValueOf(bucket.Head()) != static_cast<uint64_t>(target.index)) {
    bucket.OpenAlone(target.index);
  }
  if (target.index == wanted) {
    start_ns_ = wanted * bucket_ns_;
    current_ = &bucket;
  }
  return bucket;
}

template <template <typename> typename Atomic>
typename BasicCountRing<Atomic>::Place BasicCountRing<Atomic>::Find(Instant now) noexcept {
  const int64_t wanted = IndexOf(now);
  for (;;) {
    int64_t newest = newest_.load(std::memory_order_acquire);
    const Target target = TargetOf(wanted, newest);
    if (target.newest &&
        !newest_.compare_exchange_strong(newest, target.index, std::memory_order_acq_rel)) {
      continue;
    }
    Bucket& bucket = SlotOf(target.index);
    const uint64_t head = bucket.Head();
    if (ValueOf(head) == static_cast<uint64_t>(target.index)) return {&bucket, TagOf(head)};
    // Looked at after the slot: still the right bucket, or the slot is another's by now.
    const Target again = TargetOf(wanted, newest_.load(std::memory_order_acquire));
    if (again.newest || again.index != target.index) continue;
    bucket.Open(head, target.index);
  }
}

}  // namespace flowguard::stats
