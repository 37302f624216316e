// SPDX-License-Identifier: Apache-2.0
//
// What a store tells of itself: whether its servers answer, and what it has saved them.
#pragma once

#include <atomic>
#include <cstdint>

namespace flowguard::quota {

// A reading.  Counts are of takes (one rule of one request), and only grow.
struct StoreStatus {
  // --- fallback: rules follow their on_store_failure
  int places_away = 0;  // servers that do not answer now
  uint64_t fallback_entered = 0;
  uint64_t fallback_left = 0;
  int nodes = 0;  // that share the limits; 0: not known, or another store counts them
  uint64_t beats_failed = 0;

  // --- answers
  uint64_t granted = 0;  // and peeks that were answered
  uint64_t refused = 0;
  uint64_t failed = 0;       // by the store: not asked, or asked and not answered in time
  uint64_t failed_away = 0;  // of these, at once, for the server was known to be away
  uint64_t failed_full = 0;  // of these, for a table was full
  uint64_t failed_late = 0;  // of these, at the deadline, still waiting for their turn
  uint64_t abandoned = 0;    // requests

  // --- answered without asking
  uint64_t denied = 0;       // a refusal was remembered
  uint64_t prefiltered = 0;  // this node alone had used the limit up
  uint64_t leased = 0;       // units taken ahead were there

  // --- traffic
  uint64_t calls = 0;      // on cells
  uint64_t flights = 0;    // groups of calls, one round trip each
  uint64_t coalesced = 0;  // takes beyond the first in their call
  uint64_t together = 0;   // requests whose takes were granted in one step
  uint64_t flights_failed = 0;
  uint64_t dues_lost = 0;  // give-backs, charges and releases that could not be sent
  uint64_t leases = 0;
  uint64_t lease_units_expired = 0;  // unused when their lease ended
  uint64_t cells_forgotten = 0;
  uint64_t slots_leaked = 0;  // calls whose outcome is not known: their slots expire
};

// The counts while they grow.
// Threads: written by the store's; read by any.
class StoreCounters {
 public:
  using Counter = std::atomic<uint64_t>;

  static void Add(Counter& counter, uint64_t by = 1) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  [[nodiscard]] StoreStatus Read() const noexcept;

  std::atomic<int> places_away{0};
  std::atomic<int> nodes{0};
  Counter fallback_entered{0};
  Counter fallback_left{0};
  Counter beats_failed{0};
  Counter granted{0};
  Counter refused{0};
  Counter failed{0};
  Counter failed_away{0};
  Counter failed_full{0};
  Counter failed_late{0};
  Counter abandoned{0};
  Counter denied{0};
  Counter prefiltered{0};
  Counter leased{0};
  Counter calls{0};
  Counter flights{0};
  Counter coalesced{0};
  Counter together{0};
  Counter flights_failed{0};
  Counter dues_lost{0};
  Counter leases{0};
  Counter lease_units_expired{0};
  Counter cells_forgotten{0};
  Counter slots_leaked{0};
};

}  // namespace flowguard::quota
