// SPDX-License-Identifier: Apache-2.0
//
// What the engine counts of its requests: at the entrance, at the resource that a request
// asks for, and at the caller there (its dimension `origin`).
//
// A request counts as one, whatever its cost: costs are units of a rule.  One without a
// resource counts at the route of the most specific rule that it meets, as that is written:
// names come from programs and rules, never from paths, and all of them from a bounded table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

#include "rules/dimension.h"
#include "stats/resource_stats.h"
#include "stats/stats_table.h"

namespace flowguard::engine {

// Where an attempt is counted; part of it.
struct CountedAt {
  bool counts = false;  // at the entrance, and at what is not null
  bool ends = false;    // the end of the call will be told
  bool told = false;    // what was called has ended: by these
  Outcome outcome = Outcome::kOk;
  Duration took{};
  stats::ResourceStats* resource = nullptr;
  stats::ResourceStats* origin = nullptr;
  // Keep them where neither the rule set nor a call in progress does.
  stats::StatsRef resource_ref;
  stats::StatsRef origin_ref;

  // As new.
  void Clear() noexcept {
    counts = ends = told = false;
    outcome = Outcome::kOk;
    took = {};
    resource = origin = nullptr;
    if (resource_ref) resource_ref = {};
    if (origin_ref) origin_ref = {};
  }
};

// Threads: all methods from any thread.
class Statistics {
 public:
  // `all`: of resources and callers too, `stats_max` of them; else of the entrance, for
  // system rules.
  // Errors: those of stats::StatsTable.
  static Result<std::unique_ptr<Statistics>> Create(bool all, size_t stats_max, uint64_t seed);
  Statistics(const Statistics&) = delete;
  Statistics& operator=(const Statistics&) = delete;

  // Null: only the entrance is counted.
  [[nodiscard]] stats::StatsTable* table() const noexcept { return table_.get(); }
  [[nodiscard]] stats::ResourceStats& entrance() const noexcept { return *entrance_; }

  // In the following `slot` is base::ThreadSlot() of the calling thread.

  // The request goes on.
  void Admitted(const CountedAt& at, size_t slot, Instant now) const noexcept;
  void Refused(const CountedAt& at, size_t slot, Instant now) const noexcept;
  // The call has ended, `inside` after it went on.
  void Ended(const CountedAt& at, size_t slot, Instant now, Outcome outcome,
             Duration inside) const noexcept;
  // The call has ended without having run.
  void Abandoned(const CountedAt& at) const noexcept;

 private:
  explicit Statistics(std::unique_ptr<stats::StatsTable> table);

  template <typename F>
  void Each(const CountedAt& at, F&& f) const noexcept {
    // As a loop, so that what is done is there once.
    for (stats::ResourceStats* stats : {entrance_, at.resource, at.origin}) {
      if (stats != nullptr) f(*stats);
    }
  }

  const std::unique_ptr<stats::StatsTable> table_;
  // Without a table.
  std::unique_ptr<stats::ShardBudget> budget_;
  std::unique_ptr<stats::ResourceStats> alone_;
  stats::ResourceStats* entrance_;
};

// The dimension that names a request's caller, where the rule set does not declare one: what
// the application gives as "origin".
[[nodiscard]] const rules::Dimension& GivenOrigin() noexcept;
inline constexpr std::string_view kOriginDimension = "origin";

}  // namespace flowguard::engine
