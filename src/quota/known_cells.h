// SPDX-License-Identifier: Apache-2.0
//
// The cells that a store knows, bounded: the one unused for longest makes room.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/quota_store.h"
#include "quota/cell_server.h"
#include "quota/known_cell.h"
#include "quota/pool.h"
#include "quota/store_status.h"

namespace flowguard::quota {

// The shape of the cell of `take`, or of one of its shards: the parts sum to the whole.
[[nodiscard]] CellShape ShapeOf(const engine::RemoteTake& take, int shard) noexcept;

// Threads: one owner.
class KnownCells {
 public:
  // All must outlive this.
  KnownCells(const CellServer& server, uint64_t seed, StoreCounters& counters);

  // The cell of `take`, remembered from here on, and pinned before the next call if it is to
  // stay so; null when all that are remembered are in use.  `shard`: which of the rule's, else 0.
  // Cost: a hash; allocates only while more are known than ever before.
  KnownCell* Get(const engine::RemoteTake& take, int shard);

  // While a cell is pinned it is not forgotten.
  void Pin(KnownCell& cell) noexcept;
  void Unpin(KnownCell& cell) noexcept;

  // Who holds the slots of `cell` from here on is another than whom any cell had, so that one
  // that is forgotten and known again does not go on under the name that has a lost slot.
  void BeginEpoch(KnownCell& cell) noexcept { cell.slots.BeginEpoch(++last_epoch_); }

 private:
  // What a rule and the shard of a cell say of its shape.
  using RuleNumbers = std::array<int64_t, 13>;

  [[nodiscard]] base::Hash128 IdOf(const engine::RemoteTake& take, int shard) noexcept;
  [[nodiscard]] KnownCell* Find(const base::Hash128& id) const noexcept;
  KnownCell* Room() noexcept;
  void Fill(KnownCell& cell, const base::Hash128& id, const engine::RemoteTake& take, int shard);
  void Unlink(const KnownCell& cell) noexcept;
  void PushNewest(const KnownCell& cell) noexcept;
  [[nodiscard]] KnownCell*& BucketOf(const base::Hash128& id) noexcept {
    return buckets_[id.low & (buckets_.size() - 1)];
  }

  const CellServer& server_;
  const uint64_t seed_;
  StoreCounters& counters_;
  Pool<KnownCell> pool_;
  std::vector<KnownCell*> buckets_;
  std::optional<RuleNumbers> last_numbers_;
  uint64_t last_seed_ = 0;  // that of keys with them
  uint32_t last_epoch_ = 0;
  // The cells that are not pinned, by their places in the pool: a ring through kEnd, whose older
  // neighbour is the newest.  Beside the cells, so that neighbours of a cell are not fetched.
  static constexpr uint32_t kEnd = base::kStoreCellsMax;
  struct Neighbours {
    uint32_t newer;
    uint32_t older;
  };
  std::vector<Neighbours> unpinned_;
};

}  // namespace flowguard::quota
