// SPDX-License-Identifier: Apache-2.0
#include "store/cell_memory.h"

#include <limits>

namespace flowguard::store {
namespace {

// Claim numbers are handed to threads in blocks, so that inserting threads do not
// share a counter.
constexpr uint64_t kBlock = uint64_t{1} << 20;

std::atomic<uint64_t> next_block{0};  // NOLINT: process-wide by nature

struct ClaimNumbers {
  uint64_t next = 0;
  uint64_t end = 0;
};

thread_local ClaimNumbers claim_numbers;  // NOLINT: see above

// One lock for the slots of one bucket and some others.
class SlotLock {
 public:
  explicit SlotLock(const CellSlot* slot) noexcept : flag_(FlagOf(slot)) {
    while (flag_.test_and_set(std::memory_order_seq_cst)) {
    }
  }
  ~SlotLock() { flag_.clear(std::memory_order_seq_cst); }
  SlotLock(const SlotLock&) = delete;
  SlotLock& operator=(const SlotLock&) = delete;

 private:
  struct alignas(64) Padded {
    std::atomic_flag flag = ATOMIC_FLAG_INIT;
  };

  static std::atomic_flag& FlagOf(const CellSlot* slot) noexcept {
    static Padded locks[64];
    return locks[(reinterpret_cast<uintptr_t>(slot) >> 7) % 64].flag;
  }

  std::atomic_flag& flag_;
};

Cell LoadLocked(const CellSlot* slot) noexcept {
  return {__atomic_load_n(&slot->owner, __ATOMIC_SEQ_CST),
          __atomic_load_n(&slot->word, __ATOMIC_SEQ_CST)};
}

}  // namespace

int64_t NewClaimWord() noexcept {
  ClaimNumbers& numbers = claim_numbers;
  if (numbers.next == numbers.end) {
    numbers.next = next_block.fetch_add(1, std::memory_order_relaxed) * kBlock;
    numbers.end = numbers.next + kBlock;
  }
  return std::numeric_limits<int64_t>::min() + static_cast<int64_t>(numbers.next++);
}

bool SpinSteps::Swap(CellSlot* slot, const Cell& expected, const Cell& desired) noexcept {
  bool swapped = false;
  {
    const SlotLock lock(slot);
    if (LoadLocked(slot) == expected) {
      __atomic_store_n(&slot->owner, desired.owner, __ATOMIC_SEQ_CST);
      __atomic_store_n(&slot->word, desired.word, __ATOMIC_SEQ_CST);
      swapped = true;
    }
  }
  // A loader of owners alone takes no lock and is not ordered behind the unlock.
#if !FG_CELL_TSAN  // it knows no fences, and sees no harm here
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return swapped;
}

Cell SpinSteps::Load(CellSlot* slot) noexcept {
  const SlotLock lock(slot);
  return LoadLocked(slot);
}

}  // namespace flowguard::store
