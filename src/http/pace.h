// SPDX-License-Identifier: Apache-2.0
//
// How long a peer may take to move bytes: a time without any, and over all of them no
// less than a rate.  A time-out for each byte alone lets who moves one byte at a time
// hold a connection, and its place in a concurrency rule, without end.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "flowguard/time.h"

#include "base/bounds.h"

namespace flowguard::http {

// Each byte buys the time that it may take at kTransferRateMin; no more than the idle
// time is ever in hand.
// Threads: plain value.
class Pace {
 public:
  // The peer is waited for from `now` on.
  void Begin(Instant now, Duration idle) noexcept { until_ = now + idle; }
  // The peer moved `bytes`.
  void Add(size_t bytes, Instant now, Duration idle) noexcept {
    const auto counted = static_cast<int64_t>(std::min(bytes, kBytesCounted));
    until_ = std::min(until_ + counted * kPerByte, now + idle);
  }
  // When the peer is too slow.
  [[nodiscard]] Instant until() const noexcept { return until_; }

 private:
  static constexpr Duration kPerByte =
      Duration(std::chrono::seconds(1)) / static_cast<int64_t>(base::kTransferRateMin);
  static constexpr size_t kBytesCounted = size_t{1} << 24;  // more than any idle time is worth

  Instant until_{};
};

}  // namespace flowguard::http
