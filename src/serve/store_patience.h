// SPDX-License-Identifier: Apache-2.0
//
// How long a request waits for a store that does not keep its deadline.
#pragma once

#include <chrono>

#include "flowguard/time.h"

namespace flowguard::serve {

// After the deadline of a take.  A store tells that it failed by a timer of its own, at the
// deadline; who does not leave it the time for that takes back what a store that is well has
// granted in the last moment, although on_store_failure may let the request go.
inline constexpr Duration kStoreTellMax = std::chrono::milliseconds(5);

}  // namespace flowguard::serve
