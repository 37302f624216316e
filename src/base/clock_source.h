// SPDX-License-Identifier: Apache-2.0
//
// Which clock the kernel itself keeps its time by.
#pragma once

namespace flowguard::base {

// True when the file `path`, the kernel's current_clocksource, says "tsc"; `last` when
// it cannot be read, be it for want of a descriptor: nothing was learned then.
// Cost: three system calls.
[[nodiscard]] bool ClockSourceIsTsc(const char* path, bool last) noexcept;

}  // namespace flowguard::base
