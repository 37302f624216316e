// SPDX-License-Identifier: Apache-2.0
//
// What tests say of a Decision.
#pragma once

#include <ostream>
#include <string>

#include <gmock/gmock.h>

#include "flowguard/decision.h"

namespace flowguard {

// Found by GoogleTest when an expectation fails.
inline void PrintTo(const Decision& decision, std::ostream* out) {
  *out << "{verdict " << static_cast<int>(decision.verdict) << ", reason "
       << static_cast<int>(decision.reason) << ", rule "
       << (decision.rule != nullptr ? decision.rule->name : "none") << ", limit " << decision.limit
       << ", remaining " << decision.remaining << ", reset_after " << decision.reset_after.count()
       << " ns, retry_after " << decision.retry_after.count() << " ns, wait "
       << decision.wait.count() << " ns" << (decision.degraded ? ", degraded}" : "}");
}

namespace testing {

MATCHER(IsAllowed, "is allowed at once") {
  return arg.verdict == Verdict::kAllow && arg.reason == Reason::kNone &&
         arg.retry_after == Duration::zero() && arg.wait == Duration::zero();
}
MATCHER_P2(IsRefusedBy, rule, reason, "is refused by rule " + std::string(rule)) {
  return arg.verdict == Verdict::kRefuse && arg.reason == reason && arg.rule != nullptr &&
         arg.rule->name == rule;
}
MATCHER_P(Waits, wait, "is to wait") {
  return arg.verdict == Verdict::kWait && arg.wait == Duration(wait);
}

}  // namespace testing
}  // namespace flowguard
