// SPDX-License-Identifier: Apache-2.0
#include "store/state_map.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "base/bounds.h"
#include "base/check.h"

namespace flowguard::store {
namespace {

constexpr size_t kShards = 64;
// What malloc adds to a block, at most, for blocks of our sizes.
constexpr size_t kMallocBytes = 16;
// One place of the index for so many bytes of states: the smallest states take
// about half of it, so chains are short.
constexpr size_t kBytesAPlace = 128;
constexpr size_t kReclaimPlaces = 4;         // looked at by each call that stores
constexpr size_t kSampleStates = 8;          // compared for one eviction
constexpr size_t kSamplePlaces = 256;        // visited for one eviction
constexpr size_t kEvictionsMax = 32 * 1024;  // for one state; enough for the largest one
constexpr size_t kEvictionsAVisit = 8;       // of one shard, before the next one's turn

bool AllZero(std::span<const uint64_t> state) noexcept {
  return std::all_of(state.begin(), state.end(), [](uint64_t word) { return word == 0; });
}

}  // namespace

// One state; its words follow it in the same block.
struct StateMap::Node {
  base::Hash128 key;
  Instant keep_until;
  Node* next;
  size_t words;

  static size_t BytesFor(size_t words) noexcept {
    return sizeof(Node) + words * sizeof(uint64_t) + kMallocBytes;
  }
  [[nodiscard]] size_t bytes() const noexcept { return BytesFor(words); }
  [[nodiscard]] std::span<uint64_t> state() noexcept {
    return {reinterpret_cast<uint64_t*>(this + 1), words};
  }
};

struct alignas(64) StateMap::Shard {
  base::Mutex mutex;
  std::unique_ptr<Node*[]> index FG_GUARDED_BY(mutex);
  size_t places FG_GUARDED_BY(mutex) = 0;
  size_t cursor FG_GUARDED_BY(mutex) = 0;  // where reclaiming and evicting go on
  size_t states FG_GUARDED_BY(mutex) = 0;
  size_t held FG_GUARDED_BY(mutex) = 0;  // of those, kept for ever
  uint64_t evictions FG_GUARDED_BY(mutex) = 0;
  uint64_t reclaimed FG_GUARDED_BY(mutex) = 0;

  // The link that points to the node of `key`, or the end of its chain.
  Node** Find(const base::Hash128& key) FG_REQUIRES(mutex) {
    Node** link = &index[key.low % places];
    while (*link != nullptr && (*link)->key != key)
      link = &(*link)->next;
    return link;
  }

  void Keep(Node* node, Instant until) FG_REQUIRES(mutex) {
    if (node->keep_until == Instant::max()) --held;
    if (until == Instant::max()) ++held;
    node->keep_until = until;
  }

  // Takes the node out and frees it.  Returns its bytes.
  size_t Remove(Node** link) FG_REQUIRES(mutex) {
    Node* node = *link;
    const size_t bytes = node->bytes();
    Keep(node, Instant::min());
    *link = node->next;
    std::free(node);
    --states;
    return bytes;
  }

  // Frees what is expired at the next `steps` places of the index.
  size_t Reclaim(Instant now, size_t steps, size_t& freed) FG_REQUIRES(mutex) {
    size_t bytes = 0;
    for (size_t i = 0; i < std::min(steps, places); ++i) {
      cursor = cursor + 1 == places ? 0 : cursor + 1;
      Node** link = &index[cursor];
      while (*link != nullptr) {
        if ((*link)->keep_until > now) {
          link = &(*link)->next;
          continue;
        }
        bytes += Remove(link);
        ++freed;
      }
    }
    reclaimed += freed;
    return bytes;
  }

