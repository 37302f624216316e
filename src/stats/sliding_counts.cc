// SPDX-License-Identifier: Apache-2.0
#include "stats/sliding_counts.h"

#include <bit>
#include <string>

#include "base/bounds.h"
#include "base/check.h"

namespace flowguard::stats {

Result<void> CheckWindow(const WindowShape& shape) {
  if (shape.buckets < 1 || shape.buckets > base::kBucketsMax) {
    return Error::InvalidArgument("buckets of a window: " + std::to_string(shape.buckets) +
                                  ", allowed are 1 to " + std::to_string(base::kBucketsMax));
  }
  if (shape.window % shape.buckets != Duration(0)) {
    return Error::InvalidArgument("a window of " + std::to_string(shape.window.count()) +
                                  " ns cannot be divided into " + std::to_string(shape.buckets) +
                                  " equal buckets");
  }
  if (shape.Bucket() < base::kStatsBucketMin || shape.window > base::kWindowMax) {
    return Error::InvalidArgument("a bucket of " + std::to_string(shape.Bucket().count()) +
                                  " ns: a bucket lasts at least 1 ms, a window at most 366 days");
  }
  return {};
}

template <typename Extreme>
void SlidingCounts::Share(size_t slot, Instant now, std::span<const Step<Plus>> sums,
                          Step<Extreme> extreme) noexcept {
  SharedShard& shard = shards_.Shared();
  bool often = false;
  for (size_t view = 0; view < views_.count; ++view) {
    CountRing& ring = shard.rings[view];
    for (const Step<Plus>& step : sums) {
      if (step.change.amount == 0) continue;
      const uint64_t value = ring.Update(now, step.event, step.change);
      // Now and then only: where the budget is spent the question itself costs.
      if (view == 0 && step.event != Event::kRtSum && value >= kOwnShardAfter &&
          std::bit_width(value) != std::bit_width(value - step.change.amount)) {
        often = true;
      }
    }
    ring.Update(now, extreme.event, extreme.change);
  }
  if (often) shards_.Claim(slot);
}

template void SlidingCounts::Share(size_t, Instant, std::span<const Step<Plus>>,
                                   Step<Most>) noexcept;
template void SlidingCounts::Share(size_t, Instant, std::span<const Step<Plus>>,
                                   Step<Least>) noexcept;

void SlidingCounts::Series(size_t view, Instant now, std::span<Counts> out) const noexcept {
  for (Counts& counts : out)
    counts = Counts{};
  shards_.Each([&](const auto& shard) {
    shard.rings[view].Each(now, static_cast<int64_t>(out.size()),
                           [&](int64_t ago, const auto& bucket, int64_t index) {
                             bucket.AddTo(index, out[static_cast<size_t>(ago)]);
                           });
  });
}

Counts SlidingCounts::Last(size_t view, Instant now, int buckets) const noexcept {
  FG_DCHECK(view < views_.count && buckets >= 1 && buckets <= views_.shapes[view].buckets);
  Counts sum;
  shards_.Each([&](const auto& shard) {
    shard.rings[view].Each(now, buckets, [&](int64_t, const auto& bucket, int64_t index) {
      bucket.AddTo(index, sum);
    });
  });
  return sum;
}

Counts SlidingCounts::Bucket(size_t view, Instant now, int ago) const noexcept {
  FG_DCHECK(view < views_.count && ago >= 0 && ago < views_.shapes[view].buckets);
  Counts sum;
  shards_.Each([&](const auto& shard) {
    shard.rings[view].Each(now, ago + 1, [&](int64_t back, const auto& bucket, int64_t index) {
      if (back == ago) bucket.AddTo(index, sum);
    });
  });
  return sum;
}

std::optional<Instant> SlidingCounts::LastCounted() const noexcept {
  std::optional<Instant> last;
  shards_.Each([&](const auto& shard) {
    const std::optional<Instant> newest = shard.rings[0].Newest();
    if (newest.has_value() && (!last.has_value() || *newest > *last)) last = newest;
  });
  return last;
}

size_t SlidingCounts::Bytes() const noexcept {
  return sizeof(*this) + shards_.Bytes();
}

}  // namespace flowguard::stats
