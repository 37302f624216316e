// SPDX-License-Identifier: Apache-2.0
//
// From (parent, text) to a number, by one hash and about one comparison.
//
// Threads: immutable once filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/short_text.h"

namespace flowguard::rules {

class TextTable {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // Where a text of the table is kept.
  struct Place {
    uint32_t offset = 0;
    uint32_t length = 0;
  };

  struct Item {
    uint32_t parent;
    uint32_t value;
    std::string_view text;  // until the next Insert
    Place place;
  };

  TextTable() : slots_(kSlotsMin) {}

  // Whether `text` is the one that is kept there.
  [[nodiscard]] bool Is(Place place, std::string_view text) const noexcept {
    return base::SameText(TextAt(place), text);
  }

  // The value; kNone when absent.  Out of line: it is one call a request or two, and
  // inlined it takes the registers of the walk over the path.
  [[nodiscard]] uint32_t Find(uint32_t parent, std::string_view text) const noexcept;

  // The value that is there already, or else `value`, which is now.
  // Requires: value != kNone.
  uint32_t Insert(uint32_t parent, std::string_view text, uint32_t value);

  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] std::vector<Item> Items() const;

 private:
  static constexpr size_t kSlotsMin = 8;  // never full: a search ends at an empty slot
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  static constexpr uint64_t kTailFactor = 0xc2b2ae3d27d4eb4f;

  struct Slot {
    uint64_t hash = 0;
    uint32_t parent = 0;
    uint32_t value = kNone;
    Place place;
  };

  [[nodiscard]] static uint64_t HashOf(std::string_view text) noexcept;
  [[nodiscard]] static uint64_t Mix(uint64_t hash, uint32_t parent) noexcept {
    return hash ^ (parent * kFactor);
  }
  [[nodiscard]] static uint64_t Mum(uint64_t a, uint64_t b) noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  [[nodiscard]] std::string_view TextAt(Place place) const noexcept {
    return {texts_.data() + place.offset, place.length};
  }
  void Put(const Slot& slot) noexcept;

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t mask_ = kSlotsMin - 1;
  std::string texts_;
  size_t size_ = 0;
};

}  // namespace flowguard::rules
