// SPDX-License-Identifier: Apache-2.0
#include "serve/exempt_routes.h"

#include <utility>
#include <vector>

#include "base/try.h"
#include "rules/route.h"

namespace flowguard::serve {

Result<ExemptRoutes> ExemptRoutes::Create(std::span<const std::string> routes) {
  ExemptRoutes exempt;
  if (routes.empty()) return exempt;
  std::vector<Rule> targets;
  for (const std::string& route : routes) {
    if (const auto parsed = rules::ParseRoute(route); !parsed.ok()) {
      return Error::InvalidArgument("exempt: \"" + route + "\": " + parsed.error().message);
    }
    Rule target;
    target.name = route;
    target.on.route = route;
    targets.push_back(std::move(target));
  }
  FG_ASSIGN_OR_RETURN(rules::Matcher matcher,
                      rules::Matcher::Build(targets, MatchMode::kMostSpecific));
  exempt.matcher_ = std::make_shared<const rules::Matcher>(std::move(matcher));
  return exempt;
}

bool ExemptRoutes::Contains(std::string_view method, std::string_view path) const noexcept {
  if (matcher_ == nullptr) return false;
  rules::MatchSet matches;
  matcher_->Match({}, method, path, matches);
  return !matches.empty();
}

}  // namespace flowguard::serve
