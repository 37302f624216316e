// SPDX-License-Identifier: Apache-2.0
//
// Routes that no rule sees: health checks, static files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "flowguard/result.h"

#include "rules/matcher.h"

namespace flowguard::serve {

// Threads: immutable once made.
class ExemptRoutes {
 public:
  ExemptRoutes() = default;  // none

  // From route templates: "/healthz", "GET /static/**".
  // Errors: kInvalidArgument naming the template.
  static Result<ExemptRoutes> Create(std::span<const std::string> routes);

  // `path` is normalised and without query.
  [[nodiscard]] bool Contains(std::string_view method, std::string_view path) const noexcept;

 private:
  std::shared_ptr<const rules::Matcher> matcher_;  // shared by copies; null: none
};

}  // namespace flowguard::serve
