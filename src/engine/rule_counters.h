// SPDX-License-Identifier: Apache-2.0
//
// Counters of every rule name, one set a thread: no two running threads write one
// cache line for them.
//
// Memory: 64 bytes a rule and thread, allocated when a thread first counts for a
// rule (in blocks), never freed before the end.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/thread_slot.h"

namespace flowguard::engine {

enum class Count : uint8_t {
  kPassed,
  kRefused,
  kShadowRefused,
  kDegraded,
  kWaited,
  kWaitNs,
  kFailedAfter,
  kInflight,  // goes down again, on whichever thread
};
inline constexpr size_t kCountKinds = 8;

// Threads: all methods from any thread.
class RuleCounterBoard {
 public:
  RuleCounterBoard() = default;
  ~RuleCounterBoard();
  RuleCounterBoard(const RuleCounterBoard&) = delete;
  RuleCounterBoard& operator=(const RuleCounterBoard&) = delete;

  // Cost:     one addition on a line of the calling thread; an allocation the first
  //           time for a block of rules.
  // Requires: `slot` is base::ThreadSlot() of the calling thread.
  void Add(size_t slot, uint32_t account, Count count, int64_t amount = 1) noexcept {
    const Place place = PlaceOf(account);
    std::atomic<Cells*>& block = blocks_[slot][place.block];
    Cells* cells = block.load(std::memory_order_acquire);
    if (cells == nullptr) [[unlikely]] {
      cells = NewBlock(block, place.block);
    }
    base::AddInSlot(slot, cells[place.index].values[static_cast<size_t>(count)], amount);
  }

  // The sum over all threads, as of about now.
  [[nodiscard]] int64_t Sum(uint32_t account, Count count) const noexcept;

 private:
  struct alignas(64) Cells {
    std::array<std::atomic<int64_t>, kCountKinds> values{};
  };
  // Block b holds 64 << b rules, so a few blocks hold any number.
  static constexpr uint32_t kFirstBlock = 64;
  static constexpr size_t kBlocks = 26;
  struct Place {
    size_t block;
    size_t index;
  };
  static Place PlaceOf(uint32_t account) noexcept {
    const uint32_t shifted = account + kFirstBlock;
    const auto block = static_cast<size_t>(std::bit_width(shifted) - std::bit_width(kFirstBlock));
    return {block, shifted - (kFirstBlock << block)};
  }
  static Cells* NewBlock(std::atomic<Cells*>& block, size_t number) noexcept;

  std::array<std::array<std::atomic<Cells*>, kBlocks>, base::kThreadSlots> blocks_{};
};

}  // namespace flowguard::engine
