// SPDX-License-Identifier: Apache-2.0
//
// A value that is replaced whole while any number of threads read it.
//
// Readers pin the current value for the length of one decision by counting in a
// cache line of their own thread, so readers share no written line.  A replaced
// value is freed when all threads' counts of it are zero.
//
//   reader                           writer
//   g = current                      values[h] = new
//   ++count[own thread][g]           current = h
//   current still g?  read           count[every thread][g] all 0?  free values[g]
//   --count[own thread][g]
//
// Either the reader's second look at `current` sees h, and it starts over, or the
// writer's look at the counts, which comes after, sees its count (all four are
// sequentially consistent).  A count that is up for a moment by a reader that
// starts over only delays a free.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "base/bounds.h"
#include "base/mutex.h"
#include "base/thread_slot.h"

namespace flowguard::engine {

// Threads: all methods from any thread; Replace is serialised inside.
template <typename T>
class Generations {
 public:
  // Keeps one value alive.  Meant for moments: Replace may wait for it.
  // Threads: stays on its thread.
  class Pin {
   public:
    Pin(const T* value, std::atomic<uint32_t>* count, size_t slot) noexcept
        : value_(value), count_(count), slot_(slot) {}
    ~Pin() { Drop(slot_, *count_); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

    const T& operator*() const noexcept { return *value_; }
    const T* operator->() const noexcept { return value_; }

   private:
    const T* value_;
    std::atomic<uint32_t>* count_;
    size_t slot_;
  };

  explicit Generations(std::unique_ptr<const T> first) noexcept { values_[0] = std::move(first); }
  Generations(const Generations&) = delete;
  Generations& operator=(const Generations&) = delete;

  // Cost:     no lock; one atomic addition on a line of the calling thread.
  [[nodiscard]] Pin Get() const noexcept { return Get(base::ThreadSlot()); }
  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  [[nodiscard]] Pin Get(size_t slot) const noexcept {
    Line& line = lines_[slot];
    for (;;) {
      const uint64_t generation = current_.load(std::memory_order_acquire);
      std::atomic<uint32_t>& count = line.counts[generation % base::kSnapshotsMax];
      count.fetch_add(1, std::memory_order_seq_cst);
      if (current_.load(std::memory_order_seq_cst) == generation) [[likely]] {
        return Pin(values_[generation % base::kSnapshotsMax].get(), &count, slot);
      }
      Drop(slot, count);
    }
  }

  // Readers that come after see `value`.  Waits while kSnapshotsMax values are read
  // at once, which lasts as long as a decision.
  void Replace(std::unique_ptr<const T> value) FG_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    const uint64_t next = current_.load(std::memory_order_relaxed) + 1;
    while (!Free(next % base::kSnapshotsMax))
      std::this_thread::yield();
    values_[next % base::kSnapshotsMax] = std::move(value);
    current_.store(next, std::memory_order_seq_cst);
    FreeRetired(next);
  }

  // How many values are in memory; frees those that nobody reads any more.
  size_t Count() FG_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    return FreeRetired(current_.load(std::memory_order_relaxed));
  }

 private:
  struct alignas(64) Line {
    std::array<std::atomic<uint32_t>, base::kSnapshotsMax> counts{};
  };

  // Subtracts one: what was read of the value was read before.
  static void Drop(size_t slot, std::atomic<uint32_t>& count) noexcept {
    base::AddInSlot(slot, count, ~uint32_t{0}, std::memory_order_release);
  }

  bool Free(size_t index) FG_REQUIRES(mutex_) {
    if (values_[index] == nullptr) return true;
    for (const Line& line : lines_) {
      if (line.counts[index].load(std::memory_order_seq_cst) != 0) return false;
    }
    values_[index] = nullptr;
    return true;
  }
  size_t FreeRetired(uint64_t current) FG_REQUIRES(mutex_) {
    size_t left = 1;
    for (size_t i = 0; i < base::kSnapshotsMax; ++i) {
      if (i != current % base::kSnapshotsMax && !Free(i)) ++left;
    }
    return left;
  }

  base::Mutex mutex_;
  std::atomic<uint64_t> current_{0};
  // Written under mutex_, before `current_` names the entry; read by holders of a
  // count of it.
  std::array<std::unique_ptr<const T>, base::kSnapshotsMax> values_;
  mutable std::array<Line, base::kThreadSlots> lines_;
};

}  // namespace flowguard::engine
