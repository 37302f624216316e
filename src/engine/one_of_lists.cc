// SPDX-License-Identifier: Apache-2.0
#include "engine/one_of_lists.h"

#include <algorithm>

#include "base/check.h"

namespace flowguard::engine {

size_t ValuesOf(const RequestView& request, const rules::Dimension& dimension) noexcept {
  switch (dimension.kind) {
    case rules::DimensionKind::kMethod:  // the engine knows these itself
    case rules::DimensionKind::kResource:
    case rules::DimensionKind::kPath:
      return 1;
    default:
      return std::max<size_t>(request.ValueCount(dimension), 1);
  }
}

OneOfLists::OneOfLists(const RequestView& request, std::span<const rules::KeyPart> parts) noexcept
    : request_(request), parts_(parts) {
  FG_DCHECK(parts.size() <= counts_.size());
  resource = request.resource;
  method = request.method;
  path = request.path;
  for (size_t i = 0; i < parts.size(); ++i)
    counts_[i] = ValuesOf(request, *parts[i].dimension);
}

size_t OneOfLists::Combinations() const noexcept {
  constexpr size_t kMost = base::kRulesPerRequestMax + 1;
  size_t combinations = 1;
  for (size_t i = 0; i < parts_.size(); ++i)
    combinations = std::min(combinations * std::min(counts_[i], kMost), kMost);
  return combinations;
}

bool OneOfLists::Next() noexcept {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (++places_[i] < counts_[i]) return true;
    places_[i] = 0;
  }
  return false;
}

std::string_view OneOfLists::Value(const rules::Dimension& dimension,
                                   std::span<char> scratch) const noexcept {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].dimension == &dimension && counts_[i] > 1)
      return request_.ValueAt(dimension, places_[i], scratch);
  }
  return request_.Value(dimension, scratch);
}

}  // namespace flowguard::engine
