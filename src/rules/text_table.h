// SPDX-License-Identifier: Apache-2.0
//
// From (parent, text) to a number, by one hash and about one comparison.
//
// Threads: immutable once filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace flowguard::rules {

class TextTable {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Item {
    uint32_t parent;
    uint32_t value;
    std::string_view text;  // until the next Insert
  };

  TextTable() : slots_(kSlotsMin) {}

  // The hash to pass to Find: eight bytes a step, inline, since it is taken of every
  // segment of every path.  It needs no key: the texts in the table come from rules,
  // so nothing that a client sends makes a search longer.
  [[nodiscard]] static uint64_t HashOf(std::string_view text) noexcept {
    uint64_t hash = text.size() * kFactor;
    const char* at = text.data();
    size_t left = text.size();
    for (; left > 8; left -= 8, at += 8)
      hash = Step(hash, Load<uint64_t>(at));
    if (left >= 4)
      return Step(hash, Load<uint32_t>(at) | uint64_t{Load<uint32_t>(at + left - 4)} << 32);
    uint64_t last = 0;
    for (size_t i = 0; i < left; ++i)
      last = last << 8 | static_cast<unsigned char>(at[i]);
    return Step(hash, last);
  }

  // a == b.  Inline, in words that may overlap: a segment is too short for the call of
  // memcmp to be worth it.
  [[nodiscard]] static bool Same(std::string_view a, std::string_view b) noexcept {
    if (a.size() != b.size()) return false;
    const char* x = a.data();
    const char* y = b.data();
    const size_t size = a.size();
    if (size >= 8) {
      const size_t last = size - 8;
      for (size_t at = 0; at < last; at += 8) {
        if (Load<uint64_t>(x + at) != Load<uint64_t>(y + at)) return false;
      }
      return Load<uint64_t>(x + last) == Load<uint64_t>(y + last);
    }
    if (size >= 4) {
      return Load<uint32_t>(x) == Load<uint32_t>(y) &&
             Load<uint32_t>(x + size - 4) == Load<uint32_t>(y + size - 4);
    }
    for (size_t i = 0; i < size; ++i) {
      if (x[i] != y[i]) return false;
    }
    return true;
  }

  // The value; kNone when absent.
  [[nodiscard]] uint32_t Find(uint32_t parent, std::string_view text,
                              uint64_t hash) const noexcept {
    hash = Mix(hash, parent);
    const Slot* const slots = slots_.data();
    const size_t mask = mask_;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
      const Slot& slot = slots[i];
      if (slot.value == kNone) return kNone;
      if (slot.hash == hash && slot.parent == parent && Same(TextOf(slot), text)) {
        return slot.value;
      }
    }
  }

  // The value that is there already, or else `value`, which is now.
  // Requires: value != kNone.
  uint32_t Insert(uint32_t parent, std::string_view text, uint32_t value);

  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] std::vector<Item> Items() const;

 private:
  static constexpr size_t kSlotsMin = 8;  // never full: a search ends at an empty slot
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;

  struct Slot {
    uint64_t hash = 0;
    uint32_t parent = 0;
    uint32_t value = kNone;
    uint32_t offset = 0;
    uint32_t length = 0;
  };

  [[nodiscard]] static uint64_t Mix(uint64_t hash, uint32_t parent) noexcept {
    return hash ^ (parent * kFactor);
  }
  template <typename T>
  [[nodiscard]] static T Load(const char* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  [[nodiscard]] static uint64_t Step(uint64_t hash, uint64_t word) noexcept {
    hash = (hash ^ word) * kFactor;
    return hash ^ hash >> 32;
  }
  [[nodiscard]] std::string_view TextOf(const Slot& slot) const noexcept {
    return {texts_.data() + slot.offset, slot.length};
  }
  void Place(const Slot& slot) noexcept;

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t mask_ = kSlotsMin - 1;
  std::string texts_;
  size_t size_ = 0;
};

}  // namespace flowguard::rules
