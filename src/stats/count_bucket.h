// SPDX-License-Identifier: Apache-2.0
//
// One bucket of one shard: what was counted in one span of time, a cache line.
//
// The head says which bucket of the time line is held, and how often the line was opened
// for another one; each number carries that turn as its tag.
//
//   open                                  add                      read
//   every word of an older turn := 0      head is mine? tag        head is mine? tag
//   head := (turn + 1, index)             word of that tag? add    word of that tag? count
//
// The words are cleared before the head tells the new turn, so a word whose tag is the
// head's belongs to the head's bucket, and any other counts for nothing.  Several threads
// may open a line for the same bucket: all clear it to the same turn, a cleared word is not
// of an older turn any more, and one of them sets the head.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "stats/counts.h"
#include "stats/tagged_word.h"

namespace flowguard::stats {

enum class Event : uint8_t {
  kPassed,
  kBlocked,
  kSucceeded,
  kFailed,
  kRtSum,
  kRtMin,
  kInflightMax,
};
inline constexpr size_t kEvents = 7;

// What the number of an event is before anything was counted.
[[nodiscard]] constexpr uint64_t EventStart(size_t event) noexcept {
  return event == static_cast<size_t>(Event::kRtMin) ? kTaggedMax : 0;
}

// The numbers of a bucket, each at most kTaggedMax.
[[nodiscard]] inline Counts CountsOf(const std::array<uint64_t, kEvents>& values) noexcept {
  const auto value = [&values](Event event) {
    return static_cast<int64_t>(values[static_cast<size_t>(event)]);
  };
  Counts counts;
  counts.passed = value(Event::kPassed);
  counts.blocked = value(Event::kBlocked);
  counts.succeeded = value(Event::kSucceeded);
  counts.failed = value(Event::kFailed);
  counts.rt_sum = Duration(value(Event::kRtSum));
  counts.inflight_max = value(Event::kInflightMax);
  const int64_t least = value(Event::kRtMin);
  if (least != static_cast<int64_t>(kTaggedMax)) counts.rt_min = Duration(least);
  return counts;
}

// Atomic: std::atomic, or in tests one that lets another thread in between.
template <template <typename> typename Atomic>
class alignas(64) BasicCountBucket {
 public:
  [[nodiscard]] uint64_t Head() const noexcept { return head_.load(std::memory_order_acquire); }

  // Opens the line for `index` if its head still is `head`; if not, another thread did.
  void Open(uint64_t head, int64_t index) noexcept {
    const auto tag = static_cast<Tag>(TagOf(head) + 1);
    for (size_t i = 0; i < kEvents; ++i) {
      uint64_t old = words_[i].load(std::memory_order_relaxed);
      while (IsOlder(TagOf(old), tag)) {
        if (words_[i].compare_exchange_weak(old, Tagged(tag, EventStart(i)),
                                            std::memory_order_relaxed)) {
          break;
        }
      }
    }
    head_.compare_exchange_strong(head, Tagged(tag, static_cast<uint64_t>(index)),
                                  std::memory_order_acq_rel);
  }
  // The number as it is now; none if the line was opened for another bucket, and then
  // nothing was counted.
  template <typename Change>
  std::optional<uint64_t> Update(Tag tag, Event event, Change change) noexcept {
    Atomic<uint64_t>& word = words_[static_cast<size_t>(event)];
    uint64_t old = word.load(std::memory_order_relaxed);
    while (TagOf(old) == tag) {
      const uint64_t value = change(ValueOf(old));
      if (word.compare_exchange_weak(old, Tagged(tag, value), std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
        return value;
      }
    }
    return std::nullopt;
  }
  // Adds what was counted for `index` to `counts`.
  void AddTo(int64_t index, Counts& counts) const noexcept {
    const uint64_t head = Head();
    if (ValueOf(head) != static_cast<uint64_t>(index)) return;
    std::array<uint64_t, kEvents> values;
    for (size_t i = 0; i < kEvents; ++i) {
      const uint64_t word = words_[i].load(std::memory_order_relaxed);
      values[i] = TagOf(word) == TagOf(head) ? ValueOf(word) : EventStart(i);
    }
    counts += CountsOf(values);
  }

 private:
  Atomic<uint64_t> head_{Tagged(0, kTaggedMax)};  // no bucket yet: above every index
  std::array<Atomic<uint64_t>, kEvents> words_{};
};
using CountBucket = BasicCountBucket<std::atomic>;
static_assert(sizeof(CountBucket) == 64);

}  // namespace flowguard::stats
