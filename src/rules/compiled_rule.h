// SPDX-License-Identifier: Apache-2.0
//
// A rule made ready for requests, and the table of them.  Made by compile.h only.
//
// Threads: immutable once compiled (CompiledRule::info is set by the engine before
// the table is published).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/rule.h"

#include "breaker/spec.h"
#include "limit/numbers.h"
#include "limit/spec.h"
#include "rules/dimension.h"
#include "rules/matcher.h"
#include "rules/override_index.h"
#include "rules/value_list.h"

namespace flowguard::rules {

// One part of a rule's key.
struct KeyPart {
  const Dimension* dimension = nullptr;
  int segment = -1;  // kPath: which segment the rule's route captures; else -1
};

// How much one key may have: the rule's own numbers, or an override's.
struct Quota {
  // What cells are keyed by: the rule's name, algorithm, `by`, scope, and for the
  // algorithms that count by window its window and buckets.  Cells survive a change
  // of anything else.
  uint64_t identity = 0;
  std::optional<limit::AnySpec> spec;         // kLimit; always set there
  limit::Config config;                       // kLimit: what spec was made from
  std::optional<limit::AnySpec> prioritised;  // with `borrow`: of the same cells
  int64_t concurrency = 0;                    // kConcurrency
};

// A list of an access rule, or of the conditions of a target.
struct AccessCheck {
  KeyPart part;
  ValueList values;
};

class CompiledRule {
 public:
  uint32_t index = 0;              // in RuleSet::rules
  Rule rule;                       // as written, but with the algorithm that it is counted by
  const RuleInfo* info = nullptr;  // for the engine: text that outlives the table
  std::string matched_by;          // "route POST /orders/{id}", for people
  // Its cells are in this process, and count the requests that it meets.
  bool plain = true;
  std::vector<KeyPart> by;
  std::vector<AccessCheck> only;  // the conditions of its target
  std::vector<AccessCheck> except;
  Quota quota;
  std::vector<Quota> overrides;
  OverrideIndex override_index;    // by the value of by[0], into overrides
  breaker::BreakerSpec breaker;    // kBreaker
  std::vector<AccessCheck> allow;  // kAccess
  std::vector<AccessCheck> deny;

  [[nodiscard]] bool conditional() const noexcept { return !only.empty() || !except.empty(); }
  // Its cells are elsewhere: in a store, or at a token server.
  [[nodiscard]] bool remote() const noexcept { return rule.scope != Scope::kLocal; }

  // The quota of keys whose first dimension has `value` (as Normalise gave it).
  // Cost: no allocation; nothing at all for a rule without overrides.
  [[nodiscard]] const Quota& QuotaFor(std::string_view value) const noexcept {
    return overrides.empty() ? quota : FindOverride(value);
  }

 private:
  [[nodiscard]] const Quota& FindOverride(std::string_view value) const noexcept;
};

// The HTTP status of a refusal by a rule that names none.
[[nodiscard]] int DefaultStatus(RuleKind kind) noexcept;

// The header line, without CRLF, by which the upstream knows a degraded request.
[[nodiscard]] std::string_view MarkOf(const Degrade& degrade) noexcept;

// What clients are told of `rule`: names, numbers as written, status filled in.
[[nodiscard]] RuleInfo InfoOf(const Rule& rule);

// All rules of a set, in the order of the set, disabled ones included (the matcher
// never yields those), with the dimensions that they use.
class RuleTable {
 public:
  RuleTable() = default;  // no rules: every request passes
  RuleTable(RuleTable&&) = default;
  RuleTable& operator=(RuleTable&&) = default;
  RuleTable(const RuleTable&) = delete;  // rules point into dimensions
  RuleTable& operator=(const RuleTable&) = delete;

  std::vector<CompiledRule> rules;
  std::vector<Dimension> dimensions;  // dimensions[i].index == i
  Matcher matcher;
  bool conditional = false;           // some rule is
  std::vector<std::string> warnings;  // a line each, as errors are
};

}  // namespace flowguard::rules
