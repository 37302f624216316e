// SPDX-License-Identifier: Apache-2.0
//
// One request's takes on their way through a store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "engine/quota_store.h"
#include "quota/known_cell.h"

namespace flowguard::quota {

// One of the takes.  What the caller viewed is copied here: its key is in the cell.
struct AskPart {
  KnownCell* cell = nullptr;  // pinned; null: there was no room to know it
  int64_t cost = 0;           // 0: a peek
  bool soft = false;          // refuses for itself alone: shadow, or degrade
  bool settled = false;       // its outcome stands
  uint32_t epoch = 0;         // concurrency: the owner of its slots
  // Of a rule with shards: which it asks, of how many, and the other, for a refusal of one
  // shard says little.  Both pinned.
  int16_t shard = -1;
  int16_t shards = 1;
  int16_t other_shard = -1;
  KnownCell* other = nullptr;
  int64_t whole_limit = 0;
};

struct Ask {
  enum class State : uint8_t { kFree, kWaiting, kFlying };

  size_t pool_index = 0;
  State state = State::kFree;
  bool abandoned = false;
  bool refused = false;  // once abandoned: the request did not go
  bool told = false;     // its time was over while it flew: failed, and abandoned by itself
  uint8_t count = 0;
  uint8_t at = 0;  // the part that waits or flies
  uint64_t ticket = 0;
  engine::TakeSink* sink = nullptr;
  Instant deadline;

  bool listed_ending = false;
  Ask* chain = nullptr;        // by ticket
  Ask* next = nullptr;         // in a cell's queue, or a flight's run
  Ask* prev = nullptr;         // in a cell's queue
  Ask* next_ending = nullptr;  // by deadline, while it waits or flies with others
  Ask* prev_ending = nullptr;

  // At most as many as a request may have: nearly always the first alone.
  std::array<AskPart, base::kRemoteTakesPerRequestMax> parts;
  std::array<engine::TakeOutcome, base::kRemoteTakesPerRequestMax> outcomes;
};

}  // namespace flowguard::quota
