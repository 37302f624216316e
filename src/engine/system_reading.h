// SPDX-License-Identifier: Apache-2.0
//
// What whoever drives an engine reads of the machine for it.
#pragma once

#include <optional>

namespace flowguard::engine {

// None: not known, and then no rule refuses by it.
struct SystemReading {
  std::optional<double> cpu;   // busy part of the processors that the process may use
  std::optional<double> load;  // 1-minute load average of the machine

  friend bool operator==(const SystemReading&, const SystemReading&) = default;
};

}  // namespace flowguard::engine
