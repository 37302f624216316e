// SPDX-License-Identifier: Apache-2.0
//
// Checks of one rule by itself: that its fields belong to its kind and algorithm and
// hold values that mean something.  What depends on other rules, on dimensions or on
// the arithmetic of an algorithm is checked in compile.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "flowguard/rule.h"

#include "rules/dimension.h"
#include "rules/faults.h"

namespace flowguard::rules {

// Name, target, and the fields of its kind and algorithm.
void CheckRule(const Rule& rule, FaultsAt& faults);

// That of a rule with shards none is left with less than a request costs: their parts add up
// to the limit.  `rate` and `burst` are the rule's, or those of the override that `prefix` names.
void CheckParts(const Rule& rule, const Rate& rate, const std::optional<int64_t>& burst,
                const std::string& prefix, FaultsAt& faults);
// Whether what it relates to, if anything, is a resource, and goes with the rest of it.
void CheckRelation(const Rule& rule, FaultsAt& faults);

// Whether what a token server counts is what it can count, and says no more than its protocol.
void CheckCluster(const Rule& rule, FaultsAt& faults);

// Whether the value of an override of such a rule, `field`, is written as clients tell it to
// a token server, which compares texts.  False: told.
// Requires: `dimension` is that of the rule's key.
[[nodiscard]] bool CheckClusterValue(const Dimension& dimension, const Override& entry,
                                     const std::string& field, FaultsAt& faults);

// What a client sees of a refusal or a degraded answer: statuses, and headers that
// cannot smuggle a second header or change the framing of a message.
void CheckAnswer(const Rule& rule, FaultsAt& faults);

// The word for it in rules: "token_bucket".
[[nodiscard]] std::string_view NameOf(Algorithm algorithm) noexcept;
[[nodiscard]] std::string_view NameOf(Scope scope) noexcept;
[[nodiscard]] std::string_view NameOf(RuleKind kind) noexcept;

// Has a burst; waits for its turn; warms up: whether the fields of that name go with it.
[[nodiscard]] bool HasBurst(Algorithm algorithm) noexcept;
[[nodiscard]] bool HasWait(Algorithm algorithm) noexcept;
[[nodiscard]] bool HasBorrow(Algorithm algorithm) noexcept;
[[nodiscard]] bool HasWarmUp(Algorithm algorithm) noexcept;

// Counts by windows, so that its cells mean nothing under another window.
[[nodiscard]] bool IsWindowed(Algorithm algorithm) noexcept;

}  // namespace flowguard::rules
