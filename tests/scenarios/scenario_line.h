// SPDX-License-Identifier: Apache-2.0
//
// One step of a scenario, read from its line.  The grammar is in README.md beside this
// file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

namespace flowguard::scenarios {

enum class Verb : uint8_t { kTake, kPeek, kEnter, kSettle, kReload };

// What the line after its arrow wants; an unset field is not looked at.
struct Wanted {
  std::optional<Verdict> verdict;
  std::optional<Duration> wait;
  std::optional<Duration> retry;
  std::optional<Duration> reset;
  std::optional<int64_t> remaining;
  std::optional<int64_t> limit;
  std::optional<std::string> rule;   // the name of the rule that decided
  std::optional<std::string> error;  // of a reload: a part of its message
  bool degraded = false;
};

struct Step {
  Duration at{};
  Verb verb = Verb::kTake;
  int64_t times = 1;
  std::string entry;  // of enter and settle: what the scenario calls it
  std::string resource;
  std::string method;
  std::string path;
  std::vector<std::pair<std::string, std::string>> dimensions;
  int64_t cost = 0;
  std::optional<int64_t> actual_cost;
  Outcome outcome = Outcome::kOk;
  std::string limit;  // of reload: the rule in its short form; empty: the block that follows
  Wanted wanted;
};

// Errors: kInvalidArgument with the word that was not understood and what may stand there.
Result<Step> ReadStep(std::string_view line);

}  // namespace flowguard::scenarios
