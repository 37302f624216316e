// SPDX-License-Identifier: Apache-2.0
//
// How threads agree, without a lock, that a key has one cell.  The algorithm is
// written over a Memory, so that the table runs it on real slots and the test
// (cell_protocol_test.cc) runs this very code through every interleaving.
//
// A key may live in any slot of three buckets, visited in a fixed order.  A slot is
//
//   empty      owner 0, or a word not after `now`: equals absent, free to any key
//   live       a word after `now`
//   claimed    a word below zero: a key is about to move in; equals absent to all
//
// A key that is there is changed by one 16-byte swap {owner, word} -> {owner,
// word'}.  Inserting takes three steps:
//
//   1. claim     swap a free slot to {owner, claim}, where `claim` is a number
//                never used before;
//   2. look      visit all other places of the key.  A live cell: drop the claim
//                and use that.  A stale cell, or a claim at a later place: empty
//                it.  A claim at an earlier place: drop mine, take that one over as
//                if it were mine, look again;
//   3. move in   swap {owner, claim} -> {owner, word}.  Fails if the claim was
//                emptied, or another thread moved in: start again.
//
// Invariants
//   (1) A swap names the owner, so a debit or give-back fails once the slot has
//       changed hands.  Claims are never used twice, so nobody moves in by a claim
//       that was emptied and made anew.  A live word that comes back is the same
//       state, and swapping it is right.
//   (2) At any time a key has at most one cell that was moved into.  Say A was
//       claimed before B.  Whoever moves into B has looked at A's slot after B was
//       claimed, hence after A was, and found A gone, or emptied it (then nobody
//       moves into A any more), or found it live, and did not move in.
//   (3) A stale cell of the key itself is taken into use again by one swap, with no
//       claim: it still is the one cell of (2), and a claimer that has looked past
//       it has emptied it.
//   (4) f answered no: nothing was written.  f is run on 0 for an absent key, and
//       its answer stands at an instant within the call at which it was absent.
//   (5) Lock-free: the claim at the earliest place is emptied only when an earlier
//       one is made or a live cell is found, so of any claimers one moves in,
//       whoever is asleep.
//   (6) A live cell of another key is taken only when every place of the key is
//       live, and then the one with the smallest word.
//
// Clocks of two threads may differ: who is ahead may empty a cell that for the
// other has up to that difference left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "store/cell_memory.h"

namespace flowguard::store {

enum class CellUpdate : uint8_t {
  kUnchanged,  // f said no, or left a word not after now for an absent key
  kUpdated,    // the key was there
  kInserted,
};

// The first slots of the three buckets of a key: first choice, second choice,
// stash.  No two are equal.
struct CellPlaces {
  size_t start[3];
};

template <class Memory>
class CellProtocol {
 public:
  explicit CellProtocol(Memory& memory) noexcept : memory_(memory) {}

  template <class F>
  CellUpdate Update(const CellPlaces& places, uint64_t owner, int64_t now, F& f) {
    for (;;) {
      const Found found = Find(places, owner);
      if (!found.there) {
        CellUpdate result{};
        if (Insert(places, owner, now, f, result)) return result;
        continue;
      }
      int64_t word = found.cell.word > now ? found.cell.word : 0;
      if (!f(word)) return CellUpdate::kUnchanged;
      if (memory_.Swap(found.slot, found.cell, {owner, word})) [[likely]] {
        return CellUpdate::kUpdated;
      }
    }
  }

  template <class F>
  bool UpdateExisting(const CellPlaces& places, uint64_t owner, int64_t now, F& f) {
    for (;;) {
      const Found found = Find(places, owner);
      if (!found.there || found.cell.word <= now) return false;
      int64_t word = found.cell.word;
      if (!f(word)) return false;
      if (memory_.Swap(found.slot, found.cell, {owner, word})) return true;
    }
  }

  [[nodiscard]] int64_t Read(const CellPlaces& places, uint64_t owner, int64_t now) const {
    const Found found = Find(places, owner);
    return found.there && found.cell.word > now ? found.cell.word : 0;
  }

 private:
  static constexpr size_t kSlots = Memory::kSlotsPerBucket;
  static constexpr size_t kPlaces = 3 * kSlots;
  // A first choice with fewer live cells than this is taken without a glance at
  // the second: most keys then are where they are looked for first.
  static constexpr size_t kRoomyBelow = kSlots / 2 + 1;

  struct Found {
    bool there = false;  // a cell that was moved into, live or stale
    size_t slot = 0;
    Cell cell;
  };

  // A claim that this thread acts on; it may have been made by another.
  struct Claim {
    static constexpr size_t kNone = kPlaces;
    size_t place = kNone;  // in the order of visits
    int64_t word = 0;
    bool mine = false;  // this thread made it, and drops it when it changes its mind
  };

  // What the places of an absent key look like to a newcomer.
  struct Bucket {
    size_t live = 0;
    size_t free_place = Claim::kNone;
    Cell free_cell;
  };
  struct Choice {
    size_t place = Claim::kNone;
    Cell cell;
    bool evicts = false;
  };

  enum class Look : uint8_t { kAlone, kAgain, kLive };

  static bool IsClaim(int64_t word) noexcept { return word < 0; }
  static size_t SlotAt(const CellPlaces& places, size_t place) noexcept {
    return places.start[place / kSlots] + place % kSlots;
  }

