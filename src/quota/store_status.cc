// SPDX-License-Identifier: Apache-2.0
#include "quota/store_status.h"

namespace flowguard::quota {

StoreStatus StoreCounters::Read() const noexcept {
  StoreStatus status;
  status.places_away = places_away.load(std::memory_order_relaxed);
  status.nodes = nodes.load(std::memory_order_relaxed);
  status.fallback_entered = fallback_entered.load(std::memory_order_relaxed);
  status.fallback_left = fallback_left.load(std::memory_order_relaxed);
  status.beats_failed = beats_failed.load(std::memory_order_relaxed);
  status.granted = granted.load(std::memory_order_relaxed);
  status.refused = refused.load(std::memory_order_relaxed);
  status.failed = failed.load(std::memory_order_relaxed);
  status.failed_away = failed_away.load(std::memory_order_relaxed);
  status.failed_full = failed_full.load(std::memory_order_relaxed);
  status.failed_late = failed_late.load(std::memory_order_relaxed);
  status.abandoned = abandoned.load(std::memory_order_relaxed);
  status.denied = denied.load(std::memory_order_relaxed);
  status.prefiltered = prefiltered.load(std::memory_order_relaxed);
  status.leased = leased.load(std::memory_order_relaxed);
  status.calls = calls.load(std::memory_order_relaxed);
  status.flights = flights.load(std::memory_order_relaxed);
  status.coalesced = coalesced.load(std::memory_order_relaxed);
  status.together = together.load(std::memory_order_relaxed);
  status.flights_failed = flights_failed.load(std::memory_order_relaxed);
  status.dues_lost = dues_lost.load(std::memory_order_relaxed);
  status.leases = leases.load(std::memory_order_relaxed);
  status.lease_units_expired = lease_units_expired.load(std::memory_order_relaxed);
  status.cells_forgotten = cells_forgotten.load(std::memory_order_relaxed);
  status.slots_leaked = slots_leaked.load(std::memory_order_relaxed);
  return status;
}

}  // namespace flowguard::quota
