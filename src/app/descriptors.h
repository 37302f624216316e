// SPDX-License-Identifier: Apache-2.0
//
// How many file descriptors the process may have, and how many connections that is.
#pragma once

#include <cstddef>

namespace flowguard::app {

// Of the process's descriptors: for the admin door, rule files, and the loops' own.
inline constexpr size_t kDescriptorsReserved = 128;
// Few enough for any limit, so that a door is never closed for good.
inline constexpr size_t kConnectionsMin = 16;

// Raises the soft limit on open files to the hard one, as far as the system lets it.
// Returns the soft limit.
size_t RaiseDescriptorLimit() noexcept;

// How many connections each worker's door may have with `descriptors` for the process,
// where the doors of one worker need `shares` for one connection each: 2 for the gateway
// (the client's and the upstream's), 1 for the decision API.
// Requires: workers > 0, shares > 0.
[[nodiscard]] size_t ConnectionsFor(size_t descriptors, size_t workers, size_t shares) noexcept;

}  // namespace flowguard::app
