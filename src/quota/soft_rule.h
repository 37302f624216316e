// SPDX-License-Identifier: Apache-2.0
//
// Whether a rule's refusal stops its request.
#pragma once

#include "flowguard/rule.h"

namespace flowguard::quota {

// One in shadow counts it, and one that degrades marks the request: that goes on.
[[nodiscard]] inline bool IsSoft(const Rule& rule) noexcept {
  return rule.shadow || rule.degrade.enabled;
}

}  // namespace flowguard::quota
