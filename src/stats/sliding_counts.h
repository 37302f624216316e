// SPDX-License-Identifier: Apache-2.0
//
// Counts over sliding windows: units passed, blocked, succeeded and failed, response times
// and calls in progress, in the buckets of one or two windows ("views") of different
// length, for instance the last second and the last minute.
//
// A window slides by buckets: the last n of them, the current one among them, cover between
// n - 1 and n bucket lengths.  Each number of a bucket and thread holds 48 bits (response
// times in nanoseconds: 78 hours) and stays at its maximum.
//
// Memory: 64 bytes a bucket of each view, once for the threads that share a shard, and once
// for each thread with an own one, which it gets when kOwnShardAfter units were counted in
// a bucket of the shared one; see shard_set.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "stats/count_ring.h"
#include "stats/counts.h"
#include "stats/own_ring.h"
#include "stats/shard_set.h"

namespace flowguard::stats {

inline constexpr size_t kViewsMax = 2;
// Units in one bucket of the first view after which a thread gets a shard of its own.
inline constexpr uint64_t kOwnShardAfter = 32;

// Errors: kInvalidArgument, where the window is not a whole number of nanoseconds a bucket,
// a bucket is shorter than kStatsBucketMin, or there are not 1 to kBucketsMax of them.
Result<void> CheckWindow(const WindowShape& shape);

// The views of a SlidingCounts.
struct Views {
  Views(WindowShape only) : count(1), shapes{only, {}} {}  // NOLINT(google-explicit-constructor)
  Views(WindowShape first, WindowShape second) : count(2), shapes{first, second} {}

  size_t count;
  std::array<WindowShape, kViewsMax> shapes;
};

// Threads: all methods from any thread.
class SlidingCounts {
 public:
  // `budget`, for own shards, outlives this; null: none.
  // Requires: CheckWindow accepts the views.
  SlidingCounts(const Views& views, ShardBudget* budget) : views_(views), shards_(views, budget) {}

  // --- recording
  // In every method `slot` is base::ThreadSlot() of the calling thread; units below zero
  // count as zero.
  // Cost:     with an own shard some plain loads and stores on lines of the calling thread;
  //           else a compare-and-swap a number, and an allocation at times.

  // `inflight`: calls in progress, this one among them.
  void Passed(size_t slot, Instant now, int64_t units, int64_t inflight) noexcept {
    const uint64_t passed = Clamped(units);
    const uint64_t inside = Clamped(inflight);
    if (OwnShard* own = shards_.Own(slot); own != nullptr) [[likely]] {
      return own->EachView(now, [passed, inside](OwnBucket& bucket) {
        bucket.Add(Event::kPassed, passed);
        bucket.Raise(Event::kInflightMax, inside);
      });
    }
    const std::array<Step<Plus>, 1> sums{{{Event::kPassed, {passed}}}};
    Share(slot, now, sums, Step<Most>{Event::kInflightMax, {inside}});
  }

  void Blocked(size_t slot, Instant now, int64_t units) noexcept {
    const uint64_t blocked = Clamped(units);
    if (OwnShard* own = shards_.Own(slot); own != nullptr) [[likely]] {
      return own->EachView(now,
                           [blocked](OwnBucket& bucket) { bucket.Add(Event::kBlocked, blocked); });
    }
    const std::array<Step<Plus>, 1> sums{{{Event::kBlocked, {blocked}}}};
    Share(slot, now, sums, Step<Most>{Event::kInflightMax, {0}});
  }

  // A call has ended after `rt`: units succeeded, and failed too where it ended with an
  // error; the response time counts once.
  void Ended(size_t slot, Instant now, int64_t units, Duration rt, bool failed) noexcept {
    const uint64_t ended = Clamped(units);
    const uint64_t took = Clamped(rt.count());
    const uint64_t errors = failed ? ended : 0;
    // What failed, a connection refused at once, tells nothing of how fast an answer can be.
    const uint64_t least = failed ? kTaggedMax : took;
    if (OwnShard* own = shards_.Own(slot); own != nullptr) [[likely]] {
      return own->EachView(now, [ended, errors, took, least](OwnBucket& bucket) {
        bucket.Add(Event::kSucceeded, ended);
        if (errors > 0) bucket.Add(Event::kFailed, errors);
        bucket.Add(Event::kRtSum, took);
        bucket.Lower(Event::kRtMin, least);
      });
    }
    const std::array<Step<Plus>, 3> sums{
        {{Event::kSucceeded, {ended}}, {Event::kFailed, {errors}}, {Event::kRtSum, {took}}}};
    Share(slot, now, sums, Step<Least>{Event::kRtMin, {least}});
  }

  // --- reading: sums over all shards, exact for what was recorded before the call
  // Cost:     a cache line a bucket and shard.

  // The last `buckets` buckets of a view, the current one among them.  What other threads
  // stamped ahead of `now` is counted too.
  // Requires: view < views, 1 <= buckets <= those of the view.
  [[nodiscard]] Counts Last(size_t view, Instant now, int buckets) const noexcept;
  [[nodiscard]] Counts Window(size_t view, Instant now) const noexcept {
    return Last(view, now, views_.shapes[view].buckets);
  }
  // The bucket `ago` buckets before the current one.
  [[nodiscard]] Counts Bucket(size_t view, Instant now, int ago) const noexcept;
  // The last `out.size()` buckets, the current one first.
  void Series(size_t view, Instant now, std::span<Counts> out) const noexcept;

  // The begin of the last bucket of the first view that anything was counted in; none if
  // nothing ever was.
  [[nodiscard]] std::optional<Instant> LastCounted() const noexcept;

  [[nodiscard]] const WindowShape& Shape(size_t view) const noexcept { return views_.shapes[view]; }
  [[nodiscard]] size_t Bytes() const noexcept;

 private:
  // Of one ring a view.
  template <typename Ring>
  struct ShardOf {
    std::array<Ring, kViewsMax> rings;
    size_t views = 0;

    void Reset(const Views& shapes) {
      views = shapes.count;
      for (size_t i = 0; i < views; ++i)
        rings[i].Reset(shapes.shapes[i]);
    }
    static size_t BytesOf(const Views& shapes) noexcept {
      size_t bytes = sizeof(ShardOf);
      for (size_t i = 0; i < shapes.count; ++i)
        bytes += Ring::BytesOf(shapes.shapes[i]);
      return bytes;
    }
    // Calls f(bucket) for the one that the stamp belongs to in each view.
    template <typename F>
    void EachView(Instant now, F&& f) noexcept {
      f(rings[0].Find(now));
      if (views == 2) f(rings[1].Find(now));
    }
  };
  using SharedShard = ShardOf<CountRing>;
  using OwnShard = ShardOf<OwnRing>;
  template <typename Change>
  struct Step {
    Event event;
    Change change;
  };

  template <typename Extreme>
  void Share(size_t slot, Instant now, std::span<const Step<Plus>> sums,
             Step<Extreme> extreme) noexcept;

  const Views views_;
  ShardSet<SharedShard, Views, OwnShard> shards_;
};

}  // namespace flowguard::stats
