// SPDX-License-Identifier: Apache-2.0
//
// What an error reply means.
#pragma once

#include <cstdint>
#include <string_view>

#include "quota/redis/commander.h"

namespace flowguard::quota::redis {

// Errors that are no end: the command goes on elsewhere or in another form.
enum class Detour : uint8_t { kNone, kNoScript, kMoved, kAsk };

struct ErrorReply {
  Failure failure = Failure::kScriptError;
  Detour detour = Detour::kNone;
  // Of kMoved and kAsk.  "host:port"; ":port" for the host that was asked.
  uint16_t slot = 0;
  std::string_view endpoint;
};

// Reads the words of an error reply, such as "MOVED 3999 10.0.0.7:6381".  The meaning
// stands in the first word; a server before Redis 7 wraps what a script's command answered
// into a sentence of its own, where it is looked for.
[[nodiscard]] ErrorReply ReadErrorReply(std::string_view text) noexcept;

}  // namespace flowguard::quota::redis
