// SPDX-License-Identifier: Apache-2.0
#include "quota/reach.h"

#include <algorithm>
#include <string>

#include "base/log.h"

namespace flowguard::quota {

void Reach::Answered(const KnownCell& cell) noexcept {
  Place& place = At(cell.place);
  place.failures = 0;
  if (place.away) Back(place);
}

void Reach::Failed(const KnownCell& cell, Instant now) noexcept {
  StoreCounters::Add(counters_.flights_failed);
  Place& place = At(cell.place);
  if (place.away || ++place.failures < kFailuresToLeave) return;
  place.away = true;
  place.probe.place = cell.place;
  place.probe.key_bytes = cell.key_bytes;
  place.probe.key_size = cell.key_size;
  place.probe.shape = cell.shape;
  place.backoff = kProbeFirst;
  PutOff(place, now);
  ++away_;
  counters_.places_away.store(static_cast<int>(away_), std::memory_order_relaxed);
  StoreCounters::Add(counters_.fallback_entered);
  base::Log(base::LogLevel::kWarn, "store: no answers from server " + std::to_string(cell.place) +
                                       "; its rules follow on_store_failure");
}

void Reach::Back(Place& place) noexcept {
  place.away = false;
  place.failures = 0;
  --away_;
  counters_.places_away.store(static_cast<int>(away_), std::memory_order_relaxed);
  StoreCounters::Add(counters_.fallback_left);
  base::Log(base::LogLevel::kInfo,
            "store: server " + std::to_string(place.probe.place) + " answers again");
}

// Between half of the pause and all of it.
void Reach::PutOff(Place& place, Instant now) noexcept {
  draw_ ^= draw_ << 13;
  draw_ ^= draw_ >> 7;
  draw_ ^= draw_ << 17;
  const int64_t half = place.backoff.count() / 2;
  place.probe_at = now + Duration(half + static_cast<int64_t>(draw_ % static_cast<uint64_t>(half)));
  place.backoff = std::min(place.backoff * 2, kProbeMax);
}

bool Reach::NextProbe(Instant now, Probe& probe) noexcept {
  if (away_ == 0) return false;
  for (Place& place : places_) {
    if (!place.away || place.probing || now < place.probe_at) continue;
    place.probing = true;
    probe = place.probe;
    return true;
  }
  return false;
}

void Reach::ProbeEnded(uint32_t number, bool answered, Instant now) noexcept {
  Place& place = At(number);
  place.probing = false;
  if (!place.away) return;
  if (answered) {
    Back(place);
  } else {
    PutOff(place, now);
  }
}

Instant Reach::NextProbeAt() const noexcept {
  Instant next = Instant::max();
  if (away_ == 0) return next;
  for (const Place& place : places_) {
    if (place.away && !place.probing) next = std::min(next, place.probe_at);
  }
  return next;
}

}  // namespace flowguard::quota
