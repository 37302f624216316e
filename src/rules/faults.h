// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a rule set, a line for each fault, all of it at once.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flowguard/rule.h"

namespace flowguard::rules {

struct Faults {
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

// The text with its control characters as spaces: a name must not forge a line of its own.
[[nodiscard]] std::string OneLine(std::string text);

// Faults of one place: every line begins with where it is.
class FaultsAt {
 public:
  FaultsAt(std::string where, Faults& faults) : where_(std::move(where)), faults_(faults) {}

  void Error(std::string_view field, std::string_view what) {
    faults_.errors.push_back(Line(field, what));
  }
  void Warning(std::string_view field, std::string_view what) {
    faults_.warnings.push_back(Line(field, what));
  }
  // Says that `field` is set though it means nothing here.
  void Misplaced(std::string_view field, std::string_view belongs_to) {
    Error(field, "found here; it belongs to " + std::string(belongs_to) + " only");
  }

 private:
  [[nodiscard]] std::string Line(std::string_view field, std::string_view what) const {
    std::string line = where_ + ": ";
    if (!field.empty()) line.append(field).append(": ");
    return OneLine(line.append(what));
  }

  std::string where_;
  Faults& faults_;
};

// `rules.yaml:12:5: rule "a"`, `rule "a"`, or for one without a name `rule #3`.
[[nodiscard]] std::string WhereOf(const Rule& rule, size_t index);

// `; did you mean "tenant"?` for the candidate that is nearest, or nothing when none
// is near.
[[nodiscard]] std::string DidYouMean(std::string_view word,
                                     const std::vector<std::string>& candidates);

}  // namespace flowguard::rules
