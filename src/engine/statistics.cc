// SPDX-License-Identifier: Apache-2.0
#include "engine/statistics.h"

#include <string>
#include <utility>

#include "base/try.h"

namespace flowguard::engine {
namespace {

constexpr size_t kAloneShardBytes = size_t{1} << 20;
constexpr std::string_view kEntrance = "(entrance)";

}  // namespace

Result<std::unique_ptr<Statistics>> Statistics::Create(bool all, size_t stats_max, uint64_t seed) {
  std::unique_ptr<stats::StatsTable> table;
  if (all) {
    FG_ASSIGN_OR_RETURN(table,
                        stats::StatsTable::Create({.stats_max = stats_max, .hash_seed = seed}));
  }
  return std::unique_ptr<Statistics>(new Statistics(std::move(table)));
}

Statistics::Statistics(std::unique_ptr<stats::StatsTable> table) : table_(std::move(table)) {
  if (table_ != nullptr) {
    entrance_ = &table_->Entrance();
    return;
  }
  budget_ = std::make_unique<stats::ShardBudget>(kAloneShardBytes);
  alone_ =
      std::make_unique<stats::ResourceStats>(kEntrance, "", stats::StatsShape{}, budget_.get());
  entrance_ = alone_.get();
}

// These two are on the way of every call: one function each.
[[gnu::flatten]] void Statistics::Admitted(const CountedAt& at, size_t slot,
                                           Instant now) const noexcept {
  Each(at, [&at, slot, now](stats::ResourceStats& stats) {
    if (at.ends) {
      stats.Enter(slot, now, 1);
    } else {
      stats.Pass(slot, now, 1);
    }
  });
}

void Statistics::Refused(const CountedAt& at, size_t slot, Instant now) const noexcept {
  Each(at, [slot, now](stats::ResourceStats& stats) { stats.Block(slot, now, 1); });
}

[[gnu::flatten]] void Statistics::Ended(const CountedAt& at, size_t slot, Instant now,
                                        Outcome outcome, Duration inside) const noexcept {
  if (at.told) outcome = at.outcome;
  // How long it would have taken is not known, and how long it was waited for says nothing.
  if (outcome == Outcome::kCancelled) return Abandoned(at);
  const Duration took = at.told && at.took > Duration::zero() ? at.took : inside;
  const stats::CallEnd end(1, took, outcome == Outcome::kError);
  Each(at, [slot, now, &end](stats::ResourceStats& stats) { stats.Exit(slot, now, end); });
}

void Statistics::Abandoned(const CountedAt& at) const noexcept {
  Each(at, [](stats::ResourceStats& stats) { stats.Abandon(); });
}

const rules::Dimension& GivenOrigin() noexcept {
  static const rules::Dimension given{.name = std::string(kOriginDimension),
                                      .kind = rules::DimensionKind::kNamed,
                                      .argument = {},
                                      .missing = MissingPolicy::kSkip,
                                      .missing_value = {},
                                      .trim = false,
                                      .lower = false,
                                      .index = 0};
  return given;
}

}  // namespace flowguard::engine