  // Removes the state that would be forgotten first among the next few.  Returns
  // its bytes; 0 if there is none that may go.
  size_t Evict(Instant now) FG_REQUIRES(mutex) {
    if (states == held) return 0;
    Node** best = nullptr;
    size_t seen = 0;
    const size_t visits = std::min(kSamplePlaces, places);
    for (size_t i = 0; i < visits && seen < kSampleStates; ++i) {
      cursor = cursor + 1 == places ? 0 : cursor + 1;
      for (Node** link = &index[cursor]; *link != nullptr; link = &(*link)->next) {
        if ((*link)->keep_until == Instant::max()) continue;
        ++seen;
        if (best == nullptr || (*link)->keep_until < (*best)->keep_until) best = link;
      }
    }
    if (best == nullptr) return 0;
    if ((*best)->keep_until > now) {
      ++evictions;
    } else {
      ++reclaimed;
    }
    return Remove(best);
  }
};

Result<std::unique_ptr<StateMap>> StateMap::Create(size_t max_bytes) {
  if (max_bytes < base::kStateBytesMin || max_bytes > base::kStateBytesMax) {
    return Error::InvalidArgument("state bytes " + std::to_string(max_bytes) + " are outside " +
                                  std::to_string(base::kStateBytesMin) + " to " +
                                  std::to_string(base::kStateBytesMax));
  }
  return std::unique_ptr<StateMap>(new StateMap(max_bytes));
}

StateMap::StateMap(size_t max_bytes) noexcept
    : max_bytes_(max_bytes), shards_(std::make_unique<Shard[]>(kShards)) {
  const size_t places = std::max<size_t>(1, max_bytes / kBytesAPlace / kShards);
  for (size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    const base::MutexLock lock(shard.mutex);
    shard.places = places;
    shard.index = std::make_unique<Node*[]>(places);
  }
  index_bytes_ = kShards * (sizeof(Shard) + places * sizeof(Node*));
  bytes_.store(index_bytes_, std::memory_order_relaxed);
}

StateMap::~StateMap() {
  for (size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    const base::MutexLock lock(shard.mutex);
    for (size_t place = 0; place < shard.places; ++place) {
      while (shard.index[place] != nullptr)
        shard.Remove(&shard.index[place]);
    }
  }
}

StateMap::Shard& StateMap::ShardOf(const base::Hash128& key) const noexcept {
  return shards_[key.high >> 58];
}

bool StateMap::Fits(size_t words) const noexcept {
  return words <= base::kStateWordsMax && Node::BytesFor(words) <= max_bytes_ - index_bytes_;
}

bool StateMap::Reserve(size_t bytes) noexcept {
  size_t used = bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > max_bytes_ - std::min(used, max_bytes_)) return false;
  } while (!bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

// Reserves `bytes`, evicting a few states of one shard after the other, one lock at
// a time.  Returns false if what may go is not enough.
bool StateMap::MakeRoom(size_t bytes, size_t first_shard, Instant now) noexcept {
  size_t evictions = 0;
  size_t barren = 0;  // shards in a row that had nothing to give
  for (size_t i = first_shard; barren < kShards && evictions < kEvictionsMax; ++i) {
    Shard& shard = shards_[i % kShards];
    const base::MutexLock lock(shard.mutex);
    ++barren;
    for (size_t n = 0; n < kEvictionsAVisit; ++n) {
      if (Reserve(bytes)) return true;
      const size_t freed = shard.Evict(now);
      if (freed == 0) break;
      barren = 0;
      ++evictions;
      bytes_.fetch_sub(freed, std::memory_order_relaxed);
    }
  }
  return Reserve(bytes);
}

StateUpdate StateMap::Run(const base::Hash128& key, size_t words, Instant now,
                          StateFunction f) noexcept {
  FG_DCHECK(words >= 1 && words <= base::kStateWordsMax);
  Shard& shard = ShardOf(key);
  const size_t need = Node::BytesFor(words);
  bool reserved = false;
  for (;;) {
    {
      const base::MutexLock lock(shard.mutex);
      size_t freed = 0;
      bytes_.fetch_sub(shard.Reclaim(now, kReclaimPlaces, freed), std::memory_order_relaxed);

      Node** link = shard.Find(key);
      if (*link != nullptr && (*link)->words != words) {
        bytes_.fetch_sub(shard.Remove(link), std::memory_order_relaxed);
        link = shard.Find(key);
      }
      if (Node* node = *link; node != nullptr) {
        if (reserved) bytes_.fetch_sub(need, std::memory_order_relaxed);
        if (node->keep_until <= now) std::ranges::fill(node->state(), 0);
        shard.Keep(node, f(node->state()));
        if (node->keep_until > now) return StateUpdate::kKept;
        bytes_.fetch_sub(shard.Remove(link), std::memory_order_relaxed);
        return StateUpdate::kDropped;
      }

      void* block = std::calloc(1, sizeof(Node) + words * sizeof(uint64_t));
      FG_CHECK(block != nullptr);
      Node* node = new (block) Node{key, Instant::min(), nullptr, words};
      const Instant until = f(node->state());
      const bool keep = until > now && !AllZero(node->state());
      if (keep && (reserved || Reserve(need))) {
        shard.Keep(node, until);
        *link = node;
        ++shard.states;
        return StateUpdate::kKept;
      }
      std::free(block);
      if (!keep) {
        if (reserved) bytes_.fetch_sub(need, std::memory_order_relaxed);
        return StateUpdate::kDropped;
      }
    }
    // Room is made with this shard unlocked, so that no thread holds two locks;
    // then the key is looked for afresh.
    reserved = Fits(words) && MakeRoom(need, static_cast<size_t>(&shard - shards_.get()), now);
    if (!reserved) {
      full_.fetch_add(1, std::memory_order_relaxed);
      return StateUpdate::kFull;
    }
  }
}

bool StateMap::RunExisting(const base::Hash128& key, size_t words, Instant now,
                           StateFunction f) noexcept {
  Shard& shard = ShardOf(key);
  const base::MutexLock lock(shard.mutex);
  Node** link = shard.Find(key);
  Node* node = *link;
  if (node == nullptr || node->words != words || node->keep_until <= now) return false;
  shard.Keep(node, f(node->state()));
  if (node->keep_until <= now) {
    bytes_.fetch_sub(shard.Remove(link), std::memory_order_relaxed);
  }
  return true;
}

StateMapStats StateMap::Stats() const noexcept {
  StateMapStats stats;
  stats.bytes = bytes();
  stats.max_bytes = max_bytes_;
  stats.full = full_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    const base::MutexLock lock(shard.mutex);
    stats.states += shard.states;
    stats.evictions += shard.evictions;
    stats.reclaimed += shard.reclaimed;
  }
  return stats;
}

}  // namespace flowguard::store
