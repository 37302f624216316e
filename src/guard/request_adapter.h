// SPDX-License-Identifier: Apache-2.0
//
// A Request of the public API as the engine reads it.
#pragma once

#include <span>
#include <string_view>

#include "flowguard/decision.h"

#include "engine/engine.h"
#include "rules/dimension.h"

namespace flowguard::guard {

// Views the request, which must outlive it.
//
// A dimension's value is found under its own name ("tenant", "param:sku"), or under
// where it is declared to be found ("header:x-tenant-id"); param:NAME also under
// query:NAME.  Values and the path are taken as they are: the caller has normalised them.
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
  }

  std::string_view Value(const rules::Dimension& dimension,
                         std::span<char> scratch) const noexcept override;

 private:
  std::span<const DimensionValue> dimensions_;
};

}  // namespace flowguard::guard
