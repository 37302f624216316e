// SPDX-License-Identifier: Apache-2.0
//
// The map of states larger than one word (sliding_log, sliding_buckets, ...) and
// of keyed concurrency counts: bounded in bytes, 64 shards with a mutex each.
//
// A state is `words` 64-bit words, zero when new, and an instant until which it
// must be kept.  After that instant it equals an absent key.  Expired states are
// reclaimed a few at a time by the calls themselves; there is no sweeper.  When
// all bytes are in use the state that would be forgotten first, among a bounded
// sample, is evicted and counted; one that must be kept for ever (keep_until =
// Instant::max(), a concurrency slot in use) never is.
//
// Invariants
//   (1) bytes() <= max_bytes at all times, index and allocator overhead included.
//       Besides, each call in progress may hold one state that is not kept yet.
//   (2) A key has at most one state.
//   (3) A state with keep_until > now goes only by eviction, by a change of its
//       word count (the rule was reloaded with another shape), or by its own f.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/hash.h"
#include "base/mutex.h"

namespace flowguard::store {

enum class StateUpdate : uint8_t {
  kKept,     // the state is stored
  kDropped,  // nothing to store: f left zeros, or keep_until is not after now
  kFull,     // no room and nothing evictable: whatever f decided must not be used
};

// A function reference: how f crosses into state_map.cc without a copy or an
// allocation.
class StateFunction {
 public:
  template <class F>
  explicit StateFunction(F& f) noexcept
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, std::span<uint64_t> state) {
          return (*static_cast<F*>(object))(state);
        }) {}
  Instant operator()(std::span<uint64_t> state) const { return call_(object_, state); }

 private:
  void* object_;
  Instant (*call_)(void*, std::span<uint64_t>);
};

struct StateMapStats {
  size_t states = 0;  // kept, expired ones not yet reclaimed among them
  size_t bytes = 0;
  size_t max_bytes = 0;
  uint64_t evictions = 0;  // states forgotten before their time
  uint64_t reclaimed = 0;  // expired states freed
  uint64_t full = 0;       // calls that were told kFull
};

// Threads: all methods from any thread.  f runs under the mutex of the key's shard:
// it must not call back into the map.
class StateMap {
 public:
  // Errors: kInvalidArgument when `max_bytes` is outside [kStateBytesMin,
  // kStateBytesMax].
  static Result<std::unique_ptr<StateMap>> Create(size_t max_bytes);
  ~StateMap();
  StateMap(const StateMap&) = delete;
  StateMap& operator=(const StateMap&) = delete;

  // Runs `f(std::span<uint64_t> state) -> Instant keep_until` on the state of
  // `key`, all zero if it is absent, expired, or had another number of words.
  // f may run twice, each time on the then current state; the last run holds.  A state
  // that does not Fit is kFull at once, and evicts nothing.
  //
  // Requires: 1 <= words <= kStateWordsMax; f does not throw.
  // Cost:     one lock; an allocation for a new key; at most a few states of other
  //           keys looked at, to reclaim or evict.
  template <class F>
  StateUpdate Update(const base::Hash128& key, size_t words, Instant now, F&& f) noexcept {
    return Run(key, words, now, StateFunction(f));
  }

  // The same for a state that is there and not expired.  Returns false, without
  // having run f, if there is none.
  template <class F>
  bool UpdateExisting(const base::Hash128& key, size_t words, Instant now, F&& f) noexcept {
    return RunExisting(key, words, now, StateFunction(f));
  }

  // Whether a state of so many words has room in an empty map.
  [[nodiscard]] bool Fits(size_t words) const noexcept;

  [[nodiscard]] size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] StateMapStats Stats() const noexcept;

 private:
  struct Node;
  struct Shard;

  explicit StateMap(size_t max_bytes) noexcept;

  StateUpdate Run(const base::Hash128& key, size_t words, Instant now, StateFunction f) noexcept;
  bool RunExisting(const base::Hash128& key, size_t words, Instant now, StateFunction f) noexcept;
  [[nodiscard]] Shard& ShardOf(const base::Hash128& key) const noexcept;
  [[nodiscard]] bool Reserve(size_t bytes) noexcept;
  bool MakeRoom(size_t bytes, size_t first_shard, Instant now) noexcept;

  size_t max_bytes_;
  size_t index_bytes_ = 0;  // of bytes_, in use without any state
  std::unique_ptr<Shard[]> shards_;
  std::atomic<size_t> bytes_{0};
  std::atomic<uint64_t> full_{0};
};

}  // namespace flowguard::store
