// SPDX-License-Identifier: Apache-2.0
#include "base/thread_slot.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace flowguard::base {
namespace {

static_assert(kOwnThreadSlots < kThreadSlots && kOwnThreadSlots < 64, "one bit a slot");
constexpr uint64_t kAllOwn = (uint64_t{1} << kOwnThreadSlots) - 1;
constexpr size_t kSharedSlots = kThreadSlots - kOwnThreadSlots;
constinit std::atomic<uint64_t> taken{0};
constinit std::atomic<size_t> next_shared{0};

class Slot {
 public:
  Slot() noexcept {
    uint64_t now = taken.load(std::memory_order_relaxed);
    while (now != kAllOwn) {
      const auto free = static_cast<size_t>(std::countr_one(now));
      if (taken.compare_exchange_weak(now, now | (uint64_t{1} << free), std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        internal::thread_slot = free;
        own_ = free;
        return;
      }
    }
    internal::thread_slot = NextShared();
  }
  ~Slot() {
    if (own_ == kThreadSlots) return;
    // Destructors of the thread that run after this one still count.
    internal::thread_slot = NextShared();
    taken.fetch_and(~(uint64_t{1} << own_), std::memory_order_release);
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

 private:
  static size_t NextShared() noexcept {
    return kOwnThreadSlots + next_shared.fetch_add(1, std::memory_order_relaxed) % kSharedSlots;
  }

  size_t own_ = kThreadSlots;
};

}  // namespace

namespace internal {

constinit thread_local size_t thread_slot = kThreadSlots;

size_t TakeThreadSlot() noexcept {
  thread_local const Slot slot;
  static_cast<void>(&slot);
  return thread_slot;
}

}  // namespace internal

}  // namespace flowguard::base
