// SPDX-License-Identifier: Apache-2.0
//
// Which servers answer.  One that failed several times in a row is away: it is not asked
// any more, rules follow their on_store_failure at once, and a probe now and then tells
// when it is back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "quota/known_cell.h"
#include "quota/store_status.h"

namespace flowguard::quota {

// Flights in a row that fail before a server counts as away.
inline constexpr int kFailuresToLeave = 5;
inline constexpr Duration kProbeFirst = std::chrono::milliseconds(100);
// So that fallback is left within two seconds of a server's return, of which half a second
// may go by before the connection is tried again.
inline constexpr Duration kProbeMax = std::chrono::milliseconds(500);

// Threads: one owner.
class Reach {
 public:
  // `seed`: probes of nodes that lost a server together come apart.
  Reach(uint64_t seed, StoreCounters& counters) noexcept : draw_(seed | 1), counters_(counters) {}

  [[nodiscard]] bool Away(uint32_t number) const noexcept {
    const Server* const server = Find(number);
    return server != nullptr && server->away;
  }
  // A flight to a server ended; it asked for `cell`.  Logs when fallback is entered or left.
  void Answered(uint32_t server) noexcept;
  // Cost of Failed: allocates where none of so high a number has failed before.
  void Failed(uint32_t server, const KnownCell& cell, Instant now) noexcept;

  // A server that is to be probed now, by a peek at the cell that is written to `key` and
  // `shape`; no more until Answered or Failed.  False: none is due.
  struct Probe {
    uint32_t server = 0;
    std::array<char, base::kCellKeyBytesMax> key_bytes;
    size_t key_size = 0;
    CellShape shape;
  };
  bool NextProbe(Instant now, Probe& probe) noexcept;
  void ProbeEnded(uint32_t server, bool answered, Instant now) noexcept;
  // When a probe is due; Instant::max(): none is away.
  [[nodiscard]] Instant NextProbeAt() const noexcept;

 private:
  struct Server {
    int failures = 0;
    bool away = false;
    bool probing = false;
    Instant probe_at;
    Duration backoff{};
    Probe probe;
  };

  [[nodiscard]] static size_t PlaceOf(uint32_t number) noexcept {
    return number % base::kStoreServersMax;
  }
  // Null: it never failed.
  [[nodiscard]] const Server* Find(uint32_t number) const noexcept {
    return PlaceOf(number) < servers_.size() ? &servers_[PlaceOf(number)] : nullptr;
  }
  [[nodiscard]] Server* Find(uint32_t number) noexcept {
    return PlaceOf(number) < servers_.size() ? &servers_[PlaceOf(number)] : nullptr;
  }
  void Back(Server& server) noexcept;
  void PutOff(Server& server, Instant now) noexcept;

  std::vector<Server> servers_;  // by number, as far as one has failed
  size_t away_ = 0;
  uint64_t draw_;
  StoreCounters& counters_;
};

}  // namespace flowguard::quota
