// SPDX-License-Identifier: Apache-2.0
//
// Where a stamp goes in a ring of buckets over the time line: bucket i, which begins at i
// times the length of a bucket after the epoch of Instant, stands in slot i modulo their
// number.
//
// Which bucket a stamp goes to, as the newest bucket of the ring is N of n buckets:
//   after N                        its own; N moves on
//   one of the last n              its own: it is late, and its bucket is still there
//   before, by 10 s at most        N: it is late, and its bucket is gone
//   before, by more                its own, which is now the newest: the clock stepped back
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "base/check.h"

namespace flowguard::stats {

// A window of `buckets` equal parts.
struct WindowShape {
  Duration window = std::chrono::seconds(1);
  int buckets = 10;

  [[nodiscard]] Duration Bucket() const noexcept { return window / buckets; }
  friend bool operator==(const WindowShape&, const WindowShape&) = default;
};

// Threads: as an ordinary value.
class RingLine {
 public:
  static constexpr int64_t kNone = -1;  // the newest bucket before the first stamp

  RingLine() = default;
  // Requires: the bucket at least kStatsBucketMin, 1 to kBucketsMax of them.
  explicit RingLine(const WindowShape& shape)
      : size_(shape.buckets), bucket_ns_(shape.Bucket().count()) {
    FG_CHECK(shape.buckets >= 1 && shape.buckets <= base::kBucketsMax);
    FG_CHECK(shape.Bucket() >= base::kStatsBucketMin);
    // At least one: stamps of two threads may be out of order around a boundary.
    late_max_ = std::max<int64_t>(base::kLateStampMax.count() / bucket_ns_, 1);
  }

  [[nodiscard]] size_t size() const noexcept { return static_cast<size_t>(size_); }
  [[nodiscard]] int64_t bucket_ns() const noexcept { return bucket_ns_; }
  [[nodiscard]] int64_t IndexOf(Instant now) const noexcept {
    return std::max<int64_t>(now.time_since_epoch().count(), 0) / bucket_ns_;
  }
  [[nodiscard]] size_t SlotOf(int64_t index) const noexcept {
    return static_cast<size_t>(index) % size();
  }

  // Where a stamp goes, by the table above.
  struct Target {
    int64_t index;
    bool newest;  // it is to be the newest
  };
  [[nodiscard]] Target TargetOf(int64_t index, int64_t newest) const noexcept {
    if (index > newest) return {index, true};  // kNone is before every index
    const int64_t behind = newest - index;
    if (behind < size_) return {index, false};
    if (behind <= late_max_) return {newest, false};
    return {index, true};
  }

  // Calls f(ago, index) for the last `last` buckets that may hold counts: `ago` is 0 for the
  // bucket of `now`, and for those ahead of it by 10 s at most.
  template <typename F>
  void Each(Instant now, int64_t newest, int64_t last, F&& f) const {
    if (newest == kNone) return;
    const int64_t current = IndexOf(now);
    if (newest > current && newest - current <= late_max_) {
      for (int64_t index = std::max(current, newest - size_) + 1; index <= newest; ++index)
        f(int64_t{0}, index);
    }
    const int64_t oldest = std::max<int64_t>(current - std::min(last, size_) + 1, 0);
    for (int64_t index = std::min(newest, current); index >= oldest; --index)
      f(current - index, index);
  }

 private:
  int64_t size_ = 0;
  int64_t bucket_ns_ = 0;
  int64_t late_max_ = 0;  // buckets
};

}  // namespace flowguard::stats
