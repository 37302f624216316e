// SPDX-License-Identifier: Apache-2.0
#include "guard/request_adapter.h"

#include <algorithm>

#include "base/short_text.h"

namespace flowguard::guard {
namespace {

std::string_view PrefixOf(rules::DimensionKind kind) noexcept {
  switch (kind) {
    case rules::DimensionKind::kHeader:
      return "header:";
    case rules::DimensionKind::kCookie:
      return "cookie:";
    case rules::DimensionKind::kQuery:
    case rules::DimensionKind::kParam:
      return "query:";
    case rules::DimensionKind::kIp:
      return "ip";
    default:
      return {};
  }
}

// Header names do not differ by case.
bool NamesSource(const rules::Dimension& dimension, std::string_view name) noexcept {
  const std::string_view prefix = PrefixOf(dimension.kind);
  if (prefix.empty() || !name.starts_with(prefix)) return false;
  const std::string_view argument = name.substr(prefix.size());
  if (dimension.kind != rules::DimensionKind::kHeader) return argument == dimension.argument;
  return std::equal(argument.begin(), argument.end(), dimension.argument.begin(),
                    dimension.argument.end(),
                    [](char a, char b) { return rules::AsciiLower(a) == b; });
}

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
    if (NamesSource(dimension, one.name)) return There(one.value);
  }
  return {};
}

}  // namespace flowguard::guard
