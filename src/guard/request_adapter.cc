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

std::string_view RequestAdapter::Value(const rules::Dimension& dimension,
                                       std::span<char> /*scratch*/) const noexcept {
  for (const DimensionValue& one : dimensions_) {
    if (base::SameText(one.name, dimension.name)) return There(one.value);
  }
  for (const DimensionValue& one : dimensions_) {
    if (rules::NamesSource(dimension, one.name)) return There(one.value);
  }
  return {};
}

}  // namespace flowguard::guard
