// SPDX-License-Identifier: Apache-2.0
//
// What the conversions of all kinds of Sentinel's rules have in common: names, targets,
// numbers, dimensions, and the report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flowguard/rule.h"

#include "dialects/sentinel/differences.h"
#include "dialects/sentinel/to_rules.h"

namespace flowguard::dialects::sentinel {

// The whole part, as Sentinel compares a count with whole units; at most `most`.
// Requires: count >= 0.
[[nodiscard]] int64_t WholeUnits(double count, int64_t most);

// Whether a list of values takes the text as it is written: '*' would be a wildcard there.
[[nodiscard]] bool IsPlainValue(std::string_view text);

inline constexpr std::string_view kListedValues =
    "lists values of 1 to 128 bytes, and takes '*' for any end";

// `count` units per `window`, with a longer window where count is no whole number.
// Requires: count > 0.
[[nodiscard]] Rate ExactRate(double count, Duration window);

// A rule's name has letters, digits and . _ : / - @ only: `text` with '_' for all else,
// and a mark behind it that tells such texts apart.
[[nodiscard]] std::string NameFrom(std::string_view text);

// The pattern that matches this text alone.
[[nodiscard]] std::string QuotedRegex(std::string_view text);
// The text that QuotedRegex made this pattern of, or nothing.
[[nodiscard]] std::optional<std::string> UnquotedRegex(std::string_view pattern);

// The route that a resource of Sentinel's web adapters names: "/orders/{id}",
// "GET:/orders"; or empty.
[[nodiscard]] std::string RouteOfResource(std::string_view resource);

// Puts the converted rules together.
// Threads: one owner.
class RuleMaker {
 public:
  explicit RuleMaker(Compat compat) { set_.compat = compat; }

  Differences report;

  // Local rules count as Sentinel does: the set says so.
  [[nodiscard]] bool counts_alike() const noexcept { return set_.compat == Compat::kSentinel; }

  // A rule for `resource`.  `about` is what its name is made of.
  [[nodiscard]] Rule Begin(const RuleAt& at, std::string_view about, std::string_view resource,
                           bool regex);
  // Takes the rule into the set, under a name that no other has.
  void Add(Rule rule);
  // The rule with nothing but a target and a key: refuses everything that it meets.
  void AddZero(Rule rule);
  // The same: bounds the calls in progress.
  void AddConcurrency(const RuleAt& at, double count, Rule rule);
  // The whole part, at most `most`: told where it is cut.  Requires: count >= 0.
  [[nodiscard]] int64_t CutUnits(const RuleAt& at, std::string_view field, double count,
                                 int64_t most);
  // The whole part of a count of calls by the second, at most what FlowGuard counts: told
  // where it is another number.  Requires: count >= 0.
  [[nodiscard]] int64_t UnitsPerSecond(const RuleAt& at, double count);
  // At most what FlowGuard lets a request wait.
  [[nodiscard]] Duration CutWait(const RuleAt& at, std::string_view field, Duration wait);

  // Each declares its dimension, and returns its name.
  std::string Origin();
  std::string Context();
  std::string Argument(int32_t index);
  // A dimension that is read from the request; the rule does not apply without it.
  std::string Source(std::string_view name, std::string source);

  [[nodiscard]] RuleSet Take();

 private:
  std::string Declare(DimensionSpec spec);

  RuleSet set_;
  std::set<std::string> names_;
  std::map<std::string, std::string, std::less<>> sources_;  // of declared dimensions, by name
};

}  // namespace flowguard::dialects::sentinel
