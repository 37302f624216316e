// SPDX-License-Identifier: Apache-2.0
#include "rules/text_table.h"

#include "base/check.h"

namespace flowguard::rules {

void TextTable::Place(const Slot& slot) noexcept {
  size_t i = slot.hash & mask_;
  while (slots_[i].value != kNone)
    i = (i + 1) & mask_;
  slots_[i] = slot;
}

uint32_t TextTable::Insert(uint32_t parent, std::string_view text, uint32_t value) {
  const uint64_t hash = HashOf(text);
  const uint32_t found = Find(parent, text, hash);
  if (found != kNone) return found;
  if ((size_ + 1) * 2 > slots_.size()) {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.value != kNone) Place(slot);
    }
  }
  FG_CHECK(texts_.size() + text.size() < kNone);
  Place({Mix(hash, parent), parent, value, static_cast<uint32_t>(texts_.size()),
         static_cast<uint32_t>(text.size())});
  texts_ += text;
  ++size_;
  return value;
}

std::vector<TextTable::Item> TextTable::Items() const {
  std::vector<Item> items;
  items.reserve(size_);
  for (const Slot& slot : slots_) {
    if (slot.value != kNone) items.push_back({slot.parent, slot.value, TextOf(slot)});
  }
  return items;
}

}  // namespace flowguard::rules
