// SPDX-License-Identifier: Apache-2.0
#include "stats/sliding_latency.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "base/bounds.h"
#include "base/check.h"
#include "stats/sliding_counts.h"

namespace flowguard::stats {

Result<void> CheckLatency(const LatencyShape& shape) {
  if (shape.parts < 1 || shape.parts > base::kLatencyPartsMax) {
    return Error::InvalidArgument("parts of a window of latencies: " + std::to_string(shape.parts) +
                                  ", allowed are 1 to " + std::to_string(base::kLatencyPartsMax));
  }
  return CheckWindow({shape.window, shape.parts});
}

SlidingLatency::SlidingLatency(const LatencyShape& shape, ShardBudget* budget)
    : shape_(shape),
      part_ns_((shape.window / shape.parts).count()),
      shards_(shape, budget),
      // No stamp is within a part of this.
      begin_ns_(std::numeric_limits<int64_t>::min() / 2) {}

void SlidingLatency::AddShared(size_t slot, size_t cell) noexcept {
  const uint32_t before = shards_.Shared().counts[cell].fetch_add(1, std::memory_order_relaxed);
  // As in SlidingCounts, but by cell, and for the whole life.
  if (before + 1 >= kOwnShardAfter && std::has_single_bit(before + 1)) shards_.Claim(slot);
}

void SlidingLatency::TryTurn(Instant now) noexcept {
  if (!mutex_.TryLock()) return;  // another thread does it, or reads
  Turn(now);
  mutex_.Unlock();
}

void SlidingLatency::Turn(Instant now) const {
  const int64_t part = std::max<int64_t>(now.time_since_epoch().count(), 0) / part_ns_;
  const int64_t late_max = std::max<int64_t>(base::kLateStampMax.count() / part_ns_, shape_.parts);
  if (part == part_ || (part < part_ && part_ - part <= late_max)) return;
  const auto parts = static_cast<size_t>(shape_.parts);
  if (begins_.empty()) {
    // What the shards hold already was counted before anybody wrote a sum down.
    begins_.assign(parts, Sums{});
  } else {
    const Sums sums = SumNow();
    // The clock stepped back: earlier parts are of a time that is yet to come.
    const bool all = part < part_ || part - part_ >= static_cast<int64_t>(parts);
    for (int64_t i = all ? part - shape_.parts + 1 : part_ + 1; i <= part; ++i)
      begins_[static_cast<size_t>(i + shape_.parts) % parts] = sums;
  }
  part_ = part;
  begin_ns_.store(part * part_ns_, std::memory_order_relaxed);
}

SlidingLatency::Sums SlidingLatency::SumNow() const noexcept {
  Sums sums{};
  shards_.Each([&](const Cells& cells) {
    for (size_t i = 0; i < kLatencyCells; ++i)
      sums[i] += cells.counts[i].load(std::memory_order_relaxed);
  });
  return sums;
}

LatencySketch SlidingLatency::Last(Instant now, int parts) const {
  FG_DCHECK(parts >= 1 && parts <= shape_.parts);
  LatencySketch sketch;
  const base::MutexLock lock(mutex_);
  bool counted = false;
  shards_.Each([&](const Cells&) { counted = true; });
  if (!counted) return sketch;
  // Perhaps the first: readers may have kept those who count from it.
  Turn(now);
  const int64_t first = part_ - parts + 1;
  const Sums& begin =
      begins_[static_cast<size_t>(first + shape_.parts) % static_cast<size_t>(shape_.parts)];
  const Sums sums = SumNow();
  for (size_t i = 0; i < kLatencyCells; ++i)
    sketch.AddToCell(i, sums[i] - begin[i]);
  return sketch;
}

size_t SlidingLatency::Bytes() const noexcept {
  size_t bytes = sizeof(*this);
  shards_.Each([&](const Cells& cells) { bytes += sizeof(cells); });
  const base::MutexLock lock(mutex_);
  return bytes + begins_.size() * sizeof(Sums);
}

}  // namespace flowguard::stats
