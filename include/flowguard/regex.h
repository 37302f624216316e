// SPDX-License-Identifier: Apache-2.0
//
// Regular expressions of Target::resource_regex, behind an interface: the core links no
// engine for them.  FlowGuard::text has one, Re2() in rules_text.h, and rules that are read
// from text come with it.
//
// Threads: any, of all methods.
#pragma once

#include <memory>
#include <string_view>

#include "flowguard/result.h"

namespace flowguard {

// One expression, ready to match.
class Regex {
 public:
  Regex() = default;
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  virtual ~Regex() = default;

  // Whether it matches all of `text`.
  // Cost: linear in `text`.  It is asked once for a name, and then now and again: the
  // matcher remembers.
  [[nodiscard]] virtual bool MatchesWhole(std::string_view text) const noexcept = 0;
};

class RegexEngine {
 public:
  RegexEngine() = default;
  RegexEngine(const RegexEngine&) = delete;
  RegexEngine& operator=(const RegexEngine&) = delete;
  virtual ~RegexEngine() = default;

  // Errors: kInvalidArgument: what is wrong with `pattern`, or that it is too large.
  [[nodiscard]] virtual Result<std::unique_ptr<const Regex>> Compile(
      std::string_view pattern) const = 0;
};

}  // namespace flowguard
