// SPDX-License-Identifier: Apache-2.0
//
// A breaker rule in the words of the breaker itself.
#pragma once

#include "flowguard/rule.h"

#include "breaker/spec.h"

namespace flowguard::rules {

// The window slides by tenths, or by as many parts as it is long enough for; with
// kSentinel it is as in breaker::SentinelForm.
[[nodiscard]] breaker::BreakerSpec BreakerSpecOf(const BreakerRule& rule, Compat compat) noexcept;

}  // namespace flowguard::rules
