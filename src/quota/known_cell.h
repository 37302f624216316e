// SPDX-License-Identifier: Apache-2.0
//
// What a store knows of one cell on a server: who waits for it, what it refused lately,
// what this node holds of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "base/hash.h"
#include "limit/numbers.h"
#include "quota/cell_server.h"
#include "quota/prefilter.h"

namespace flowguard::quota {

struct Ask;

// Refusals of a cell, by cost: until then it refuses again, whoever asks.
//
// Sound for every algorithm: a refusal takes nothing, and what others take makes the wait
// longer only.  Only a give-back makes it shorter: ours makes the list empty, and one of
// another node is noticed after kDenyMax at the latest.
class DenyList {
 public:
  // The answer to a take of `cost` that left at `sent` and came back at `received`.
  void Add(int64_t cost, const limit::Numbers& numbers, Instant sent, Instant received) noexcept {
    if (numbers.retry_after <= Duration::zero()) return;
    Entry* const entry = Room(cost);
    entry->cost = cost;
    // The server counted from a moment after `sent`.
    entry->until = sent + std::min(numbers.retry_after, base::kDenyMax);
    entry->told_at = received;
    entry->numbers = numbers;
  }
  // The refusal, with the time that is left of it.
  [[nodiscard]] std::optional<limit::Numbers> Find(int64_t cost, Instant now) const noexcept {
    for (size_t i = 0; i < size_; ++i) {
      const Entry& entry = entries_[i];
      if (entry.cost != cost || now >= entry.until) continue;
      limit::Numbers numbers = entry.numbers;
      const Duration passed = now - entry.told_at;
      if (numbers.retry_after != kNever) {
        numbers.retry_after = std::max(numbers.retry_after - passed, Duration(1));
      }
      numbers.reset_after = std::max(numbers.reset_after - passed, Duration::zero());
      return numbers;
    }
    return std::nullopt;
  }
  void Clear() noexcept { size_ = 0; }

 private:
  struct Entry {
    int64_t cost = 0;
    Instant until;
    Instant told_at;
    limit::Numbers numbers;
  };

  // The entry of `cost`, a free one, or the one that ends first.
  Entry* Room(int64_t cost) noexcept {
    for (size_t i = 0; i < size_; ++i) {
      if (entries_[i].cost == cost) return &entries_[i];
    }
    if (size_ < entries_.size()) return &entries_[size_++];
    return std::min_element(entries_.begin(), entries_.end(),
                            [](const Entry& a, const Entry& b) { return a.until < b.until; });
  }

  size_t size_ = 0;
  std::array<Entry, base::kDeniedCostsMax> entries_;
};

// Units taken ahead.
struct Lease {
  int64_t units = 0;   // left
  int64_t mark = 0;    // the server's name for it
  bool open = false;   // the server counts it as outstanding
  bool asked = false;  // for one, in a flight
  Instant expires;
  Instant used_at;
  int64_t size = 1;  // of the next; 1: none, for asking is exact
};

// Concurrency slots that this node holds, by the epoch of their owner.
//
// An outcome that is not known may have left a slot behind that nobody will release.  The
// server renews all slots of an owner at once, so such a slot would live as long as any
// other of its owner: a new epoch begins, and when the slots of the old one are released
// it is renewed no more, and expires.  A renewal tells how many slots there are, for the server
// may have forgotten them; one that is carried out after a later release would bring a slot
// back that nobody has, so that releases wait for the renewals that are out, and an epoch
// ends when it is not known what became of one.
class SlotBook {
 public:
  struct Entry {
    uint32_t epoch = 0;
    int64_t held = 0;
  };

  [[nodiscard]] uint32_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] bool any() const noexcept {
    return std::any_of(entries_.begin(), entries_.end(),
                       [](const Entry& entry) { return entry.held > 0; });
  }
  [[nodiscard]] const std::array<Entry, base::kSlotEpochsMax>& entries() const noexcept {
    return entries_;
  }
  void Add(uint32_t epoch, int64_t slots) noexcept {
    Entry* free = nullptr;
    for (Entry& entry : entries_) {
      if (entry.held > 0 && entry.epoch == epoch) {
        entry.held += slots;
        return;
      }
      if (entry.held <= 0) free = &entry;
    }
    if (free != nullptr) *free = {epoch, slots};
  }
  void Remove(uint32_t epoch, int64_t slots) noexcept {
    for (Entry& entry : entries_) {
      if (entry.held > 0 && entry.epoch == epoch) entry.held -= slots;
    }
  }
  // `epoch` is greater than all before.  Too many of those have slots still: the present one
  // goes on, and the next unknown outcome tries again.
  void BeginEpoch(uint32_t epoch) noexcept {
    // One entry is left for the flight that is out under the present epoch.
    const auto in_use = std::count_if(entries_.begin(), entries_.end(),
                                      [](const Entry& entry) { return entry.held > 0; });
    if (static_cast<size_t>(in_use) + 1 < entries_.size()) epoch_ = epoch;
  }
  void Clear(uint32_t epoch) noexcept {
    entries_ = {};
    epoch_ = epoch;
  }

 private:
  std::array<Entry, base::kSlotEpochsMax> entries_{};
  uint32_t epoch_ = 0;
};

// Of thousands of cells each line of memory has to be fetched.  Every take finds what it asks
// in the first, writes the second, and sends what stands in the third and fourth; what
// few cells have comes after, and the first line tells whether there is any.
struct alignas(64) KnownCell {
  base::Hash128 id;  // of key and shape
  KnownCell* chain = nullptr;
  size_t pool_index = 0;
  // Who waits for it, in order of arrival.
  Ask* first = nullptr;
  Ask* last_ask = nullptr;
  uint32_t pins = 0;       // while in use it is not forgotten
  uint32_t place = 0;      // see CellServer::PlaceOf
  bool joins : 1 = false;  // see CellServer::TakesJoin
  bool in_flight : 1 = false;
  bool listed_dirty : 1 = false;
  bool listed_leased : 1 = false;
  bool listed_held : 1 = false;  // at held_at
  bool leases : 1 = false;       // overshoot > 0
  bool denies : 1 = false;       // denials may hold some
  bool filters : 1 = false;      // filter.enabled()

  alignas(64) limit::Numbers last;       // what the server told with its last grant
  Instant returned_at = Instant::min();  // when our last give-back left; max(): it waits still
  int64_t overshoot = 0;                 // of leases

  CellShape shape;
  size_t key_size = 0;
  std::array<char, base::kCellKeyBytesMax> key_bytes;

  Lease lease;
  DenyList denials;
  Prefilter filter;
  SlotBook slots;
  Instant renew_at;
  uint32_t renewals_out = 0;  // in flights
  size_t held_at = 0;         // in the store's list of those that have slots

  // Whether either of these may tell a refusal.
  [[nodiscard]] bool MayRefuse() const noexcept { return denies || filters; }
  // What DenyList tells.
  [[nodiscard]] std::optional<limit::Numbers> Denial(int64_t cost, Instant now) const noexcept {
    return denies ? denials.Find(cost, now) : std::nullopt;
  }
  void ForgetDenials() noexcept {
    denials.Clear();
    denies = false;
  }
  // What Prefilter tells.
  [[nodiscard]] std::optional<limit::Numbers> Filtered(int64_t cost, Instant now) const noexcept {
    return filters ? filter.Refusal(now, cost) : std::nullopt;
  }

  [[nodiscard]] std::string_view key() const noexcept { return {key_bytes.data(), key_size}; }
};

}  // namespace flowguard::quota
