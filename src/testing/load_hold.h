// SPDX-License-Identifier: Apache-2.0
//
// A load that lasts as long as a test wants.
#pragma once

#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/engine_impl.h"

namespace flowguard::engine {

// Holds what Engine::Load holds while it makes the new snapshot.
class LoadHold {
 public:
  explicit LoadHold(Engine& engine) : lock_(engine.impl_->load_mutex) {}

 private:
  base::MutexLock lock_;
};

}  // namespace flowguard::engine
