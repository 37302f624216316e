// SPDX-License-Identifier: Apache-2.0
//
// Breakers that open, probe and close, as lines of the log.
#pragma once

#include "flowguard/breaker_listener.h"

namespace flowguard::app {

// Threads: as BreakerListener asks for.
class BreakerLog final : public BreakerListener {
 public:
  void OnBreaker(const BreakerChange& change) override;
};

}  // namespace flowguard::app
