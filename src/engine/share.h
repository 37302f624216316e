// SPDX-License-Identifier: Apache-2.0
//
// The part of a shared limit that one of several nodes grants by itself while the store
// is away.
#pragma once

#include <cstdint>
#include <optional>

#include "flowguard/rule.h"

#include "limit/numbers.h"
#include "limit/spec.h"

namespace flowguard::engine {

// A node's part of a limit that `nodes` share: together they grant at most what one cell
// would.  Below one unit for each it is one, so more than `limit` nodes grant more than it.
//
// Time is stretched rather than units divided where the algorithm has no window to keep,
// so that 1/min over 4 nodes is 1 in 4 minutes.
//
// Nothing when `nodes` is not known (0), or the part cannot be expressed.
// Cost: a few divisions; no allocation.
[[nodiscard]] std::optional<limit::AnySpec> ShareOf(Algorithm algorithm, limit::Config config,
                                                    int nodes);

// The same of calls in progress.  Requires: nodes > 0.
[[nodiscard]] int64_t ShareOfSlots(int64_t slots, int nodes) noexcept;

}  // namespace flowguard::engine
