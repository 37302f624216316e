// SPDX-License-Identifier: Apache-2.0
//
// Which rules have metric series of their own.  The others are summed up under
// kOtherRules, so that a scrape stays bounded however many rules there are.
//
// Invariants
//   (1) At most `series_max` rules have series; the busiest get them first.
//   (2) A rule that was once summed up under kOtherRules stays there, so no sum ever
//       falls.
//   (3) A rule that is gone keeps its series for kRuleSeriesGrace, then frees it.
//
// Threads: one owner (the thread that serves scrapes).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "flowguard/time.h"

#include "engine/engine.h"

namespace flowguard::observe {

inline constexpr std::string_view kOtherRules = "__other__";
inline constexpr Duration kRuleSeriesGrace = std::chrono::minutes(10);

class RuleSeries {
 public:
  explicit RuleSeries(size_t series_max) : series_max_(series_max) {}

  // The counters to show: one entry a rule with its own series, in the order given,
  // and last, if any rule is summed up, one named kOtherRules.
  std::vector<engine::RuleCounters> Select(std::span<const engine::RuleCounters> rules,
                                           Instant now);

  // How many rules are summed up.  Never falls.
  [[nodiscard]] size_t dropped() const noexcept { return others_.size(); }

 private:
  void Expire(std::span<const engine::RuleCounters> rules, Instant now);
  void Admit(std::span<const engine::RuleCounters> rules);

  const size_t series_max_;
  std::unordered_map<std::string, std::optional<Instant>> own_;  // since when it is gone
  std::unordered_set<std::string> expired_;                      // gone rules whose series ended
  std::unordered_set<std::string> others_;
};

}  // namespace flowguard::observe
