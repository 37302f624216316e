// SPDX-License-Identifier: Apache-2.0
//
// Rules of scope cluster as a token server counts them: each as a rule of its engine, on a
// resource of its own, and a table of what questions ask for.
//
//   question          rule                     resource in the engine
//   flow 7            a limit without a key    flow/7
//   param flow 7      a limit with one         param/7, by "value"
//   acquire 7         a concurrency rule       concurrent/7
//
// Threads: plain values and functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/rule.h"
#include "flowguard/time.h"

#include "rules/flow_id.h"

namespace flowguard::serve {

inline constexpr std::string_view kDefaultNamespace = "default";
inline constexpr int64_t kTokenQpsDefault = 1'000'000;

// The rules of one namespace.
struct TokenNamespace {
  // Rules of others than the default one are called NAME@NAMESPACE among the engine's, so
  // it has characters that names of rules may have.
  std::string name{kDefaultNamespace};
  RuleSet rules;                                    // those of other scopes are passed over
  int64_t questions_per_second = kTokenQpsDefault;  // 1 to 1e9; above: TOO_MANY_REQUEST
};

// What a question asks for.
struct TokenFlow {
  std::string resource;  // of its rule
  size_t space = 0;      // its namespace, by place
  bool shadow = false;   // answered as if there were enough
  bool closed = false;   // a limit per client, and no client is there: nothing of it is left
  Duration token_ttl{};  // concurrency rules
  // With compat sentinel: each unit needs so many that are left, of which it takes one.
  int64_t needs = 1;
};

// Threads: immutable once filled.
class TokenFlows {
 public:
  using Question = rules::FlowQuestion;
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  // False: there is one.
  [[nodiscard]] bool Add(Question question, int64_t flow_id, TokenFlow flow);

  // What a flow id stands for: places of flows, by question, or kNone.
  struct Known {
    std::array<size_t, 3> places{kNone, kNone, kNone};
  };
  // Null: no rule has the id.
  // Cost: a look-up.
  [[nodiscard]] const Known* Find(int64_t flow_id) const noexcept;
  // Null: rules that have it are asked for by other questions.
  [[nodiscard]] const TokenFlow* Of(const Known& known, Question question) const noexcept {
    const size_t place = known.places[static_cast<size_t>(question)];
    return place == kNone ? nullptr : &flows_[place];
  }
  // One of the flows that have the id.
  [[nodiscard]] const TokenFlow& AnyOf(const Known& known) const noexcept;

 private:
  std::vector<TokenFlow> flows_;
  std::unordered_map<int64_t, Known> by_id_;
};

// The windows of limits that count as Sentinel does, by TokenFlow::resource.
using TokenWindows = std::map<std::string, Duration, std::less<>>;

struct TokenRules {
  RuleSet counted;  // of the engine
  TokenFlows flows;
  TokenWindows windows;
};

// Errors: a line each, with the place of the rule: those of rules::Compile in each rule by
//         itself; a namespace that is named twice, or wrong.
[[nodiscard]] Result<void> CheckTokenRules(std::span<const TokenNamespace> namespaces);

// The rules that are enabled and of scope cluster, limits per client multiplied with
// `clients`, by namespace; a product that is too large for the algorithm is its largest.
// `shared`: their counts are in a store, which lends nothing.
//
// Limits of a namespace with compat sentinel count as Sentinel's token server does, by two
// of its habits, where this process counts:
//   - It compares the mean of a window with the count of a second, and a whole unit on top:
//     with 2 a second in 3 s, 4 pass.  Here each unit needs as many that are left as the
//     window has whole seconds.
//   - A count keeps the window that it began with, while its rule stays: that of `windows`,
//     in which the count of a second goes on.
// Errors: a number that asks for two rules, a line each, with their places.  The engine says
//         what a product or a store does not allow.
// Requires: CheckTokenRules finds no fault; as many `clients` as `namespaces`.
[[nodiscard]] Result<TokenRules> MakeTokenRules(std::span<const TokenNamespace> namespaces,
                                                std::span<const size_t> clients, bool shared,
                                                const TokenWindows& windows);

}  // namespace flowguard::serve
