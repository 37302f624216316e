// SPDX-License-Identifier: Apache-2.0
//
// The commands.  Each returns the exit code: 0 ok, 1 failure, 2 usage.  Data goes to
// stdout, messages to stderr.
#pragma once

#include "app/command_line.h"

namespace flowguard::app {

[[nodiscard]] int Run(RunFlags flags, bool color);
[[nodiscard]] int Validate(const ValidateFlags& flags, bool color);
[[nodiscard]] int Convert(const ConvertFlags& flags, bool color);
[[nodiscard]] int Explain(const ExplainFlags& flags, bool color);
[[nodiscard]] int Version(const VersionFlags& flags);
// Prints the sliding log that programs may share with each other.
[[nodiscard]] int Script();

}  // namespace flowguard::app
