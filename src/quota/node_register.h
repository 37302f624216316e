// SPDX-License-Identifier: Apache-2.0
//
// How many nodes share the limits: each beats, and those that beat lately are counted.
#pragma once

#include <cstdint>
#include <string_view>

#include "flowguard/time.h"

namespace flowguard::quota {

// Told of the end of a Beat.
class NodeSink {
 public:
  virtual ~NodeSink() = default;
  // Exactly once a beat.  `nodes`: that beat within their time to live, this one
  // included; 0: not known.  Not from inside Beat.
  virtual void OnNodes(uint64_t ticket, int nodes) noexcept = 0;
};

// Threads: the thread of the loop that it was made for.
class NodeRegister {
 public:
  virtual ~NodeRegister() = default;

  // `owner` lives, and counts for `ttl`; with a ttl of zero it leaves.  Answers by
  // `deadline`.
  virtual void Beat(std::string_view owner, Duration ttl, Instant deadline, uint64_t ticket,
                    NodeSink* sink) noexcept = 0;
};

}  // namespace flowguard::quota
