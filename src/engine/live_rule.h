// SPDX-License-Identifier: Apache-2.0
//
// What of a rule outlives the rule set that it was loaded with.  Attempts point to
// these and to nothing else of a snapshot, so calls may last over any number of
// reloads.  All are interned for the life of the engine: the same text gives the
// same object.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/rule.h"

#include "limit/numbers.h"
#include "limit/spec.h"
#include "rules/compiled_rule.h"
#include "rules/dimension.h"

namespace flowguard::engine {

// The state of a rule without a key, by identity: a TAT, the end of a window with
// its count, or the concurrency in use.
struct alignas(64) SingleCell {
  std::atomic<int64_t> word{0};
};

struct LiveSpec;

// The numbers that cells of one identity are or were decided by, where they give the
// state of a key its size (sliding_log).  A key has one state, of one of these sizes.
// Written by loads, one at a time; read by any thread.  In no order; the rest is null.
struct Shapes {
  static constexpr size_t kMax = 16;
  std::array<std::atomic<const LiveSpec*>, kMax> specs{};
};

// The numbers that a cell is decided by.
struct LiveSpec {
  std::optional<limit::AnySpec> spec;  // limit rules
  // The same for prioritised requests, on the same cells; where they may borrow.
  std::optional<limit::AnySpec> prioritised;
  limit::Config config;            // shared concurrency: rate.limit slots, rate.window their expiry
  int64_t concurrency = 0;         // concurrency rules
  Duration window{};               // in which the limit comes back; 0: concurrency
  const Shapes* shapes = nullptr;  // of states of more than one word; holds this one
};

// Units that can be had at once at most, or calls in progress.
[[nodiscard]] inline int64_t LimitOf(const LiveSpec& spec) noexcept {
  return spec.spec ? spec.spec->limit() : spec.concurrency;
}

// A rule as its requests remember it.
struct LiveRule {
  RuleInfo info;
  uint32_t account = 0;  // its name's number on the counter board
  bool count_refused = false;
  bool related = false;   // it counts the calls of a resource, and refuses those of its target
  bool has_cost = false;  // the rule has a cost of its own, which calls settle
  int64_t reserve = 1;    // units taken when the request names none
  int64_t max_debt = 0;
  std::string settle_header;  // of the response, lower-cased; empty: none tells the cost
  StoreFailurePolicy on_store_failure = StoreFailurePolicy::kLocal;
  bool cluster = false;     // scope cluster
  bool limit_each = false;  // cluster.per_client: a process's share is the whole limit
  // Shared rules, for the store: no overrides, and what `by` points to beside it.
  std::unique_ptr<const rules::CompiledRule> remote;
  std::unique_ptr<const std::vector<rules::Dimension>> remote_dimensions;
  // The one cell of a rule without a key, if it is one word.
  SingleCell* single = nullptr;
};

}  // namespace flowguard::engine
