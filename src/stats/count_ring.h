// SPDX-License-Identifier: Apache-2.0
//
// The buckets of a shard that threads share, a ring as ring_line.h says, whose newest bucket
// is N.
//
// N moves before a slot is opened, and who opens a slot looks at N after it looked at the
// slot, so a thread that was held up cannot take back a slot that went to a later bucket.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "flowguard/time.h"

#include "stats/count_bucket.h"
#include "stats/ring_line.h"

namespace flowguard::stats {

// Atomic: as in BasicCountBucket.
template <template <typename> typename Atomic>
class BasicCountRing {
 public:
  using Bucket = BasicCountBucket<Atomic>;

  // Without buckets: Reset comes first.
  BasicCountRing() = default;
  // Requires: as RingLine.
  void Reset(const WindowShape& shape);

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

  // Calls f(ago, bucket, index), as RingLine::Each.
  // Threads:  any.
  template <typename F>
  void Each(Instant now, int64_t last, F&& f) const {
    line_.Each(now, newest_.load(std::memory_order_acquire), last,
               [&](int64_t ago, int64_t index) { f(ago, SlotOf(index), index); });
  }

  // The begin of the newest bucket; none before the first stamp.
  // Threads:  any.
  [[nodiscard]] std::optional<Instant> Newest() const noexcept {
    const int64_t newest = newest_.load(std::memory_order_acquire);
    if (newest == RingLine::kNone) return std::nullopt;
    return Instant(Duration(newest * line_.bucket_ns()));
  }

  static size_t BytesOf(const WindowShape& shape) noexcept {
    return static_cast<size_t>(shape.buckets) * sizeof(Bucket);
  }

 private:
  [[nodiscard]] Bucket& SlotOf(int64_t index) const noexcept {
    return buckets_[line_.SlotOf(index)];
  }
  struct Place {
    Bucket* bucket;
    Tag tag;  // the turn to add for
  };
  [[nodiscard]] Place Find(Instant now) noexcept;

  RingLine line_;
  std::unique_ptr<Bucket[]> buckets_;
  Atomic<int64_t> newest_{RingLine::kNone};
};
using CountRing = BasicCountRing<std::atomic>;

template <template <typename> typename Atomic>
void BasicCountRing<Atomic>::Reset(const WindowShape& shape) {
  line_ = RingLine(shape);
  buckets_ = std::make_unique<Bucket[]>(line_.size());
  newest_.store(RingLine::kNone, std::memory_order_relaxed);
}

template <template <typename> typename Atomic>
typename BasicCountRing<Atomic>::Place BasicCountRing<Atomic>::Find(Instant now) noexcept {
  const int64_t wanted = line_.IndexOf(now);
  for (;;) {
    int64_t newest = newest_.load(std::memory_order_acquire);
    const RingLine::Target target = line_.TargetOf(wanted, newest);
    if (target.newest &&
        !newest_.compare_exchange_strong(newest, target.index, std::memory_order_acq_rel)) {
      continue;
    }
    Bucket& bucket = SlotOf(target.index);
    const uint64_t head = bucket.Head();
    if (ValueOf(head) == static_cast<uint64_t>(target.index)) return {&bucket, TagOf(head)};
    // Looked at after the slot: still the right bucket, or the slot is another's by now.
    const RingLine::Target again = line_.TargetOf(wanted, newest_.load(std::memory_order_acquire));
    if (again.newest || again.index != target.index) continue;
    bucket.Open(head, target.index);
  }
}

}  // namespace flowguard::stats
