// SPDX-License-Identifier: Apache-2.0
//
// The conditions of targets (Target::only, except) on one request.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/request_key.h"
#include "engine/snapshot.h"
#include "rules/compiled_rule.h"
#include "rules/matcher.h"

namespace flowguard::engine {

// The first list that keeps the rule from the request.
struct UnmetCondition {
  const rules::AccessCheck* list = nullptr;  // null: all conditions hold
  bool is_except = false;
};

// A request without the dimension is on no list, unless requests without it share a value.
// Cost: a look-up of the value and of the list for each condition; no allocation.
[[nodiscard]] UnmetCondition FindUnmet(const Meeting& met) noexcept;

// "only: tenant=acme is not listed", for people; secrets are not hidden.
[[nodiscard]] std::string Describe(const UnmetCondition& unmet, const Meeting& met);

// Asks them of one request for the matcher.
class RequestConditions final : public rules::Conditions {
 public:
  // Both outlive this.
  RequestConditions(const Snapshot& snapshot, const RequestView& request) noexcept
      : snapshot_(snapshot), request_(request) {}

  [[nodiscard]] bool Hold(const rules::MatchSet& matches,
                          rules::MatchSet::Match match) const noexcept override;

 private:
  const Snapshot& snapshot_;
  const RequestView& request_;
};

// The same, and remembers of which rules they did not hold.
class ToldConditions final : public rules::Conditions {
 public:
  ToldConditions(const Snapshot& snapshot, const RequestView& request) noexcept
      : snapshot_(snapshot), request_(request) {}

  [[nodiscard]] bool Hold(const rules::MatchSet& matches,
                          rules::MatchSet::Match match) const noexcept override;

  struct Unmet {
    uint32_t rule;
    std::string why;
  };
  [[nodiscard]] const std::vector<Unmet>& unmet() const noexcept { return unmet_; }

 private:
  const Snapshot& snapshot_;
  const RequestView& request_;
  mutable std::vector<Unmet> unmet_;  // by the order in which they are asked
};

}  // namespace flowguard::engine
