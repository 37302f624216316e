// SPDX-License-Identifier: Apache-2.0
//
// A Request of the public API as the engine reads it.
#pragma once

#include <span>
#include <string_view>

#include "flowguard/decision.h"

#include "engine/engine.h"
#include "engine/given_values.h"
#include "rules/dimension.h"

namespace flowguard::guard {

// Views the request, which must outlive it.
//
// A dimension's value is found under its own name ("tenant", "param:sku"), or under
// where it is declared to be found ("header:x-tenant-id"); param:NAME also under
// query:NAME.  Where the name that it is found under stands several times, it is a list.
// Values and the path are taken as they are: the caller has normalised them.
class RequestAdapter final : public engine::RequestView {
 public:
  RequestAdapter(const Request& request, Duration longest_wait) noexcept
      : dimensions_(request.dimensions) {
    resource = request.resource;
    method = request.method;
    path = request.path;
    cost = request.cost;
    priority = request.priority;
    wait_max = longest_wait;
    lists = engine::MayRepeatNames(request.dimensions);
  }

  std::string_view Value(const rules::Dimension& dimension,
                         std::span<char> scratch) const noexcept override;
  [[nodiscard]] size_t ValueCount(const rules::Dimension& dimension) const noexcept override;
  [[nodiscard]] std::string_view ValueAt(const rules::Dimension& dimension, size_t place,
                                         std::span<char> scratch) const noexcept override;

 private:
  // The first value of the dimension; null: it has none.
  [[nodiscard]] const DimensionValue* Find(const rules::Dimension& dimension) const noexcept;

  std::span<const DimensionValue> dimensions_;
};

}  // namespace flowguard::guard
