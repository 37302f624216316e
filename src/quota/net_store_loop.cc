// SPDX-License-Identifier: Apache-2.0
#include "quota/net_store_loop.h"

#include "quota/shared_store.h"

namespace flowguard::quota {

void NetStoreLoop::WakeAt(Instant when) noexcept {
  if (!timer_.armed() || when < timer_.deadline()) loop_.Arm(timer_, when);
}

void NetStoreLoop::OnTimer(void* self) noexcept {
  NetStoreLoop& loop = *static_cast<NetStoreLoop*>(self);
  loop.store_->Turn(loop.loop_.Now());
}

}  // namespace flowguard::quota
