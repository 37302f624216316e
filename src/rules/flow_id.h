// SPDX-License-Identifier: Apache-2.0
//
// What a token server knows a cluster rule by: a number, and which of the protocol's
// questions asks for it.  Servers and their clients find it alike, each from a rule set of
// its own.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string_view>

#include "flowguard/rule.h"

namespace flowguard::rules {

// One number may name a count of each: Sentinel's dashboard numbers flow rules and
// param-flow rules from 1, each for themselves.
enum class FlowQuestion : uint8_t {
  kFlow,        // a limit without a key
  kParamFlow,   // a limit with one
  kConcurrent,  // a concurrency rule
};

// Requires: the rule is of kind limit or concurrency.
[[nodiscard]] FlowQuestion FlowQuestionOf(const Rule& rule) noexcept;

// "a limit without by", "a limit with by", "a concurrency rule".
[[nodiscard]] std::string_view NameOf(FlowQuestion question) noexcept;

// The rule's own flow id, or else a hash of its name: 1 to 2^63 - 1, of one name the same in
// every process and every version.
[[nodiscard]] int64_t FlowIdOf(const Rule& rule) noexcept;

}  // namespace flowguard::rules
