// SPDX-License-Identifier: Apache-2.0
//
// The commands of one connection that have no reply yet, in the order of sending, and
// their bytes.
//
// Replies come in the order of the commands.  Somebody who no longer waits (a deadline
// that passed) therefore leaves an entry behind that takes the reply; it counts against
// the bounds like any other.
//
// Threads: one owner.  Cost: no allocation once the ring and the buffer have grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "flowguard/time.h"

#include "quota/redis/commander.h"
#include "wire/resp.h"

namespace flowguard::quota::redis {

// In one line of memory.
struct alignas(64) PendingCommand {
  enum class Kind : uint8_t {
    kCommand,
    kProbe,   // our own PING, to see whether the server answers
    kAsking,  // the word before a command that was sent on by ASK
  };
  ReplySink* sink = nullptr;  // null: nobody waits, the reply is dropped
  uint64_t ticket = 0;
  const Script* script = nullptr;  // of EVALSHA and EVAL
  Instant issued;
  Instant deadline;
  uint64_t begin = 0;  // where its bytes are in the stream
  uint32_t size = 0;
  uint32_t body = 0;       // with a script: where the part begins that EVALSHA and EVAL share
  uint8_t redirects = 0;   // followed so far
  bool evaluated = false;  // sent as EVAL
  bool asking = false;     // with ASKING before it
  Kind kind = Kind::kCommand;

  [[nodiscard]] uint64_t end() const noexcept { return begin + size; }
};

static_assert(sizeof(PendingCommand) == 64);

class CommandQueue {
 public:
  CommandQueue();

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] size_t size() const noexcept { return count_; }
  // Whether a command of at most `bytes` fits within the bounds.
  [[nodiscard]] bool HasRoom(size_t bytes) const noexcept;

  // Write a command's bytes here, then Push.
  [[nodiscard]] wire::resp::CommandBuffer& bytes() noexcept { return bytes_; }
  // What was written since the last Push belongs to `command`.
  void Push(const PendingCommand& command) noexcept;

  // Requires: !empty().
  [[nodiscard]] const PendingCommand& front() const noexcept { return ring_[head_]; }
  // Takes the first entry out; its bytes stay until DropAnswered.
  PendingCommand Pop() noexcept;
  void DropAnswered() noexcept { bytes_.Drop(empty() ? bytes_.end() : front().begin); }

  // Bytes still to be sent.
  [[nodiscard]] std::string_view Unsent() const noexcept {
    return bytes_.View(sent_, bytes_.end());
  }
  [[nodiscard]] bool has_unsent() const noexcept { return sent_ != bytes_.end(); }
  void MarkSent(size_t bytes) noexcept;
  // TLS has taken all that there is, and may have sent some of it: none is taken back.
  void MarkOffered() noexcept { offered_ = bytes_.end(); }
  // Whether all of it has left, so that it may have been applied.
  [[nodiscard]] bool HasLeft(const PendingCommand& command) const noexcept {
    return command.end() <= offered_;
  }

  // Ends what is due.  Commands of which something has left stay, with nobody waiting;
  // the others are taken out, and so are never sent.  Their entries go to `left` and
  // `unsent` as they were.
  void Expire(Instant now, std::vector<PendingCommand>& left, std::vector<PendingCommand>& unsent);
  // The first deadline that somebody waits for; Instant::max() when nobody does.
  [[nodiscard]] Instant NextDeadline() noexcept;

  // Forgets the bytes of a connection that is gone.  Requires: empty().
  void Clear() noexcept;

 private:
  [[nodiscard]] PendingCommand& At(size_t index) noexcept {
    return ring_[(head_ + index) & (ring_.size() - 1)];
  }
  void TakeOutUnsent(Instant now, std::vector<PendingCommand>& unsent);

  std::vector<PendingCommand> ring_;  // a power of two
  size_t head_ = 0;
  size_t count_ = 0;
  size_t waited_ = 0;    // entries before this index have nobody waiting
  bool ordered_ = true;  // those from there on are in the order of their deadlines
  Instant last_deadline_ = Instant::min();
  wire::resp::CommandBuffer bytes_;
  uint64_t written_ = 0;  // end of the last command
  uint64_t sent_ = 0;
  uint64_t offered_ = 0;  // at least sent_
};

}  // namespace flowguard::quota::redis
