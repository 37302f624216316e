// SPDX-License-Identifier: Apache-2.0
#include "engine/rule_counters.h"

namespace flowguard::engine {

RuleCounterBoard::~RuleCounterBoard() {
  for (auto& thread : blocks_) {
    for (std::atomic<Cells*>& block : thread)
      delete[] block.load(std::memory_order_relaxed);
  }
}

RuleCounterBoard::Cells* RuleCounterBoard::NewBlock(std::atomic<Cells*>& block,
                                                    size_t number) noexcept {
  auto* fresh = new Cells[size_t{kFirstBlock} << number];
  Cells* expected = nullptr;
  if (block.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return fresh;
  delete[] fresh;  // a thread that shares the slot was first
  return expected;
}

int64_t RuleCounterBoard::Sum(uint32_t account, Count count) const noexcept {
  const Place place = PlaceOf(account);
  int64_t sum = 0;
  for (const auto& thread : blocks_) {
    const Cells* cells = thread[place.block].load(std::memory_order_acquire);
    if (cells == nullptr) continue;
    sum += cells[place.index].values[static_cast<size_t>(count)].load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace flowguard::engine
