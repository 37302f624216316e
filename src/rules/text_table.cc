// SPDX-License-Identifier: Apache-2.0
#include "rules/text_table.h"

#include "base/check.h"

namespace flowguard::rules {

// Two loads that may overlap and one multiplication, since
// it is taken of segments of every path.  Both halves of the product count, so that
// texts which differ in one digit spread.  It needs no key: the texts in the table
// come from rules, so nothing that a client sends makes a search longer.
inline uint64_t TextTable::HashOf(std::string_view text) noexcept {
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = left;
  for (; left > 16; left -= 8, at += 8)
    hash = Mum(hash ^ base::LoadWord<uint64_t>(at), kFactor);
  uint64_t head = 0;
  uint64_t tail = 0;
  if (left >= 8) {
    head = base::LoadWord<uint64_t>(at);
    tail = base::LoadWord<uint64_t>(at + left - 8);
  } else if (left >= 4) {
    head = base::LoadWord<uint32_t>(at);
    tail = base::LoadWord<uint32_t>(at + left - 4);
  } else if (left != 0) {
    head = static_cast<unsigned char>(at[0]);
    tail = static_cast<uint64_t>(static_cast<unsigned char>(at[left / 2])) << 8 |
           static_cast<unsigned char>(at[left - 1]);
  }
  return Mum(hash ^ head ^ kFactor, tail ^ kTailFactor);
}

uint32_t TextTable::Find(uint32_t parent, std::string_view text) const noexcept {
  const uint64_t hash = Mix(HashOf(text), parent);
  const Slot* const slots = slots_.data();
  const size_t mask = mask_;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots[i];
    if (slot.value == kNone) return kNone;
    if (slot.hash == hash && slot.parent == parent && base::SameText(TextAt(slot.place), text)) {
      return slot.value;
    }
  }
}

void TextTable::Put(const Slot& slot) noexcept {
  size_t i = slot.hash & mask_;
  while (slots_[i].value != kNone)
    i = (i + 1) & mask_;
  slots_[i] = slot;
}

uint32_t TextTable::Insert(uint32_t parent, std::string_view text, uint32_t value) {
  const uint32_t found = Find(parent, text);
  if (found != kNone) return found;
  if ((size_ + 1) * 2 > slots_.size()) {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.value != kNone) Put(slot);
    }
  }
  FG_CHECK(texts_.size() + text.size() < kNone);
  Put({Mix(HashOf(text), parent),
       parent,
       value,
       {static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size())}});
  texts_ += text;
  ++size_;
  return value;
}

std::vector<TextTable::Item> TextTable::Items() const {
  std::vector<Item> items;
  items.reserve(size_);
  for (const Slot& slot : slots_) {
    if (slot.value != kNone) {
      items.push_back({slot.parent, slot.value, TextAt(slot.place), slot.place});
    }
  }
  return items;
}

}  // namespace flowguard::rules
