// SPDX-License-Identifier: Apache-2.0
//
// The door to counters in other processes.  The engine declares it and never
// calls it: whoever drives a decision (a server loop, the blocking library call)
// does, and brings the outcomes back to Engine::Resume.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "limit/numbers.h"

namespace flowguard::rules {
class CompiledRule;
}

namespace flowguard::engine {

// One take that a decision needs from a store.  Views live as long as the Attempt.
struct RemoteTake {
  const rules::CompiledRule* rule = nullptr;
  std::string_view key;  // the dimension values as a length-prefixed tuple
  limit::Config config;  // after overrides
  int64_t cost = 1;      // 0: a peek
};

struct TakeOutcome {
  enum class Status : uint8_t { kTaken, kRefused, kFailed };
  Status status = Status::kFailed;
  limit::Numbers numbers;  // kTaken and kRefused
  limit::Receipt receipt;  // kTaken: as the store understands it
  // The clock of who keeps the counts when it decided, in us; 0: no answer of it decided
  // this (units taken ahead, a refusal that was remembered, a failure).
  int64_t store_time_us = 0;
};

// Told of the end of a Take.
// Threads: called on the store's thread.
class TakeSink {
 public:
  virtual ~TakeSink() = default;
  // At most once per ticket, and not after Abandon returned.  A driver ignores what
  // comes all the same.
  virtual void OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept = 0;
};

// Threads: as the implementation says; the library's driver calls from any thread.
class QuotaStore {
 public:
  virtual ~QuotaStore() = default;

  // Starts taking all of `takes`, all or nothing, and answers `sink` by `deadline`
  // (kFailed for all if the store could not).  May answer before it returns.
  // When one refuses, the others' receipts are empty: nothing of them is held.  A
  // rule in shadow refuses for itself alone.
  // What `takes` views is copied before the sink is called, and before Take returns.
  virtual void Take(std::span<const RemoteTake> takes, Instant now, Instant deadline,
                    uint64_t ticket, TakeSink* sink) noexcept = 0;

  // Nobody waits for `ticket` any more; the sink is not called again for it.  If
  // its answer still comes and took units, they are given back when `refused`
  // (the request did not go), and stay taken otherwise.
  virtual void Abandon(uint64_t ticket, bool refused) noexcept = 0;

  virtual void GiveBack(const RemoteTake& take, const limit::Receipt& receipt,
                        Instant now) noexcept = 0;
  // Charges `units` more than were taken.
  virtual void Charge(const RemoteTake& take, int64_t units, Instant now) noexcept = 0;

  // Returns when nothing of what earlier calls passed is looked at any more, as the rules
  // of takes: before the engine that they are of ends.  May block.
  virtual void Quiesce() noexcept {}

  // How many nodes share the limits, for the local share of a rule whose store
  // does not answer.  0: not known, such rules fail closed.
  [[nodiscard]] virtual int Nodes() const noexcept = 0;
};

}  // namespace flowguard::engine
