// SPDX-License-Identifier: Apache-2.0
//
// A small number for the calling thread, so that counters can be kept one set a
// thread and no two running threads write one cache line.
#pragma once

#include <cstddef>

namespace flowguard::base {

inline constexpr size_t kThreadSlots = 64;

// The calling thread's slot, below kThreadSlots.  The first kThreadSlots threads
// that live at one time have one each; more share them, so what is kept by slot is
// changed by atomic read-modify-write.  A slot is free again when its thread ends.
//
// Cost:     a thread-local read after the first call of a thread.
[[nodiscard]] size_t ThreadSlot() noexcept;

}  // namespace flowguard::base
