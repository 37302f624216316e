// SPDX-License-Identifier: Apache-2.0
//
// The statistics of one resource, of one origin at a resource, or of everything that comes
// in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "flowguard/time.h"

#include "stats/inflight.h"
#include "stats/latency_sketch.h"
#include "stats/shard_set.h"
#include "stats/sliding_counts.h"
#include "stats/sliding_latency.h"

namespace flowguard::stats {

struct StatsShape {
  Views views{WindowShape{std::chrono::seconds(1), 10}, WindowShape{std::chrono::minutes(1), 60}};
  std::optional<LatencyShape> latency;  // none: no quantiles
};

// A call that has ended, as each ResourceStats counts it that it entered.
struct CallEnd {
  CallEnd(int64_t of_units, Duration rt, bool with_error) noexcept
      : units(of_units), took(rt), cell(LatencyCellOf(rt)), failed(with_error) {}

  int64_t units;
  Duration took;
  size_t cell;  // of `took`
  bool failed;
};

// Threads: all methods from any thread.
class ResourceStats {
 public:
  // `budget`, for own shards, outlives this; null: none.
  // Requires: CheckWindow and CheckLatency accept the shape.
  ResourceStats(std::string_view resource, std::string_view origin, const StatsShape& shape,
                ShardBudget* budget)
      : resource_(resource), origin_(origin), counts_(shape.views, budget) {
    if (shape.latency.has_value()) {
      latency_ = std::make_unique<SlidingLatency>(*shape.latency, budget);
    }
  }

  // In the following `slot` is base::ThreadSlot() of the calling thread.

  // A call of `units` goes on; result: the calls in progress, this one among them.
  int64_t Enter(size_t slot, Instant now, int64_t units) noexcept {
    const int64_t inflight = inflight_.Enter();
    counts_.Passed(slot, now, units, inflight);
    return inflight;
  }
  // The same while at most `most` are in progress then; else nothing was counted.
  bool TryEnter(size_t slot, Instant now, int64_t units, int64_t most) noexcept {
    const std::optional<int64_t> inflight = inflight_.TryEnter(most);
    if (!inflight.has_value()) return false;
    counts_.Passed(slot, now, units, *inflight);
    return true;
  }
  // A request of `units` goes on, and nobody will tell when it ends.
  void Pass(size_t slot, Instant now, int64_t units) noexcept {
    counts_.Passed(slot, now, units, inflight_.Count());
  }
  // A call of `units` was refused.
  void Block(size_t slot, Instant now, int64_t units) noexcept {
    counts_.Blocked(slot, now, units);
  }
  // A call that entered has ended.
  void Exit(size_t slot, Instant now, const CallEnd& end) noexcept {
    counts_.Ended(slot, now, end.units, end.took, end.failed);
    if (latency_ != nullptr) latency_->AddToCell(slot, now, end.cell);
    inflight_.Leave();  // last: from here on the table may forget this
  }
  // A call that entered ends without having run: it counts as passed, and no more.
  void Abandon() noexcept { inflight_.Leave(); }

  [[nodiscard]] const std::string& Resource() const noexcept { return resource_; }
  // Empty: all origins together.
  [[nodiscard]] const std::string& Origin() const noexcept { return origin_; }
  [[nodiscard]] int64_t InProgress() const noexcept { return inflight_.Count(); }
  [[nodiscard]] const SlidingCounts& Counted() const noexcept { return counts_; }
  // Null where the shape has no quantiles.
  [[nodiscard]] const SlidingLatency* Latency() const noexcept { return latency_.get(); }
  [[nodiscard]] size_t Bytes() const noexcept {
    return sizeof(*this) - sizeof(counts_) + counts_.Bytes() +
           (latency_ != nullptr ? latency_->Bytes() : 0) + resource_.capacity() +
           origin_.capacity();
  }

 private:
  const std::string resource_;
  const std::string origin_;
  SlidingCounts counts_;
  std::unique_ptr<SlidingLatency> latency_;
  Inflight inflight_;
};

}  // namespace flowguard::stats
