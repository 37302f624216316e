// SPDX-License-Identifier: Apache-2.0
//
// Which rules of a set are the token server's, where this process is one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flowguard/rule.h"

#include "serve/token_rules.h"

namespace flowguard::app {

struct SplitRules {
  RuleSet tokens;  // those of scope cluster
  RuleSet others;  // all else; what the set says of itself, both have
};

[[nodiscard]] SplitRules SplitTokenRules(const RuleSet& rules);

// The rules by their namespace, the default one first; each decides on so many questions in a
// second.
[[nodiscard]] std::vector<serve::TokenNamespace> TokenNamespaces(const RuleSet& tokens,
                                                                 int64_t questions_per_second);

// What an operator should know: a line for each rule that nobody asks, as no door is open but
// the token server's, and one if that has no rule.
[[nodiscard]] std::vector<std::string> TokenWarnings(const SplitRules& split, bool tokens_alone);

}  // namespace flowguard::app
