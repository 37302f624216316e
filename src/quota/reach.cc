// SPDX-License-Identifier: Apache-2.0
#include "quota/reach.h"

#include <algorithm>
#include <string>

#include "base/log.h"

namespace flowguard::quota {

static_assert(base::kStoreServersMax > base::kRedisNodesMax);

void Reach::Answered(uint32_t number) noexcept {
  Server* const server = Find(number);
  if (server == nullptr) return;
  server->failures = 0;
  if (server->away) Back(*server);
}

void Reach::Failed(uint32_t number, const KnownCell& cell, Instant now) noexcept {
  StoreCounters::Add(counters_.flights_failed);
  if (PlaceOf(number) >= servers_.size()) servers_.resize(PlaceOf(number) + 1);
  Server& server = servers_[PlaceOf(number)];
  if (server.away || ++server.failures < kFailuresToLeave) return;
  server.away = true;
  server.probe.server = number;
  server.probe.key_bytes = cell.key_bytes;
  server.probe.key_size = cell.key_size;
  server.probe.shape = cell.shape;
  server.backoff = kProbeFirst;
  PutOff(server, now);
  ++away_;
  counters_.places_away.store(static_cast<int>(away_), std::memory_order_relaxed);
  StoreCounters::Add(counters_.fallback_entered);
  base::Log(base::LogLevel::kWarn, "store: no answers from server " + std::to_string(number) +
                                       "; its rules follow on_store_failure");
}

void Reach::Back(Server& server) noexcept {
  server.away = false;
  server.failures = 0;
  --away_;
  counters_.places_away.store(static_cast<int>(away_), std::memory_order_relaxed);
  StoreCounters::Add(counters_.fallback_left);
  base::Log(base::LogLevel::kInfo,
            "store: server " + std::to_string(server.probe.server) + " answers again");
}

// Between half of the pause and all of it.
void Reach::PutOff(Server& server, Instant now) noexcept {
  draw_ ^= draw_ << 13;
  draw_ ^= draw_ >> 7;
  draw_ ^= draw_ << 17;
  const int64_t half = server.backoff.count() / 2;
  server.probe_at =
      now + Duration(half + static_cast<int64_t>(draw_ % static_cast<uint64_t>(half)));
  server.backoff = std::min(server.backoff * 2, kProbeMax);
}

bool Reach::NextProbe(Instant now, Probe& probe) noexcept {
  if (away_ == 0) return false;
  for (Server& server : servers_) {
    if (!server.away || server.probing || now < server.probe_at) continue;
    server.probing = true;
    probe = server.probe;
    return true;
  }
  return false;
}

void Reach::ProbeEnded(uint32_t number, bool answered, Instant now) noexcept {
  Server& server = servers_[PlaceOf(number)];
  server.probing = false;
  if (!server.away) return;
  if (answered) {
    Back(server);
  } else {
    PutOff(server, now);
  }
}

Instant Reach::NextProbeAt() const noexcept {
  Instant next = Instant::max();
  if (away_ == 0) return next;
  for (const Server& server : servers_) {
    if (server.away && !server.probing) next = std::min(next, server.probe_at);
  }
  return next;
}

}  // namespace flowguard::quota
