// SPDX-License-Identifier: Apache-2.0
#include "base/thread_slot.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace flowguard::base {
namespace {

static_assert(kThreadSlots == 64, "one bit a slot");
constinit std::atomic<uint64_t> taken{0};
constinit std::atomic<size_t> next_shared{0};

class Slot {
 public:
  Slot() noexcept {
    uint64_t now = taken.load(std::memory_order_relaxed);
    while (~now != 0) {
      const auto free = static_cast<size_t>(std::countr_one(now));
      if (taken.compare_exchange_weak(now, now | (uint64_t{1} << free),
                                      std::memory_order_relaxed)) {
        index_ = free;
        owned_ = true;
        return;
      }
    }
    index_ = next_shared.fetch_add(1, std::memory_order_relaxed) % kThreadSlots;
  }
  ~Slot() {
    if (owned_) taken.fetch_and(~(uint64_t{1} << index_), std::memory_order_relaxed);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  [[nodiscard]] size_t index() const noexcept { return index_; }

 private:
  size_t index_ = 0;
  bool owned_ = false;
};

}  // namespace

size_t ThreadSlot() noexcept {
  thread_local const Slot slot;
  return slot.index();
}

}  // namespace flowguard::base
