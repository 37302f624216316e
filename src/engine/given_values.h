// SPDX-License-Identifier: Apache-2.0
//
// Dimensions as an application gives them: a name that stands several times is a list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "flowguard/decision.h"

#include "base/short_text.h"

namespace flowguard::engine {

// False: no name stands twice.  True: one does, or two look alike.
// Cost: a few instructions a name.
[[nodiscard]] inline bool MayRepeatNames(std::span<const DimensionValue> given) noexcept {
  if (given.size() < 2) return false;
  uint64_t seen = 0;
  for (const DimensionValue& one : given) {
    const std::string_view name = one.name;
    const size_t ends = name.empty() ? 0
                                     : static_cast<unsigned char>(name.front()) * size_t{5} +
                                           static_cast<unsigned char>(name.back());
    const uint64_t bit = uint64_t{1} << ((ends + 11 * name.size()) % 64);
    if ((seen & bit) != 0) return true;
    seen |= bit;
  }
  return false;
}

[[nodiscard]] inline size_t CountNamed(std::span<const DimensionValue> given,
                                       std::string_view name) noexcept {
  return static_cast<size_t>(
      std::count_if(given.begin(), given.end(),
                    [name](const DimensionValue& one) { return base::SameText(one.name, name); }));
}

// The one at `place` of those with the name, from 0; null: there are fewer.
[[nodiscard]] inline const DimensionValue* FindNamed(std::span<const DimensionValue> given,
                                                     std::string_view name, size_t place) noexcept {
  for (const DimensionValue& one : given) {
    if (base::SameText(one.name, name) && place-- == 0) return &one;
  }
  return nullptr;
}

}  // namespace flowguard::engine