  [[nodiscard]] Found Find(const CellPlaces& places, uint64_t owner) const {
    for (size_t bucket = 0; bucket < 3; ++bucket) {
      if (bucket == 2 && !memory_.StashUsed()) break;
      uint32_t mask = memory_.OwnedBy(places.start[bucket], owner);
      while (mask != 0) {
        const size_t slot = places.start[bucket] + static_cast<size_t>(__builtin_ctz(mask));
        const Cell cell = memory_.Load(slot);
        if (cell.owner == owner && !IsClaim(cell.word)) [[likely]]
          return {true, slot, cell};
        mask &= mask - 1;
      }
    }
    return {};
  }

  // Returns false if the key was found after all; the caller starts again.
  template <class F>
  bool Insert(const CellPlaces& places, uint64_t owner, int64_t now, F& f, CellUpdate& result) {
    Claim claim;
    for (;;) {
      int64_t word = 0;
      const bool wanted = f(word) && word > now;
      if (!wanted) {
        FG_DCHECK(!claim.mine);  // f is a function of the word alone
        result = CellUpdate::kUnchanged;
        return true;
      }
      if (claim.place == Claim::kNone) {
        claim = Make(places, owner, now);
        if (claim.place == Claim::kNone) return false;
      }
      switch (LookAround(places, owner, now, claim)) {
        case Look::kLive:
          return false;
        case Look::kAgain:
          continue;
        case Look::kAlone:
          break;
      }
      if (!memory_.Swap(SlotAt(places, claim.place), {owner, claim.word}, {owner, word})) {
        return false;
      }
      result = CellUpdate::kInserted;
      return true;
    }
  }

  void Drop(const CellPlaces& places, uint64_t owner, const Claim& claim) {
    memory_.Swap(SlotAt(places, claim.place), {owner, claim.word}, Cell{});
  }

  // Step 2, one visit of every place.
  Look LookAround(const CellPlaces& places, uint64_t owner, int64_t now, Claim& claim) {
    for (size_t bucket = 0; bucket < 3; ++bucket) {
      if (bucket == 2 && !memory_.StashUsed()) break;
      uint32_t mask = memory_.OwnedBy(places.start[bucket], owner);
      while (mask != 0) {
        const size_t place = bucket * kSlots + static_cast<size_t>(__builtin_ctz(mask));
        const Cell cell = memory_.Load(SlotAt(places, place));
        const bool other = cell.owner == owner && (place != claim.place || cell.word != claim.word);
        if (!other) {
          mask &= mask - 1;
          continue;
        }
        const bool earlier = IsClaim(cell.word) && place <= claim.place;
        if (cell.word > now || earlier) {
          if (claim.mine) Drop(places, owner, claim);
          if (cell.word > now) return Look::kLive;
          claim = {place, cell.word, false};
          return Look::kAgain;
        }
        memory_.Swap(SlotAt(places, place), cell, Cell{});  // if it fails, load again
      }
    }
    return Look::kAlone;
  }

  // Step 1.  Returns no claim if a slot changed under way, or the key came up; that
  // of another thread if only an eviction would give this one its own.
  Claim Make(const CellPlaces& places, uint64_t owner, int64_t now) {
    const Choice choice = Choose(places, owner, now);
    if (choice.cell.owner == owner && choice.evicts) {
      return IsClaim(choice.cell.word) ? Claim{choice.place, choice.cell.word, false} : Claim{};
    }
    if (choice.place >= 2 * kSlots) memory_.MarkStashUsed();
    const int64_t word = memory_.NewClaim();
    if (!memory_.Swap(SlotAt(places, choice.place), choice.cell, {owner, word})) return {};
    if (choice.evicts) {
      memory_.CountEviction();
    } else if (choice.place >= 2 * kSlots) {
      memory_.CountStashInsert();
    }
    return {choice.place, word, true};
  }

  [[nodiscard]] Choice Choose(const CellPlaces& places, uint64_t owner, int64_t now) const {
    Choice least{Claim::kNone, {}, true};
    const Bucket first = Survey(places, 0, owner, now, least);
    if (first.live < kRoomyBelow) return {first.free_place, first.free_cell, false};
    const Bucket second = Survey(places, 1, owner, now, least);
    const Bucket& emptier = second.live < first.live ? second : first;
    if (emptier.live < kSlots) return {emptier.free_place, emptier.free_cell, false};
    const Bucket stash = Survey(places, 2, owner, now, least);
    if (stash.live < kSlots) return {stash.free_place, stash.free_cell, false};
    return least;
  }

  // Counts live cells and claims of a bucket, and keeps in `least` the place that
  // matters if all are live: that of the key itself if another thread has made one
  // meanwhile, else the smallest word, which is a claim only if all are claims.
  Bucket Survey(const CellPlaces& places, size_t bucket, uint64_t owner, int64_t now,
                Choice& least) const {
    Bucket seen;
    for (size_t i = 0; i < kSlots; ++i) {
      const size_t slot = places.start[bucket] + i;
      const size_t place = bucket * kSlots + i;
      const Cell cell = memory_.Load(slot);
      if (!IsClaim(cell.word) && cell.word <= now) {
        if (seen.free_place == Claim::kNone) {
          seen.free_place = place;
          seen.free_cell = cell;
        }
        continue;
      }
      ++seen.live;
      if (least.place == Claim::kNone || cell.owner == owner ||
          (least.cell.owner != owner && Rank(cell.word) < Rank(least.cell.word))) {
        least.place = place;
        least.cell = cell;
      }
    }
    return seen;
  }

  static int64_t Rank(int64_t word) noexcept {
    return IsClaim(word) ? std::numeric_limits<int64_t>::max() : word;
  }

  Memory& memory_;
};

}  // namespace flowguard::store
