// SPDX-License-Identifier: Apache-2.0
//
// A request to the engine whose dimensions are a list.
#pragma once

#include <string>
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
  }
  std::string_view Value(const rules::Dimension& dimension,
                         std::span<char> /*scratch*/) const noexcept override {
    for (const auto& [name, value] : values_) {
      if (name == dimension.name) return value;
    }
    return {};
  }

 private:
  Values values_;
};

}  // namespace flowguard::testing
