// SPDX-License-Identifier: Apache-2.0
//
// A request to the engine whose dimensions are a list; a name that stands several times in
// it has several values.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "rules/dimension.h"

namespace flowguard::testing {

class FakeRequest final : public engine::RequestView {
 public:
  using Values = std::vector<std::pair<std::string, std::string>>;

  explicit FakeRequest(std::string_view of, Values values = {}, int64_t units = 0)
      : values_(std::move(values)) {
    resource = of;
    cost = units;
    for (const auto& [name, value] : values_)
      lists = lists || CountOf(name) > 1;
  }
  std::string_view Value(const rules::Dimension& dimension,
                         std::span<char> /*scratch*/) const noexcept override {
    for (const auto& [name, value] : values_) {
      if (name == dimension.name) return value;
    }
    return {};
  }
  [[nodiscard]] size_t ValueCount(const rules::Dimension& dimension) const noexcept override {
    return CountOf(dimension.name);
  }
  [[nodiscard]] std::string_view ValueAt(const rules::Dimension& dimension, size_t place,
                                         std::span<char> /*scratch*/) const noexcept override {
    for (const auto& [name, value] : values_) {
      if (name == dimension.name && place-- == 0) return value;
    }
    return {};
  }

 private:
  [[nodiscard]] size_t CountOf(std::string_view wanted) const noexcept {
    return static_cast<size_t>(std::count_if(values_.begin(), values_.end(),
                                             [&](const auto& one) { return one.first == wanted; }));
  }

  Values values_;
};

}  // namespace flowguard::testing
