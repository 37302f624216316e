// SPDX-License-Identifier: Apache-2.0
//
// The dimensions that a rule set uses: declared ones, built-in ones and direct
// sources, each once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/rule.h"

#include "rules/dimension.h"
#include "rules/faults.h"
#include "rules/value_list.h"

namespace flowguard::rules {

// A header or cookie name (RFC 9110, token).
[[nodiscard]] bool IsToken(std::string_view text) noexcept;

class DimensionTable {
 public:
  // Takes the declarations; what is wrong with them goes to `faults`.
  DimensionTable(const std::vector<DimensionSpec>& specs, Faults& faults);

  // Index of the dimension that a rule's `by` (or access list) names.
  // Errors: kInvalidArgument: no known form, with the nearest one.
  [[nodiscard]] Result<size_t> Find(std::string_view name);
  [[nodiscard]] const Dimension& operator[](size_t index) const { return dimensions_[index]; }
  // Declared in RuleSet::dimensions.
  [[nodiscard]] bool declared(size_t index) const { return index < declared_; }

  [[nodiscard]] std::vector<Dimension> Take() { return std::move(dimensions_); }

 private:
  void Declare(const DimensionSpec& spec, size_t index, Faults& faults);
  size_t Append(Dimension dimension);
  [[nodiscard]] std::vector<std::string> Candidates() const;

  std::vector<Dimension> dimensions_;
  size_t declared_ = 0;
  std::unordered_map<std::string, size_t, TextHash, std::equal_to<>> by_name_;
};

}  // namespace flowguard::rules
