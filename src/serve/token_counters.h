// SPDX-License-Identifier: Apache-2.0
//
// What one worker's token server counts.  What it decides is counted by the service,
// for all workers.
#pragma once

#include <atomic>
#include <cstdint>

namespace flowguard::serve {

// Relaxed; written by the loop's thread, read by any.
struct TokenServerCounters {
  std::atomic<uint64_t> connections{0};  // accepted, ever
  std::atomic<int64_t> open{0};          // now
  // Closed at once.
  std::atomic<uint64_t> refused_network{0};  // not of the networks that may connect
  std::atomic<uint64_t> refused_full{0};     // as many were open as may be
  std::atomic<uint64_t> shed{0};             // no descriptor was left
  std::atomic<uint64_t> questions{0};        // of any kind, pings too
  // Messages that are no questions.
  std::atomic<uint64_t> too_long{0};
  std::atomic<uint64_t> no_head{0};  // shorter than one that could be answered
  std::atomic<uint64_t> unknown_type{0};
  std::atomic<uint64_t> bad_body{0};
  // Questions that the store was asked for, and how long for.
  std::atomic<int64_t> waiting{0};  // now
  std::atomic<uint64_t> waited{0};
  std::atomic<uint64_t> wait_ns{0};
  std::atomic<uint64_t> store_failed{0};  // answered from this node's share
  std::atomic<uint64_t> paused{0};        // times that a connection was read no more for a while
  std::atomic<uint64_t> stalled{0};       // closed, for the client took no answer
  std::atomic<uint64_t> cut_off{0};       // questions that the end of a drain broke off
  std::atomic<uint64_t> bytes_in{0};
  std::atomic<uint64_t> bytes_out{0};
};

}  // namespace flowguard::serve
