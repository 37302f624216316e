// SPDX-License-Identifier: Apache-2.0
//
// A store's turns on a loop of net.
#pragma once

#include "net/loop.h"
#include "net/timer.h"
#include "quota/store_loop.h"

namespace flowguard::quota {

class SharedStore;

// Threads: the loop's.
class NetStoreLoop final : public StoreLoop {
 public:
  // `loop` must outlive this.
  explicit NetStoreLoop(net::Loop& loop) noexcept : loop_(loop), timer_(&OnTimer, this) {}

  // Whose Turn is called; before the first WakeAt.
  void Drive(SharedStore& store) noexcept { store_ = &store; }

  [[nodiscard]] Instant Now() const noexcept override { return loop_.Now(); }
  void WakeAt(Instant when) noexcept override;

 private:
  static void OnTimer(void* self) noexcept;

  net::Loop& loop_;
  net::Timer timer_;
  SharedStore* store_ = nullptr;
};

}  // namespace flowguard::quota
