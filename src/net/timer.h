// SPDX-License-Identifier: Apache-2.0
//
// Timers of one loop: a 4-ary heap with lazy re-arming.
//
// A connection moves its time-out forward with every request.  Moving a deadline
// later is one store: the heap keeps the earlier entry, and when that comes up the
// timer is put back for its real deadline.  Thousands of idle connections thus cost
// a request nothing.
//
// Threads: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "flowguard/time.h"

namespace flowguard::net {

class TimerHeap;

// Something with a deadline, usually a member of what it wakes.
class Timer {
 public:
  using Callback = void (*)(void* owner) noexcept;

  Timer(Callback callback, void* owner) noexcept : callback_(callback), owner_(owner) {}
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  [[nodiscard]] bool armed() const noexcept { return deadline_ != kIdle; }
  [[nodiscard]] Instant deadline() const noexcept { return deadline_; }

  // Forgets the deadline; the entry in the heap goes when it comes up.
  void Disarm() noexcept { deadline_ = kIdle; }

 private:
  friend class TimerHeap;
  static constexpr Instant kIdle = Instant::max();
  static constexpr uint32_t kNowhere = UINT32_MAX;

  Callback callback_;
  void* owner_;
  TimerHeap* heap_ = nullptr;
  Instant deadline_ = kIdle;  // when to fire
  uint32_t position_ = kNowhere;
};

class TimerHeap {
 public:
  TimerHeap() = default;
  TimerHeap(const TimerHeap&) = delete;
  TimerHeap& operator=(const TimerHeap&) = delete;
  ~TimerHeap();

  // Fires `timer` at `deadline`, once; replaces an earlier deadline.
  // Cost: one store when the deadline moves later, else O(log n).
  void Arm(Timer& timer, Instant deadline) noexcept;

  // Runs every timer whose deadline is not after `now`, in order of time.
  // A callback may arm, disarm and destroy timers, its own included.
  void Fire(Instant now) noexcept;

  // The time of the first entry, which may be earlier than any deadline;
  // Instant::max() when there is none.
  [[nodiscard]] Instant Next() const noexcept;
  [[nodiscard]] size_t size() const noexcept { return entries_.size(); }

 private:
  friend class Timer;
  struct Entry {
    Instant at;
    Timer* timer;
  };
  void Remove(Timer& timer) noexcept;
  void Place(uint32_t index, Entry entry) noexcept;
  void Up(uint32_t index, Entry entry) noexcept;
  void Down(uint32_t index, Entry entry) noexcept;

  std::vector<Entry> entries_;
};

}  // namespace flowguard::net
