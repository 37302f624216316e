// SPDX-License-Identifier: Apache-2.0
#include "quota/known_cells.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "quota/cell_key.h"
#include "rules/compiled_rule.h"

namespace flowguard::quota {
namespace {

// Twice the cells, so that chains stay short.
constexpr size_t kBuckets = size_t{1} << 15;
static_assert(kBuckets >= 2 * base::kStoreCellsMax);

int64_t PartOf(int64_t whole, int parts, int index) noexcept {
  return whole / parts + (index < whole % parts ? 1 : 0);
}

}  // namespace

CellShape ShapeOf(const engine::RemoteTake& take, int shard) noexcept {
  const Rule& rule = take.rule->rule;
  CellShape shape{.algorithm = rule.algorithm,
                  .config = take.config,
                  .concurrency = rule.kind == RuleKind::kConcurrency};
  if (rule.shards <= 1) return shape;
  shape.config.rate.limit = PartOf(take.config.rate.limit, rule.shards, shard);
  shape.config.burst = PartOf(take.config.burst, rule.shards, shard);
  shape.config.max_debt = take.config.max_debt / rule.shards;
  return shape;
}

KnownCells::KnownCells(const CellServer& server, uint64_t seed, StoreCounters& counters)
    : server_(server),
      seed_(seed),
      counters_(counters),
      pool_(base::kStoreCellsMax),
      buckets_(kBuckets),
      unpinned_(kEnd + 1, {kEnd, kEnd}) {}

// Of what is hashed nearly all is the rule's, and the takes of one rule come together.
base::Hash128 KnownCells::IdOf(const engine::RemoteTake& take, int shard) noexcept {
  const Rule& rule = take.rule->rule;
  // Where it stands in the cell's key, another resource is another cell.
  const bool by_resource = rule.tag == CellTag::kResource;
  const uint64_t resource = by_resource ? base::Hash64(rule.on.resource, seed_) : 0;
  const RuleNumbers numbers{static_cast<int64_t>(rule.tag),
                            std::bit_cast<int64_t>(resource),
                            static_cast<int64_t>(rule.kind),
                            static_cast<int64_t>(rule.algorithm),
                            rule.shards * int64_t{base::kShardsMax} + shard,
                            rule.lease.overshoot,
                            rule.prefilter ? 1 : 0,
                            take.config.rate.limit,
                            take.config.rate.window.count(),
                            take.config.burst,
                            take.config.buckets,
                            take.config.wait.count(),
                            take.config.max_debt};
  if (last_numbers_ != numbers) {
    std::array<char, sizeof numbers> bytes;
    std::memcpy(bytes.data(), numbers.data(), sizeof numbers);
    last_numbers_ = numbers;
    last_seed_ = base::Hash64({bytes.data(), bytes.size()}, seed_);
  }
  return base::HashOf(take.key, last_seed_);
}

KnownCell* KnownCells::Get(const engine::RemoteTake& take, int shard) {
  const base::Hash128 id = IdOf(take, shard);
  if (KnownCell* const found = Find(id); found != nullptr) {
    // What is sent of it, and what is told of it, is read a while later.
    __builtin_prefetch(&found->last);
    __builtin_prefetch(&found->shape);
    __builtin_prefetch(found->key_bytes.data());
    return found;
  }
  KnownCell* const cell = Room();
  if (cell == nullptr) return nullptr;
  Fill(*cell, id, take, shard);
  KnownCell*& bucket = BucketOf(id);
  cell->chain = bucket;
  bucket = cell;
  PushNewest(*cell);
  return cell;
}

void KnownCells::Fill(KnownCell& cell, const base::Hash128& id, const engine::RemoteTake& take,
                      int shard) {
  const Rule& rule = take.rule->rule;
  cell.id = id;
  cell.shape = ShapeOf(take, shard);
  const CellKey key(
      take, cell.shape,
      {.tag_by_resource = rule.tag == CellTag::kResource, .shard = rule.shards > 1 ? shard : -1});
  key.text().copy(cell.key_bytes.data(), cell.key_bytes.size());
  cell.key_size = key.text().size();
  cell.place = server_.PlaceOf(cell.key());
  cell.overshoot = rule.lease.overshoot;
  cell.leases = cell.overshoot != 0;
  cell.joins = !cell.leases && server_.TakesJoin(cell.key(), cell.shape);
  cell.ForgetDenials();
  cell.filter.Clear();
  if (rule.prefilter) cell.filter.Enable(rule.algorithm, cell.shape.config);
  cell.filters = cell.filter.enabled();
  cell.lease = {};
  cell.slots.Clear(last_epoch_);
  cell.last = {};
  cell.returned_at = Instant::min();
}

KnownCell* KnownCells::Find(const base::Hash128& id) const noexcept {
  KnownCell* cell = buckets_[id.low & (buckets_.size() - 1)];
  while (cell != nullptr && cell->id != id)
    cell = cell->chain;
  return cell;
}

KnownCell* KnownCells::Room() noexcept {
  if (KnownCell* const fresh = pool_.Take(); fresh != nullptr) return fresh;
  if (unpinned_[kEnd].newer == kEnd) return nullptr;
  KnownCell* const oldest = &pool_[unpinned_[kEnd].newer];
  Unlink(*oldest);
  KnownCell** link = &BucketOf(oldest->id);
  while (*link != oldest)
    link = &(*link)->chain;
  *link = oldest->chain;
  StoreCounters::Add(counters_.cells_forgotten);
  return oldest;
}

void KnownCells::Pin(KnownCell& cell) noexcept {
  if (cell.pins++ == 0) Unlink(cell);
}

void KnownCells::Unpin(KnownCell& cell) noexcept {
  FG_DCHECK(cell.pins > 0);
  if (--cell.pins == 0) PushNewest(cell);
}

void KnownCells::Unlink(const KnownCell& cell) noexcept {
  const Neighbours& own = unpinned_[cell.pool_index];
  unpinned_[own.newer].older = own.older;
  unpinned_[own.older].newer = own.newer;
}

void KnownCells::PushNewest(const KnownCell& cell) noexcept {
  const auto own = static_cast<uint32_t>(cell.pool_index);
  Neighbours& end = unpinned_[kEnd];
  unpinned_[own] = {kEnd, end.older};
  unpinned_[end.older].newer = own;
  end.older = own;
}

}  // namespace flowguard::quota
