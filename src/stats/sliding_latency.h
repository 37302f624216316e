// SPDX-License-Identifier: Apache-2.0
//
// Quantiles of the response times of a sliding window.
//
// The cells of a shard only ever count up.  When a part of the window begins, the first
// thread to notice writes down the sum of all shards; what was counted since is the
// difference to now.  So no cell is ever cleared under those who count, and a duration
// counts in exactly one part: one that is counted while the sum is written down may stand
// in the part before.  A late stamp counts in the current part; one that is older than the
// window and than 10 s means that the clock stepped back, and the window begins anew.
//
// Memory: 1.8 KiB a shard, and as much a part of the window, from the first count on.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/mutex.h"
#include "stats/latency_sketch.h"
#include "stats/shard_set.h"

namespace flowguard::stats {

// The window that quantiles are of: `parts` equal parts.
struct LatencyShape {
  Duration window = std::chrono::minutes(1);
  int parts = 2;

  friend bool operator==(const LatencyShape&, const LatencyShape&) = default;
};

// Errors: kInvalidArgument, where the window is not a whole number of nanoseconds a part, a
// part is shorter than kStatsBucketMin, or there are not 1 to kLatencyPartsMax of them.
Result<void> CheckLatency(const LatencyShape& shape);

// Threads: all methods from any thread.
class SlidingLatency {
 public:
  // `budget`, for own shards, outlives this; null: none.
  // Requires: CheckLatency accepts the shape.
  SlidingLatency(const LatencyShape& shape, ShardBudget* budget);

  // Counts a call that took `took`.
  // Cost:     with an own shard a plain load and store on a line of the calling thread, else
  //           a locked addition; the sum over all shards once a part, by one thread.
  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  void Add(size_t slot, Instant now, Duration took) noexcept {
    AddToCell(slot, now, LatencyCellOf(took));
  }
  // The same with LatencyCellOf(took).
  void AddToCell(size_t slot, Instant now, size_t cell) noexcept {
    if (Due(now)) [[unlikely]] {
      TryTurn(now);
    }
    if (Cells* own = shards_.Own(slot); own != nullptr) [[likely]] {
      own->counts[cell].store(own->counts[cell].load(std::memory_order_relaxed) + 1,
                              std::memory_order_relaxed);
      return;
    }
    AddShared(slot, cell);
  }

  // The last `parts` parts, the current one among them.
  // Cost:     about a microsecond a shard.
  // Requires: 1 <= parts <= those of the shape.
  [[nodiscard]] LatencySketch Last(Instant now, int parts) const;
  [[nodiscard]] LatencySketch Window(Instant now) const { return Last(now, shape_.parts); }

  [[nodiscard]] const LatencyShape& Shape() const noexcept { return shape_; }
  [[nodiscard]] size_t Bytes() const noexcept;

 private:
  // Counts are taken modulo 2^32, so a window may hold 4e9 of a cell.
  using Sums = std::array<uint32_t, kLatencyCells>;
  struct alignas(64) Cells {
    std::array<std::atomic<uint32_t>, kLatencyCells> counts{};

    void Reset(const LatencyShape&) noexcept {}
    static size_t BytesOf(const LatencyShape&) noexcept { return sizeof(Cells); }
  };

  [[nodiscard]] bool Due(Instant now) const noexcept {
    const auto stamp = static_cast<uint64_t>(now.time_since_epoch().count());
    const auto begin = static_cast<uint64_t>(begin_ns_.load(std::memory_order_relaxed));
    return stamp - begin >= static_cast<uint64_t>(part_ns_);
  }
  void AddShared(size_t slot, size_t cell) noexcept;
  void TryTurn(Instant now) noexcept;
  // Begins the parts up to `now`'s, as far as they have not begun.
  void Turn(Instant now) const FG_REQUIRES(mutex_);
  [[nodiscard]] Sums SumNow() const noexcept;

  const LatencyShape shape_;
  const int64_t part_ns_;
  ShardSet<Cells, LatencyShape> shards_;
  mutable std::atomic<int64_t> begin_ns_;  // of the current part
  mutable base::Mutex mutex_;
  mutable int64_t part_ FG_GUARDED_BY(mutex_) = -1;  // the current one
  // What had been counted when part i began, at i modulo their number.
  mutable std::vector<Sums> begins_ FG_GUARDED_BY(mutex_);
};

}  // namespace flowguard::stats
