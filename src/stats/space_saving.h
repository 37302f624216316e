// SPDX-License-Identifier: Apache-2.0
//
// The heaviest values of a stream in fixed memory: the Space-Saving algorithm (Metwally,
// Agrawal, El Abbadi 2005), with weights.
//
// With k entries and a total weight N so far, for every value that is kept:
//   count - error <= its weight <= count, and error <= N / k
// and every value of a weight above N / k is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bounds.h"

namespace flowguard::stats {

// Threads: as an ordinary value.
// Memory:  96 bytes an entry, and 8 to 16 for finding it.
class SpaceSaving {
 public:
  struct Entry {
    uint64_t hash = 0;
    double count = 0;
    double error = 0;
    uint16_t heap_place = 0;
    uint8_t size = 0;
    std::array<char, base::kTopValueBytesMax> text{};

    [[nodiscard]] std::string_view Text() const noexcept { return {text.data(), size}; }
  };

  // Requires: 1 <= capacity <= kTopValuesMax.
  explicit SpaceSaving(size_t capacity);

  // Adds to a value, which is told apart by its hash alone; its text is kept up to
  // kTopValueBytesMax.
  // Requires: weight >= 0.
  // Cost:     O(log capacity), mostly less.
  void Add(uint64_t hash, std::string_view text, double weight) noexcept;

  // Multiplies all counts.
  void Scale(double factor) noexcept;

  // In no order.
  [[nodiscard]] std::span<const Entry> Entries() const noexcept { return entries_; }
  [[nodiscard]] const Entry* Find(uint64_t hash) const noexcept;
  [[nodiscard]] double Total() const noexcept { return total_; }
  // The most that a value which is not kept can weigh.
  [[nodiscard]] double Unkept() const noexcept {
    return entries_.size() < capacity_ ? 0 : entries_[heap_[0]].count;
  }

 private:
  [[nodiscard]] size_t SlotOf(uint64_t hash) const noexcept;  // of it, or the free one for it
  void Unindex(uint64_t hash) noexcept;
  void SiftUp(size_t place) noexcept;
  void SiftDown(size_t place) noexcept;
  void SetHeap(size_t place, uint16_t entry) noexcept;

  const size_t capacity_;
  double total_ = 0;
  std::vector<Entry> entries_;
  std::vector<uint16_t> heap_;   // entries, the least count first
  std::vector<uint16_t> index_;  // entry + 1 by hash, linear probing; 0: free
};

}  // namespace flowguard::stats
