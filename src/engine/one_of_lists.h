// SPDX-License-Identifier: Apache-2.0
//
// A request whose dimensions have several values, as so many requests that have one each.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/bounds.h"
#include "engine/engine.h"
#include "rules/compiled_rule.h"
#include "rules/dimension.h"

namespace flowguard::engine {

// How many values `request` has of the dimension; 1 where it has none, too.
[[nodiscard]] size_t ValuesOf(const RequestView& request,
                              const rules::Dimension& dimension) noexcept;

// Goes through every combination of the values of a key's parts.
// Threads: one owner.
class OneOfLists final : public RequestView {
 public:
  // Begins with the first value of each.  Both outlive this.
  // Requires: at most kDimensionsPerKeyMax parts.
  OneOfLists(const RequestView& request, std::span<const rules::KeyPart> parts) noexcept;

  // How many combinations there are, at most one more than kRulesPerRequestMax.
  [[nodiscard]] size_t Combinations() const noexcept;
  // Goes on to the next one.  False: that was the last.
  [[nodiscard]] bool Next() noexcept;

  // Of the dimensions of the parts: the value that it is the turn of.
  [[nodiscard]] std::string_view Value(const rules::Dimension& dimension,
                                       std::span<char> scratch) const noexcept override;

 private:
  const RequestView& request_;
  std::span<const rules::KeyPart> parts_;
  // By part.
  std::array<size_t, base::kDimensionsPerKeyMax> counts_{};
  std::array<size_t, base::kDimensionsPerKeyMax> places_{};
};

}  // namespace flowguard::engine
