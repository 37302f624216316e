// SPDX-License-Identifier: Apache-2.0
//
// Runs a scenario: loads its rules into a Guard on simulated time, does its steps in
// order, and tells which lines came out otherwise than wanted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flowguard::scenarios {

struct Problem {
  int line = 0;
  std::string message;  // what was found, what was wanted
};

// Empty: everything came out as wanted.  A line that cannot be read ends the scenario.
std::vector<Problem> RunScenario(std::string_view text, const std::string& file_name);

}  // namespace flowguard::scenarios
