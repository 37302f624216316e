// SPDX-License-Identifier: Apache-2.0
//
// The loop as a store sees it, so that a test can be one.
#pragma once

#include "flowguard/time.h"

namespace flowguard::quota {

// Threads: the loop's.
class StoreLoop {
 public:
  virtual ~StoreLoop() = default;

  // The time of this turn.
  [[nodiscard]] virtual Instant Now() const noexcept = 0;
  // Calls SharedStore::Turn at `when`, or in the next turn if that is past.  One wake is
  // out at a time: an earlier one replaces a later one, and a later one may be ignored.
  virtual void WakeAt(Instant when) noexcept = 0;
};

}  // namespace flowguard::quota
