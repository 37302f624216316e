// SPDX-License-Identifier: Apache-2.0
#include "guard/request_adapter.h"

#include "base/short_text.h"

namespace flowguard::guard {
namespace {

// A value that is there, be it empty.
std::string_view There(std::string_view value) noexcept {
  return value.data() == nullptr ? std::string_view("", 0) : value;
}

}  // namespace

const DimensionValue* RequestAdapter::Find(const rules::Dimension& dimension) const noexcept {
  for (const DimensionValue& one : dimensions_) {
    if (base::SameText(one.name, dimension.name)) return &one;
  }
  for (const DimensionValue& one : dimensions_) {
    if (rules::NamesSource(dimension, one.name)) return &one;
  }
  return nullptr;
}

std::string_view RequestAdapter::Value(const rules::Dimension& dimension,
                                       std::span<char> /*scratch*/) const noexcept {
  const DimensionValue* const first = Find(dimension);
  return first != nullptr ? There(first->value) : std::string_view();
}

size_t RequestAdapter::ValueCount(const rules::Dimension& dimension) const noexcept {
  const DimensionValue* const first = Find(dimension);
  return first != nullptr ? engine::CountNamed(dimensions_, first->name) : 1;
}

std::string_view RequestAdapter::ValueAt(const rules::Dimension& dimension, size_t place,
                                         std::span<char> /*scratch*/) const noexcept {
  const DimensionValue* found = Find(dimension);
  if (found != nullptr) found = engine::FindNamed(dimensions_, found->name, place);
  return found != nullptr ? There(found->value) : std::string_view();
}

}  // namespace flowguard::guard
