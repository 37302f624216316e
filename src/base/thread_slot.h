// SPDX-License-Identifier: Apache-2.0
//
// A small number for the calling thread, so that counters can be kept one set a
// thread and no two running threads write one cache line.
#pragma once

#include <atomic>
#include <cstddef>

namespace flowguard::base {

inline constexpr size_t kThreadSlots = 64;
// Slots that one thread at a time has to itself; the others are shared.
inline constexpr size_t kOwnThreadSlots = 56;

namespace internal {
// kThreadSlots: the thread has none yet.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): one a thread.
extern constinit thread_local size_t thread_slot;
size_t TakeThreadSlot() noexcept;
}  // namespace internal

// The calling thread's slot, below kThreadSlots.  The first kOwnThreadSlots threads
// that live at one time have one each to themselves; more share the rest.  A slot is
// free again when its thread ends, and whoever has it next sees what was written.
//
// Cost:     a thread-local read after the first call of a thread.
[[nodiscard]] inline size_t ThreadSlot() noexcept {
  const size_t slot = internal::thread_slot;
  return slot != kThreadSlots ? slot : internal::TakeThreadSlot();
}

// Adds to a counter that only threads of `slot` write: without a locked instruction
// where that is the calling thread alone.
// Requires: `slot` is what ThreadSlot() gave the calling thread.
template <typename T>
void AddInSlot(size_t slot, std::atomic<T>& counter, T amount,
               std::memory_order order = std::memory_order_relaxed) noexcept {
  if (slot < kOwnThreadSlots) [[likely]] {
    counter.store(static_cast<T>(counter.load(std::memory_order_relaxed) + amount), order);
  } else {
    counter.fetch_add(amount, order);
  }
}

}  // namespace flowguard::base
