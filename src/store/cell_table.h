// SPDX-License-Identifier: Apache-2.0
//
// The table of one-word cells: fixed capacity, no lock, no allocation after
// Create.  A cell's word is the instant, in ns, after which its key may be
// forgotten (the TAT of a GCRA, the end of a window); a word at or before `now`
// therefore equals an absent key, and its slot may be claimed by any key.
//
//   first choice            second choice           stash, a 32nd of the table
//   [8 slots of 16 bytes]   [8 slots of 16 bytes]   [8 slots of 16 bytes]
//    {owner, word} ...        {owner, word} ...        {owner, word} ...
//
// A key has two buckets, chosen by one half of its hash, and an owner tag, which
// is the other half.  It goes to its first bucket while that is at most half
// full, else to the emptier of the two, so that five of six lookups touch one
// bucket (two cache lines); where both are full, to a bucket of the stash.  With
// `capacity` live keys the table is 0.70 full, and no key is forgotten.
//
// When all places of a key are taken by live cells, the one with the smallest
// word is evicted and counted.  The smallest word is the cell that would be
// forgotten first anyway: within one rule the one nearest to its full quota, so
// an exhausted key is never evicted while a fuller one is at hand.  Between rules
// this is an approximation: a cell just used of a rule per hour outlives an
// exhausted one of a rule per second.
//
// How threads agree on one cell a key, and the proof: cell_protocol.h.
//
// Memory: 16 / 0.70 * 33/32 = 23.57 bytes a key of capacity.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/check.h"
#include "base/hash.h"
#include "store/cell_memory.h"
#include "store/cell_protocol.h"

namespace flowguard::store {

struct CellTableStats {
  size_t capacity = 0;  // live keys that are never forgotten
  size_t slots = 0;
  size_t bytes = 0;            // of slots; all that the table takes but a page or so
  uint64_t evictions = 0;      // live cells forgotten because the table was full
  uint64_t stash_inserts = 0;  // cells that found both buckets full
};

// Threads: all methods but Create and the destructor, from any thread.  Lock-free;
// where the machine has no 16-byte compare-and-swap, short spins (cell_memory.h).
class CellTable {
 public:
  // Errors: kInvalidArgument when `capacity` is outside [kCellCapacityMin,
  // kCellCapacityMax]; kResourceExhausted when the system has no such memory.
  static Result<std::unique_ptr<CellTable>> Create(size_t capacity);
  ~CellTable();
  CellTable(const CellTable&) = delete;
  CellTable& operator=(const CellTable&) = delete;

  // Decides on the word of `key` and stores what was decided, as one step.
  //
  // `f(int64_t& word) -> bool` sees 0 for a key that is absent (or whose word is
  // not after `now`), and says whether the word that it leaves is to be stored.
  // If it returns false nothing is written and no cell is made.  It may run
  // several times, and must depend on nothing but `word`; what its last run
  // decided is what holds.
  //
  // Requires: 0 <= word <= 2^62 as left by f; f does not throw.
  // Cost:     no allocation, no lock; one CAS on a key that is there, two to insert.
  template <class F>
  CellUpdate Update(const base::Hash128& key, Instant now, F&& f) noexcept {
    return protocol_.Update(PlacesOf(key), OwnerOf(key), Ns(now), f);
  }

  // The same for keys that are there: for giving back and charging.  Returns
  // whether something was stored; false if the key is absent, or its slot has
  // another owner by now, or f said no.
  template <class F>
  bool UpdateExisting(const base::Hash128& key, Instant now, F&& f) noexcept {
    return protocol_.UpdateExisting(PlacesOf(key), OwnerOf(key), Ns(now), f);
  }

  // The word of `key`; 0 if absent.
  [[nodiscard]] int64_t Read(const base::Hash128& key, Instant now) const noexcept {
    return protocol_.Read(PlacesOf(key), OwnerOf(key), Ns(now));
  }

  // Starts to load the bucket that most likely holds `key`.
  void Prefetch(const base::Hash128& key) const noexcept {
    memory_.PrefetchBucket(PlacesOf(key).start[0]);
  }

  // Once that bucket is here: starts to load the second one if `key` is not in it.
  void PrefetchSecond(const base::Hash128& key) const noexcept {
    const CellPlaces places = PlacesOf(key);
    const uint64_t owner = OwnerOf(key);
    if (memory_.OwnedBy(places.start[0], owner) == 0) memory_.PrefetchBucket(places.start[1]);
  }

  [[nodiscard]] CellTableStats Stats() const noexcept;

  // About how many cells are live, from a sample of at most 1,024 buckets.
  [[nodiscard]] size_t LiveApprox(Instant now) const noexcept;

 private:
  explicit CellTable(size_t capacity) noexcept;

  static int64_t Ns(Instant now) noexcept { return now.time_since_epoch().count(); }

  // Zero is the owner of empty slots.
  static uint64_t OwnerOf(const base::Hash128& key) noexcept {
    return key.high == 0 ? 1 : key.high;
  }

  // hash / 2^64 * size: an exact size without a division.
  static size_t Scale(uint64_t hash, size_t size) noexcept;

  [[nodiscard]] CellPlaces PlacesOf(const base::Hash128& key) const noexcept;

  size_t capacity_;
  size_t buckets_;
  size_t stash_buckets_;
  size_t mapped_bytes_ = 0;
  void* mapped_ = nullptr;
  CellMemory memory_;
  CellProtocol<CellMemory> protocol_{memory_};
};

inline size_t CellTable::Scale(uint64_t hash, size_t size) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<size_t>((static_cast<Wide>(hash) * size) >> 64);
}

inline CellPlaces CellTable::PlacesOf(const base::Hash128& key) const noexcept {
  const uint64_t turned = (key.low << 32) | (key.low >> 32);
  const size_t first = Scale(key.low, buckets_);
  size_t second = Scale(turned, buckets_);
  if (second == first) second = first + 1 == buckets_ ? 0 : first + 1;
  const size_t stash = buckets_ + Scale(key.high, stash_buckets_);
  return {{first * CellMemory::kSlotsPerBucket, second * CellMemory::kSlotsPerBucket,
           stash * CellMemory::kSlotsPerBucket}};
}

}  // namespace flowguard::store
