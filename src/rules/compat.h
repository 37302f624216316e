// SPDX-License-Identifier: Apache-2.0
//
// How the rules of a set with `compat: sentinel` are counted: by what their algorithm stands
// for there.
#pragma once

#include "flowguard/rule.h"

#include "rules/faults.h"

namespace flowguard::rules {

// What a local limit rule is counted by; of all others the algorithm that they say, for
// scripts know no other counting.
[[nodiscard]] Algorithm AlgorithmOf(const Rule& rule, Compat compat) noexcept;

// Tells of fields that such a set cannot carry out.
void CheckCompat(const Rule& rule, Compat compat, FaultsAt& faults);

}  // namespace flowguard::rules
