// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace flowguard::app {

// Set by the build from the project's version.
inline constexpr const char* kVersion = FLOWGUARD_VERSION;

}  // namespace flowguard::app
