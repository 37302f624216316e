// SPDX-License-Identifier: Apache-2.0
//
// What is told of a rule set at its load beside what rules::Compile tells: what
// depends on the rules in force and on the room for states.
#pragma once

#include <string>
#include <vector>

#include "flowguard/result.h"

#include "engine/snapshot.h"
#include "rules/compiled_rule.h"
#include "store/state_map.h"

namespace flowguard::engine {

// A line for each rule whose cells start anew with `table`: one that counts by windows,
// and has another window or number of buckets than in `before`.
// Cost: O(rules + overrides).
[[nodiscard]] std::vector<std::string> NewCellWarnings(const Snapshot& before,
                                                       const rules::RuleTable& table);

// Errors: kInvalidArgument, a line for each local rule of which not even one key's state fits
// in `states`: it would refuse all.
[[nodiscard]] Result<void> CheckRoom(const store::StateMap& states, const rules::RuleTable& table);

}  // namespace flowguard::engine
