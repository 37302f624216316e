// SPDX-License-Identifier: Apache-2.0
//
// A Commander for what a URL describes.
#pragma once

#include <cstdint>
#include <memory>

#include "flowguard/result.h"

#include "net/loop.h"
#include "quota/redis/commander.h"
#include "quota/redis/metrics.h"
#include "quota/redis/options.h"

namespace flowguard::quota::redis {

// Begins to connect at once and never gives up.  `loop` and `metrics` must outlive it;
// it is destroyed on the loop's thread, not from inside a sink, and tells no sink then.
// `seed`: of the waits between attempts; another one for each client.
// Errors: kInvalidArgument, for the files of TLS.  A server that cannot be reached is none.
[[nodiscard]] Result<std::unique_ptr<Commander>> MakeCommander(net::Loop& loop,
                                                               const Options& options,
                                                               Metrics& metrics, uint64_t seed);

}  // namespace flowguard::quota::redis
