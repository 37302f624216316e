// SPDX-License-Identifier: Apache-2.0
//
// Commands to a Redis deployment, whatever its topology, and their replies.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "flowguard/time.h"

#include "wire/resp.h"

namespace flowguard::quota::redis {

// Why there is no usable reply.
enum class Failure : uint8_t {
  kNone,
  kNotSent,      // no connection, full queue, or past its deadline before it left
  kTimeout,      // sent; no reply by the deadline: may have been applied
  kLost,         // sent; the connection ended first: may have been applied
  kReadOnly,     // READONLY: this server is no master (any more)
  kLoading,      // LOADING, BUSY, TRYAGAIN, CLUSTERDOWN, MASTERDOWN: not now
  kOutOfMemory,  // OOM
  kDenied,       // NOAUTH, WRONGPASS, NOPERM
  kScriptError,  // any other error reply
};
inline constexpr int kFailureKinds = 9;

// True when the command may have taken effect although its reply is unknown.
[[nodiscard]] constexpr bool Indeterminate(Failure failure) noexcept {
  return failure == Failure::kTimeout || failure == Failure::kLost;
}

// A script as the server knows it.  Lives for the whole process.
struct Script {
  std::string_view name;    // for people
  std::string_view source;  // Lua
  std::string_view sha1;    // 40 hexadecimal digits
};

struct CommandReply {
  Failure failure = Failure::kNone;
  std::string_view error;                    // the server's words, or ours; for people
  const wire::resp::Value* value = nullptr;  // with kNone
};

class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // Exactly once a ticket; `reply` lives until it returns.  Not from inside Run.
  virtual void OnReply(uint64_t ticket, const CommandReply& reply) noexcept = 0;
};

// Threads: the thread of the loop that it was made for.
class Commander {
 public:
  virtual ~Commander() = default;

  // Runs `script` on `keys` (all of one slot; the first decides where) by EVALSHA.  A
  // reply of NOSCRIPT, and nothing else, is answered by EVAL in its place; MOVED and ASK
  // are followed.  Everything else that fails is told, never sent again.
  // Arguments are copied.  All that is run in one turn of the loop leaves in one write
  // for each connection.
  virtual void Run(const Script& script, std::span<const std::string_view> keys,
                   const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
                   ReplySink* sink) noexcept = 0;
  // As Run, for a plain command on one key (empty: any master), such as {"PING"}.
  virtual void Command(std::string_view key, std::span<const std::string_view> words,
                       Instant deadline, uint64_t ticket, ReplySink* sink) noexcept = 0;
  // No script may use keys of two places: they may live on different nodes.  0 for all on a
  // single server.
  [[nodiscard]] virtual uint32_t PlaceOf(std::string_view key) const noexcept = 0;
  // Which server the keys of a place are asked at now, from 1.  0: there is one, or it is not
  // known.
  [[nodiscard]] virtual uint32_t ServerOf(uint32_t /*place*/) const noexcept { return 0; }
};

}  // namespace flowguard::quota::redis
