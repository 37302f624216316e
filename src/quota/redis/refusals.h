// SPDX-License-Identifier: Apache-2.0
//
// Commands that fail at once: a sink is never told from inside Run, but when the turn
// ends.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "net/loop.h"
#include "quota/redis/commander.h"
#include "quota/redis/metrics.h"

namespace flowguard::quota::redis {

// Threads: the loop's.
class Refusals final : public net::Watcher {
 public:
  Refusals(net::Loop& loop, Metrics& metrics) noexcept : loop_(loop), metrics_(metrics) {}
  ~Refusals() override;

  // The sink will be told kNotSent.  `why` lives for ever.
  void Add(uint64_t ticket, ReplySink* sink, std::string_view why);

  void OnReady(net::Ready /*ready*/) noexcept override {}
  void OnTurnEnd() noexcept override;

 private:
  struct Refusal {
    uint64_t ticket;
    ReplySink* sink;
    std::string_view why;
  };
  net::Loop& loop_;
  Metrics& metrics_;
  std::vector<Refusal> waiting_;
  std::vector<Refusal> telling_;
};

}  // namespace flowguard::quota::redis
