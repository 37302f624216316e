// SPDX-License-Identifier: Apache-2.0
#include "stats/space_saving.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace flowguard::stats {

static_assert(base::kTopValuesMax < UINT16_MAX && base::kTopValueBytesMax <= UINT8_MAX);

SpaceSaving::SpaceSaving(size_t capacity)
    : capacity_(capacity), index_(std::bit_ceil(2 * capacity)) {
  FG_CHECK(capacity >= 1 && capacity <= base::kTopValuesMax);
  entries_.reserve(capacity);
  heap_.reserve(capacity);
}

size_t SpaceSaving::SlotOf(uint64_t hash) const noexcept {
  size_t slot = hash & (index_.size() - 1);
  while (index_[slot] != 0 && entries_[index_[slot] - 1].hash != hash)
    slot = (slot + 1) & (index_.size() - 1);
  return slot;
}

const SpaceSaving::Entry* SpaceSaving::Find(uint64_t hash) const noexcept {
  const uint16_t found = index_[SlotOf(hash)];
  return found == 0 ? nullptr : &entries_[found - 1];
}

void SpaceSaving::Unindex(uint64_t hash) noexcept {
  const size_t mask = index_.size() - 1;
  size_t free = SlotOf(hash);
  index_[free] = 0;
  // Entries behind it move up, where their own slot does not lie between.
  for (size_t slot = (free + 1) & mask; index_[slot] != 0; slot = (slot + 1) & mask) {
    const size_t home = entries_[index_[slot] - 1].hash & mask;
    if (((slot - home) & mask) >= ((slot - free) & mask)) {
      index_[free] = index_[slot];
      index_[slot] = 0;
      free = slot;
    }
  }
}

void SpaceSaving::Add(uint64_t hash, std::string_view text, double weight) noexcept {
  total_ += weight;
  const size_t slot = SlotOf(hash);
  if (index_[slot] != 0) {
    Entry& entry = entries_[index_[slot] - 1];
    entry.count += weight;
    SiftDown(entry.heap_place);
    return;
  }
  const auto keep = [&](Entry& entry) {
    entry.hash = hash;
    entry.size = static_cast<uint8_t>(std::min(text.size(), entry.text.size()));
    std::copy_n(text.begin(), entry.size, entry.text.begin());
  };
  if (entries_.size() < capacity_) {
    const auto fresh = static_cast<uint16_t>(entries_.size());
    keep(entries_.emplace_back());
    entries_[fresh].count = weight;
    index_[slot] = static_cast<uint16_t>(fresh + 1);
    heap_.push_back(fresh);
    SetHeap(fresh, fresh);
    SiftUp(fresh);
    return;
  }
  const uint16_t least = heap_[0];
  Entry& entry = entries_[least];
  Unindex(entry.hash);
  keep(entry);
  entry.error = entry.count;
  entry.count += weight;
  index_[SlotOf(hash)] = static_cast<uint16_t>(least + 1);
  SiftDown(0);
}

void SpaceSaving::Scale(double factor) noexcept {
  total_ *= factor;
  for (Entry& entry : entries_) {
    entry.count *= factor;
    entry.error *= factor;
  }
}

void SpaceSaving::SetHeap(size_t place, uint16_t entry) noexcept {
  heap_[place] = entry;
  entries_[entry].heap_place = static_cast<uint16_t>(place);
}

void SpaceSaving::SiftUp(size_t place) noexcept {
  const uint16_t moved = heap_[place];
  while (place > 0) {
    const size_t parent = (place - 1) / 2;
    if (entries_[heap_[parent]].count <= entries_[moved].count) break;
    SetHeap(place, heap_[parent]);
    place = parent;
  }
  SetHeap(place, moved);
}

void SpaceSaving::SiftDown(size_t place) noexcept {
  const uint16_t moved = heap_[place];
  for (;;) {
    size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() &&
        entries_[heap_[child + 1]].count < entries_[heap_[child]].count) {
      ++child;
    }
    if (entries_[heap_[child]].count >= entries_[moved].count) break;
    SetHeap(place, heap_[child]);
    place = child;
  }
  SetHeap(place, moved);
}

}  // namespace flowguard::stats
