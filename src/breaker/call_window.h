// SPDX-License-Identifier: Apache-2.0
//
// How many calls ended in the last while, and how many of them badly.
//
// The newest bucket is one atomic word {tag, calls, bad}; the buckets before it lie
// behind a lock, and their sum is a second word {tag, calls, bad}.  To count a call is
// one swap of the first word, and both words together are the whole window: no loop
// over buckets, and no lock but once a bucket.
//
// Invariants
//   (1) Whoever begins a bucket, or clears the window, holds the lock, gives the newest
//       word a new tag and only then writes the sum, with the same tag.  So two words of
//       one tag belong together, and a call that is counted into a word is in every sum
//       of a later tag, or was cleared.
//   (2) Of calls that are counted at once, the last one to swap sees all of them: some
//       thread sees the counts by which the breaker opens.
//   (3) Count asks still_mine() after it read the word and before it swaps it.  If the
//       answer turned to no before the window was cleared, then a call counted after the
//       clearing was asked after it too, and was told no.
//
// A tag has 16 bits: a thread that sleeps between its read and its swap for a multiple
// of 65,536 buckets, and finds the same counts again, counts one call too late.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "base/mutex.h"
#include "breaker/spec.h"

namespace flowguard::breaker {

// What threads meet in.  The test puts its own in its place (call_window_interleaving_test.cc).
struct ThreadSync {
  template <class T>
  using Atomic = std::atomic<T>;
  using Mutex = base::Mutex;
  using Lock = base::MutexLock;
};

// Counts are exact up to kCallsFull calls in the window.  There all counts are halved,
// which leaves ratios as they are; for kErrorCount only those of calls.
//
// Memory:   16 bytes a bucket; nothing is allocated after construction.
// Threads:  all methods from any thread.
template <class Sync>
class BasicCallWindow {
 public:
  // Above what min_calls and errors may be even when halved.  Below 2^24 by what
  // threads may add before one of them has halved the counts.
  static constexpr int64_t kCallsFull = (int64_t{1} << 24) - (int64_t{1} << 16);

  // Requires: CheckSpec(spec).
  explicit BasicCallWindow(const BreakerSpec& spec);

  // Counts a call that ended at `now`, if still_mine() says so.  Returns whether it did;
  // `counts` is then the window with it.
  // Time:  a `now` before the newest bucket counts in that.  A step back by more than
  //        kLateStampMax begins an empty window.
  // Cost:  one compare-and-swap; once a bucket a lock, and O(buckets).
  template <class F>
  bool Count(Instant now, bool bad, const F& still_mine, CallCounts& counts) noexcept {
    const int64_t at = now.time_since_epoch().count();
    for (;;) {
      if (!IsNewest(at)) [[unlikely]]
        Begin(at);
      uint64_t word = newest_.load(std::memory_order_acquire);
      if (!still_mine()) return false;
      const uint64_t next = word + kOneCall + uint64_t{bad};
      if (!newest_.compare_exchange_weak(word, next, std::memory_order_acq_rel)) continue;
      const uint64_t before = before_.load(std::memory_order_acquire);
      counts = {CallsOf(before) + CallsOf(next), BadOf(before) + BadOf(next)};
      if (TagOf(before) != TagOf(next) || counts.calls >= kCallsFull) [[unlikely]]
        counts = Settled();
      return true;
    }
  }

  // Forgets all calls.
  void Clear() noexcept;

  // The window as of `now`.  Begins no bucket.  Cost: a lock, O(buckets).
  [[nodiscard]] CallCounts Look(Instant now) const noexcept;

 private:
  struct Bucket {
    int64_t index = kNoBucket;
    uint32_t calls = 0;
    uint32_t bad = 0;
  };
  static constexpr int64_t kNoBucket = INT64_MIN;
  static constexpr int kCountBits = 24;
  static constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
  static constexpr uint64_t kOneCall = uint64_t{1} << kCountBits;
  static constexpr int64_t kLateNs = Duration(base::kLateStampMax).count();

  static uint64_t TagOf(uint64_t word) noexcept { return word >> (2 * kCountBits); }
  static int64_t CallsOf(uint64_t word) noexcept {
    return static_cast<int64_t>(word >> kCountBits & kCountMask);
  }
  static int64_t BadOf(uint64_t word) noexcept { return static_cast<int64_t>(word & kCountMask); }
  static uint64_t Pack(uint64_t tag, const CallCounts& counts) noexcept {
    return tag << (2 * kCountBits) | static_cast<uint64_t>(counts.calls) << kCountBits |
           static_cast<uint64_t>(counts.bad);
  }

  // Within the newest bucket, or before it by a late stamp.
  [[nodiscard]] bool IsNewest(int64_t at) const noexcept {
    const int64_t start = start_.load(std::memory_order_acquire);
    return static_cast<uint64_t>(at) - static_cast<uint64_t>(start) +
               static_cast<uint64_t>(kLateNs) <
           static_cast<uint64_t>(bucket_ns_ + kLateNs);
  }

  void Begin(int64_t at) noexcept;
  // The window's counts once no bucket is being begun; halves them where it is full.
  CallCounts Settled() noexcept;

  // Puts `counts` under a new tag, and returns the word that was there.
  uint64_t Swap(const CallCounts& counts) noexcept FG_REQUIRES(mutex_);
  void PublishSum() noexcept FG_REQUIRES(mutex_);
  void Halve() noexcept FG_REQUIRES(mutex_);
  // Of the ended buckets beyond `index`, and with the newest.
  [[nodiscard]] CallCounts PastAfter(int64_t index) const noexcept FG_REQUIRES(mutex_);
  [[nodiscard]] CallCounts SumAfter(int64_t index) const noexcept FG_REQUIRES(mutex_);
  [[nodiscard]] int64_t NewestIndex() const noexcept FG_REQUIRES(mutex_) {
    return start_.load(std::memory_order_relaxed) / bucket_ns_;
  }

  const int64_t bucket_ns_;
  const int64_t bucket_count_;
  const bool halves_bad_;
  typename Sync::template Atomic<int64_t> start_{0};  // of the newest bucket, ns
  // Written by every call; on a line apart from what every call only reads.
  alignas(64) typename Sync::template Atomic<uint64_t> newest_{0};
  typename Sync::template Atomic<uint64_t> before_{0};  // the sum of the buckets before

  mutable typename Sync::Mutex mutex_;
  // Bucket i at i mod bucket_count_.
  std::vector<Bucket> buckets_ FG_GUARDED_BY(mutex_);
};

extern template class BasicCallWindow<ThreadSync>;
using CallWindow = BasicCallWindow<ThreadSync>;

}  // namespace flowguard::breaker
