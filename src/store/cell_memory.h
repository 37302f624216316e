// SPDX-License-Identifier: Apache-2.0
//
// The memory of a cell table: an array of 16-byte slots and the few atomic steps
// that cell_protocol.h is written in.  Nothing here knows what the steps are for.
//
// Every step on a whole slot is one atomic step.  On x86-64 the swap is
// cmpxchg16b, through __sync_bool_compare_and_swap (a 16-byte std::atomic would
// call libatomic), and the load is one aligned 16-byte SSE load, which Intel and
// AMD state to be atomic on every processor that has AVX; on others, and under
// ThreadSanitizer, which cannot see inside an asm statement, the load is a swap of
// a value for itself.  Machines of other kinds take one of 64 spin locks for the
// steps on whole slots.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#if defined(__SANITIZE_THREAD__)
#define FG_CELL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FG_CELL_TSAN 1
#endif
#endif
#ifndef FG_CELL_TSAN
#define FG_CELL_TSAN 0
#endif

namespace flowguard::store {

// What a slot holds.  Owner 0 is nobody.
struct Cell {
  uint64_t owner = 0;
  int64_t word = 0;
  friend bool operator==(const Cell&, const Cell&) = default;
};

struct alignas(16) CellSlot {
  uint64_t owner;
  int64_t word;
};

#if defined(__x86_64__)
#if !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
#error "compile with -mcx16: a cell is compared and swapped as 16 bytes"
#endif

// 16 bytes at once by the processor.
class WideSteps {
 public:
  static bool Swap(CellSlot* slot, const Cell& expected, const Cell& desired) noexcept {
    return __sync_bool_compare_and_swap(reinterpret_cast<Wide*>(slot), Pack(expected),
                                        Pack(desired));
  }

  static Cell Load(CellSlot* slot) noexcept {
#if !FG_CELL_TSAN
    if (__builtin_cpu_supports("avx")) [[likely]] {
      __m128i both;
      asm volatile("movdqa %1, %0" : "=x"(both) : "m"(*reinterpret_cast<Wide*>(slot)));
      return {static_cast<uint64_t>(_mm_cvtsi128_si64(both)),
              _mm_cvtsi128_si64(_mm_unpackhi_epi64(both, both))};
    }
#endif
    return Unpack(__sync_val_compare_and_swap(reinterpret_cast<Wide*>(slot), Wide{0}, Wide{0}));
  }

 private:
  __extension__ typedef unsigned __int128 Wide __attribute__((may_alias));

  static Wide Pack(const Cell& cell) noexcept {
    return (static_cast<Wide>(static_cast<uint64_t>(cell.word)) << 64) | cell.owner;
  }
  static Cell Unpack(Wide wide) noexcept {
    return {static_cast<uint64_t>(wide), static_cast<int64_t>(static_cast<uint64_t>(wide >> 64))};
  }
};
#endif

// The same steps under 64 spin locks shared by all tables of the process.
class SpinSteps {
 public:
  static bool Swap(CellSlot* slot, const Cell& expected, const Cell& desired) noexcept;
  static Cell Load(CellSlot* slot) noexcept;
};

// A number below zero that no other call in this process returns.
[[nodiscard]] int64_t NewClaimWord() noexcept;

// Counters of rare events; not on a line that the request path reads.
struct alignas(64) CellCounters {
  std::atomic<uint64_t> evictions{0};
  std::atomic<uint64_t> stash_inserts{0};
};

template <class Steps>
class BasicCellMemory {
 public:
  static constexpr size_t kSlotsPerBucket = 8;

  BasicCellMemory() = default;
  BasicCellMemory(const BasicCellMemory&) = delete;
  BasicCellMemory& operator=(const BasicCellMemory&) = delete;

  // Requires: `slots` is zero, aligned to 64 bytes, and outlives this.
  void Attach(CellSlot* slots) noexcept { slots_ = slots; }

  // The slots of the bucket at `start` that name `owner`, as a mask.  Each is one
  // atomic step, in their order.
  [[nodiscard]] uint32_t OwnedBy(size_t start, uint64_t owner) const noexcept {
    // Of slots_, which the compiler would read again behind every step.
    const CellSlot* const bucket = slots_ + start;
    uint32_t mask = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < kSlotsPerBucket; ++i) {
      const bool same = __atomic_load_n(&bucket[i].owner, __ATOMIC_ACQUIRE) == owner;
      mask |= uint32_t{same} << i;
    }
    return mask;
  }
  [[nodiscard]] int64_t LoadWord(size_t slot) const noexcept {
    return __atomic_load_n(&slots_[slot].word, __ATOMIC_ACQUIRE);
  }
  [[nodiscard]] Cell Load(size_t slot) const noexcept {
    return Steps::Load(slots_ + slot);
  }
  // A full barrier, whatever it returns.
  bool Swap(size_t slot, const Cell& expected, const Cell& desired) noexcept {
    return Steps::Swap(slots_ + slot, expected, desired);
  }

  // Whether a cell was ever put into the stash.  Never false again.
  [[nodiscard]] bool StashUsed() const noexcept {
    return stash_used_.load(std::memory_order_acquire);
  }
  void MarkStashUsed() noexcept {
    if (!StashUsed()) stash_used_.store(true, std::memory_order_seq_cst);
  }
  void CountStashInsert() noexcept {
    counters_.stash_inserts.fetch_add(1, std::memory_order_relaxed);
  }
  void CountEviction() noexcept {
    counters_.evictions.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] int64_t NewClaim() noexcept {
    return NewClaimWord();
  }

  void PrefetchBucket(size_t slot) const noexcept {
    __builtin_prefetch(slots_ + slot, 1);
    __builtin_prefetch(slots_ + slot + kSlotsPerBucket / 2, 1);
  }
  [[nodiscard]] const CellCounters& counters() const noexcept {
    return counters_;
  }

 private:
  CellSlot* slots_ = nullptr;
  std::atomic<bool> stash_used_{false};
  CellCounters counters_;
};

#if defined(__x86_64__)
using CellMemory = BasicCellMemory<WideSteps>;
#else
using CellMemory = BasicCellMemory<SpinSteps>;
#endif

}  // namespace flowguard::store
