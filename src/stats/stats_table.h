// SPDX-License-Identifier: Apache-2.0
//
// The statistics of all resources, and of origins at resources: a bounded table.
//
// Who is not in the table comes in, however many there are; when it is full, the one that
// was not counted for longest, among a bounded sample, is forgotten, and that is counted.
// One that is referred to, or has calls in progress, is never forgotten; where nothing can
// be, the newcomer is counted under Others(), and that is counted too.  Counting never stops.
//
//   look up (any thread)              forget (under the mutex)
//   walk the chain, hash equal?       refs == 0?  refs := dead
//   ++refs; dead? --refs, go on       a call in progress?  refs := 0, another one
//   hash still equal?  it is the one  out of the chain, free the statistics
//
// Places are never freed, so a thread that walks past a forgotten one reads a place, and at
// worst wanders into another chain and finds nothing; then it looks again under the mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/hash.h"
#include "base/mutex.h"
#include "stats/resource_stats.h"
#include "stats/shard_set.h"

namespace flowguard::stats {

struct StatsTableOptions {
  size_t stats_max = 10'000;              // resources and origins, 1 to kStatsMax
  size_t shard_bytes = size_t{64} << 20;  // of threads' own shards, at most kStatsShardBytesMax
  StatsShape resource{.latency = LatencyShape{}};  // of resources and of the entrance
  StatsShape origin{};                             // of an origin at a resource
  uint64_t hash_seed = 0;
};

struct StatsTableCounts {
  size_t stats = 0;             // in the table
  uint64_t forgotten = 0;       // to make room
  uint64_t forgotten_live = 0;  // of those, with counts in their longest window
  uint64_t others = 0;          // look-ups that were answered with Others()
  uint64_t shards_refused = 0;  // own shards that the budget had no bytes for
};

class StatsTable;

namespace internal {
// One place of the table, a cache line.
struct alignas(64) StatsPlace {
  static constexpr uint64_t kDead = uint64_t{1} << 63;

  std::atomic<uint64_t> refs{kDead};
  std::atomic<uint64_t> low{0};  // of the hash
  std::atomic<uint64_t> high{0};
  std::atomic<StatsPlace*> next{nullptr};
  std::unique_ptr<ResourceStats> stats;  // there while it is not dead

  [[nodiscard]] bool Refer() noexcept {
    if ((refs.fetch_add(1, std::memory_order_acq_rel) & kDead) == 0) return true;
    refs.fetch_sub(1, std::memory_order_acq_rel);
    return false;
  }
  void Drop() noexcept { refs.fetch_sub(1, std::memory_order_acq_rel); }
};
}  // namespace internal

// Keeps statistics in the table; or nothing.
// Threads: as an ordinary value, and may be dropped on another thread.
class StatsRef {
 public:
  StatsRef() = default;
  StatsRef(StatsRef&& other) noexcept
      : place_(std::exchange(other.place_, nullptr)),
        stats_(std::exchange(other.stats_, nullptr)) {}
  StatsRef& operator=(StatsRef&& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(stats_, other.stats_);
    return *this;
  }
  StatsRef(const StatsRef&) = delete;
  StatsRef& operator=(const StatsRef&) = delete;
  ~StatsRef() {
    if (place_ != nullptr) place_->Drop();
  }

  // A second reference to the same.
  [[nodiscard]] StatsRef Again() const noexcept {
    // Who refers to a place keeps it from being dead.
    if (place_ != nullptr) static_cast<void>(place_->Refer());
    return {place_, stats_};
  }

  explicit operator bool() const noexcept { return stats_ != nullptr; }
  [[nodiscard]] ResourceStats* get() const noexcept { return stats_; }
  ResourceStats& operator*() const noexcept { return *stats_; }
  ResourceStats* operator->() const noexcept { return stats_; }

 private:
  friend class StatsTable;
  // `place` is referred to already; null: not in the table (Others).
  StatsRef(internal::StatsPlace* place, ResourceStats* stats) noexcept
      : place_(place), stats_(stats) {}

  internal::StatsPlace* place_ = nullptr;
  ResourceStats* stats_ = nullptr;
};

// Threads: all methods from any thread.  Outlives its references and the calls in progress.
class StatsTable {
 public:
  // Errors: kInvalidArgument, with what is allowed.
  static Result<std::unique_ptr<StatsTable>> Create(const StatsTableOptions& options);
  StatsTable(const StatsTable&) = delete;
  StatsTable& operator=(const StatsTable&) = delete;

  // The statistics of a resource (origin empty) or of an origin at it, made if they are not
  // there; Others() where there is no room.  Never empty.
  // Cost:     two hashes at most and a locked addition, no lock, where they are there; else
  //           a mutex and an allocation.
  [[nodiscard]] StatsRef Get(std::string_view resource, std::string_view origin, Instant now);
  // The same if they are there, else empty.
  [[nodiscard]] StatsRef Find(std::string_view resource, std::string_view origin) const;

  // Everything that comes in.
  [[nodiscard]] ResourceStats& Entrance() noexcept { return entrance_; }
  [[nodiscard]] const ResourceStats& Entrance() const noexcept { return entrance_; }
  // What has no place of its own; its resource is named "(others)".
  [[nodiscard]] const ResourceStats& Others() const noexcept { return others_; }
  // Resources and origins that have a place of their own at most.
  [[nodiscard]] size_t Max() const noexcept { return options_.stats_max; }

  // All that are in the table at the moment, in no order.
  [[nodiscard]] std::vector<StatsRef> All() const;
  [[nodiscard]] StatsTableCounts Counted() const;
  // Of everything, what the allocator adds not included.
  // Cost:     a walk over all.
  [[nodiscard]] size_t Bytes() const;

 private:
  using Place = internal::StatsPlace;

  explicit StatsTable(const StatsTableOptions& options);

  [[nodiscard]] base::Hash128 HashOf(std::string_view resource,
                                     std::string_view origin) const noexcept;
  [[nodiscard]] std::atomic<Place*>& HeadOf(const base::Hash128& hash) const noexcept {
    return heads_[hash.high & heads_mask_];
  }
  // The place, referred to; null if it was not found, be it that it is there.
  [[nodiscard]] Place* Walk(const base::Hash128& hash) const noexcept;
  [[nodiscard]] Place* WalkLocked(const base::Hash128& hash) const FG_REQUIRES(mutex_);
  StatsRef Insert(const base::Hash128& hash, std::string_view resource, std::string_view origin,
                  Instant now) FG_EXCLUDES(mutex_);
  // A dead place outside of every chain; null where none can be had.
  Place* TakePlace(Instant now) FG_REQUIRES(mutex_);
  Place* Forget(Instant now) FG_REQUIRES(mutex_);
  void Unlink(Place& place) FG_REQUIRES(mutex_);

  const StatsTableOptions options_;
  ShardBudget budget_;
  ResourceStats entrance_;
  ResourceStats others_;
  size_t heads_mask_;
  std::unique_ptr<std::atomic<Place*>[]> heads_;
  std::unique_ptr<Place[]> places_;

  mutable base::Mutex mutex_;
  size_t used_ FG_GUARDED_BY(mutex_) = 0;  // places that have ever been used
  uint64_t random_ FG_GUARDED_BY(mutex_);
  uint64_t forgotten_ FG_GUARDED_BY(mutex_) = 0;
  uint64_t forgotten_live_ FG_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> others_count_{0};
};

}  // namespace flowguard::stats
