// SPDX-License-Identifier: Apache-2.0
//
// Requests with several values of one dimension, and rules that are keyed by it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/rules.h"

namespace flowguard::engine {

inline testing::FakeRequest Of(std::initializer_list<std::string_view> skus, int64_t cost = 0) {
  testing::FakeRequest::Values values;
  for (const std::string_view sku : skus)
    values.emplace_back("param:sku", sku);
  return testing::FakeRequest("r", std::move(values), cost);
}

inline testing::FakeRequest OfMany(size_t count) {
  testing::FakeRequest::Values values;
  for (size_t i = 0; i < count; ++i)
    values.emplace_back("param:sku", "s" + std::to_string(i));
  return testing::FakeRequest("r", std::move(values));
}

inline Rule BySku(Rule rule) {
  rule.by = {"param:sku"};
  return rule;
}

class ListsFixture : public testing::EngineFixture {
 protected:
  int64_t LeftOf(std::string_view sku) { return Peek(Of({sku})).remaining; }
  void UseUp(std::string_view sku) {
    int tries = 100;
    while (Check(Of({sku})).allowed())
      ASSERT_GT(--tries, 0);
  }
};

}  // namespace flowguard::engine
