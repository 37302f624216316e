// SPDX-License-Identifier: Apache-2.0
//
// Connection: commands out, replies in, deadlines.
#include <algorithm>
#include <array>
#include <utility>

#include "base/bounds.h"
#include "quota/redis/connection.h"

namespace flowguard::quota::redis {
namespace {

using wire::resp::CommandBuffer;
using wire::resp::Reader;
using wire::resp::Value;

constexpr size_t kInputAtFirst = 64 * 1024;
constexpr size_t kCommandBytes = 128;  // EVALSHA, the digest, the numbers of words and keys
constexpr Duration kProbeAgain = std::chrono::milliseconds(50);
constexpr Duration kPatienceMin = std::chrono::milliseconds(1);
constexpr std::string_view kEvalsha = "$7\r\nEVALSHA\r\n";
constexpr std::string_view kEval = "$4\r\nEVAL\r\n";

size_t BytesOf(std::span<const std::string_view> words) noexcept {
  size_t bytes = 0;
  for (const std::string_view word : words)
    bytes += wire::resp::WordBytes(word.size());
  return bytes;
}

}  // namespace

bool Connection::Accepts() const noexcept {
  if (broken() || draining_ || subscribes()) return false;
  return state_ != State::kIdle && state_ != State::kWaiting;
}

std::string_view Connection::Obstacle(size_t bytes, Instant deadline) const noexcept {
  if (deadline <= loop_.Now()) return "the deadline had passed before it was sent";
  if (broken()) return "the server failed too often in a row";
  if (draining_) return "the server is no master";
  if (!Accepts()) return "no connection to the server";
  if (bytes > base::kRedisCommandBytesMax) return "a longer command than allowed";
  if (!queue_.HasRoom(bytes)) return "too many commands without a reply";
  return {};
}

void Connection::Run(const Script& script, std::span<const std::string_view> keys,
                     const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
                     ReplySink* sink) noexcept {
  const std::string_view obstacle =
      Obstacle(kCommandBytes + BytesOf(keys) + args.bytes.size(), deadline);
  if (!obstacle.empty()) return refusals_.Add(ticket, sink, obstacle);
  WriteHead(script, keys.size(), 3 + keys.size() + args.count);
  for (const std::string_view key : keys)
    queue_.bytes().Word(key);
  queue_.bytes().Raw(args.bytes);
  PendingCommand command;
  command.sink = sink;
  command.ticket = ticket;
  command.script = &script;
  command.issued = loop_.Now();
  command.deadline = deadline;
  command.body = head_.body;
  Enqueue(command);
}

void Connection::WriteHead(const Script& script, size_t keys, size_t words) noexcept {
  CommandBuffer& out = queue_.bytes();
  if (head_.script == &script && head_.keys == keys && head_.words == words)
    return out.Raw({head_.bytes.data(), head_.size});
  const uint64_t begin = out.end();
  out.Begin(words);
  out.Raw(kEvalsha);
  out.Word(script.sha1);
  const uint64_t body = out.end();
  out.Word(keys);
  const std::string_view written = out.View(begin, out.end());
  head_.script = written.size() <= head_.bytes.size() ? &script : nullptr;
  head_.keys = keys;
  head_.words = words;
  head_.body = static_cast<uint32_t>(body - begin);
  head_.size = written.copy(head_.bytes.data(), head_.bytes.size());
}

void Connection::Command(std::span<const std::string_view> words, Instant deadline, uint64_t ticket,
                         ReplySink* sink) noexcept {
  const std::string_view obstacle = Obstacle(kCommandBytes + BytesOf(words), deadline);
  if (!obstacle.empty()) return refusals_.Add(ticket, sink, obstacle);
  queue_.bytes().Begin(words.size());
  for (const std::string_view word : words)
    queue_.bytes().Word(word);
  PendingCommand command;
  command.sink = sink;
  command.ticket = ticket;
  command.issued = loop_.Now();
  command.deadline = deadline;
  Enqueue(command);
}

bool Connection::Adopt(const PendingCommand& command, std::string_view bytes,
                       bool asking) noexcept {
  if (!Obstacle(kCommandBytes + bytes.size(), command.deadline).empty()) return false;
  if (asking) EnqueueAsking(command.deadline);
  queue_.bytes().Raw(bytes);
  PendingCommand moved = command;
  ++moved.redirects;
  moved.asking = asking;
  Enqueue(moved);
  return true;
}

void Connection::EnqueueAsking(Instant deadline) noexcept {
  queue_.bytes().Begin(1);
  queue_.bytes().Word("ASKING");
  PendingCommand word;
  word.issued = loop_.Now();
  word.deadline = deadline;
  word.kind = PendingCommand::Kind::kAsking;
  Enqueue(word);
}

void Connection::Enqueue(const PendingCommand& command) noexcept {
  queue_.Push(command);
  if (command.script != nullptr) patience_ = command.deadline - command.issued;
  // Deadlines mostly come in order, so that this is mostly one comparison.
  if (!deadline_timer_.armed() || command.deadline < deadline_timer_.deadline())
    loop_.Arm(deadline_timer_, command.deadline);
  AskForFlush();
}

void Connection::AskForFlush() noexcept {
  if (flush_asked_ || state_ != State::kReady) return;
  flush_asked_ = true;
  loop_.AtTurnEnd(*this);
}

void Connection::OnTurnEnd() noexcept {
  flush_asked_ = false;
  if (state_ == State::kReady) Flush();
}

net::IoResult Connection::SendBytes(std::string_view bytes) noexcept {
  const net::IoResult result = tls_ != nullptr ? tls_->Send(bytes.data(), bytes.size())
                                               : net::Send(fd_.get(), bytes.data(), bytes.size());
  metrics_.bytes_sent.Add(result.bytes);
  return result;
}

void Connection::Flush() noexcept {
  while (queue_.has_unsent() && !blocked_) {
    if (tls_ != nullptr) queue_.MarkOffered();
    const net::IoResult result = SendBytes(queue_.Unsent());
    switch (result.status) {
      case net::IoStatus::kOk:
        queue_.MarkSent(result.bytes);
        break;
      case net::IoStatus::kWouldBlock:
        blocked_ = true;
        break;
      case net::IoStatus::kEnd:
      case net::IoStatus::kError:
        return Close("the connection was lost");
    }
  }
}

// `to_the_end`: the peer has closed, which only reading on tells.
void Connection::Receive(bool to_the_end) noexcept {
  if (input_.empty()) input_.resize(kInputAtFirst);
  while (state_ == State::kGreeting || state_ == State::kReady) {
    const std::span<char> room(input_.data() + input_end_, input_.size() - input_end_);
    const net::IoResult result =
        tls_ != nullptr ? tls_->Receive(room) : net::Receive(fd_.get(), room);
    if (result.status == net::IoStatus::kWouldBlock) return;
    if (result.status != net::IoStatus::kOk) {
      const bool told = tls_ != nullptr && !tls_->problem().empty();
      return Close(told ? std::string_view(tls_->problem()) : "the server closed the connection");
    }
    metrics_.bytes_received.Add(result.bytes);
    input_end_ += result.bytes;
    if (!ReadReplies()) return;
    // A short read has emptied the socket.
    if (tls_ == nullptr && !to_the_end && result.bytes < room.size()) return;
  }
}

// False: the connection is closed.
bool Connection::ReadReplies() noexcept {
  while (input_begin_ != input_end_) {
    const std::string_view bytes(input_.data() + input_begin_, input_end_ - input_begin_);
    const Reader::Status status = reader_.Read(bytes);
    if (status == Reader::Status::kNeedMore) break;
    if (status == Reader::Status::kBad) {
      Close("byte " + std::to_string(reader_.problem_at()) +
            " of a reply: " + std::string(reader_.problem()));
      return false;
    }
    input_begin_ += reader_.consumed();
    if (!Dispatch(reader_.value())) return false;
  }
  queue_.DropAnswered();
  const size_t rest = input_end_ - input_begin_;
  if (rest != 0) std::copy_n(input_.data() + input_begin_, rest, input_.data());
  input_begin_ = 0;
  input_end_ = rest;
  if (rest != input_.size()) return true;
  if (rest >= base::kRespReplyBytesMax) {
    Close("a longer reply than allowed");
    return false;
  }
  input_.resize(2 * rest);
  return true;
}

// False: the connection is closed.
bool Connection::Dispatch(const Value& reply) noexcept {
  if (state_ == State::kReady && subscribes()) {
    owner_.OnMessage(*this, reply);
    return fd_.get() >= 0;
  }
  if (reply.type == Value::Type::kPush) return true;
  if (state_ == State::kGreeting) {
    const Greeting::Outcome outcome = greeting_.OnReply(reply, greeting_bytes_);
    if (outcome == Greeting::Outcome::kReady) OnGreeted();
    if (outcome == Greeting::Outcome::kFailed) Close(greeting_.problem());
    if (outcome == Greeting::Outcome::kGoOn) SendGreeting();
    return fd_.get() >= 0;
  }
  if (queue_.empty() || !queue_.HasLeft(queue_.front())) {
    Close("a reply that nothing was asked for");
    return false;
  }
  const PendingCommand command = queue_.Pop();
  switch (command.kind) {
    case PendingCommand::Kind::kCommand:
      OnCommandReply(command, reply);
      break;
    case PendingCommand::Kind::kProbe:
      OnProbeReply(command);
      break;
    case PendingCommand::Kind::kAsking:
      break;
  }
  if (draining_ && queue_.empty()) Close("the server is no master");
  return fd_.get() >= 0;
}

void Connection::OnCommandReply(const PendingCommand& command, const Value& reply) noexcept {
  if (command.sink == nullptr) {
    metrics_.late.Add(1);
    return;
  }
  if (!broken()) failures_ = 0;
  if (reply.type == Value::Type::kError) return OnErrorReply(command, reply);
  backoff_.Reset();
  Tell(command, Failure::kNone, {}, &reply);
}

void Connection::OnErrorReply(const PendingCommand& command, const Value& reply) noexcept {
  const ErrorReply error = ReadErrorReply(reply.text);
  switch (error.detour) {
    case Detour::kNoScript:
      if (command.script == nullptr || command.evaluated) break;
      if (Reload(command)) return;
      return Tell(command, Failure::kNotSent, "too many commands without a reply", nullptr);
    case Detour::kMoved:
    case Detour::kAsk: {
      const std::string_view bytes = queue_.bytes().View(command.begin, command.end());
      if (command.redirects < base::kRedisRedirectsMax &&
          owner_.OnRedirect(*this, command, bytes, error)) {
        metrics_.redirects.Add(1);
        return;
      }
      return Tell(command, Failure::kLoading, reply.text, nullptr);
    }
    case Detour::kNone:
      break;
  }
  if (error.failure == Failure::kReadOnly) draining_ = true;
  Tell(command, error.failure, reply.text, nullptr);
  if (error.failure == Failure::kReadOnly || error.failure == Failure::kLoading)
    owner_.OnDoubt(*this, error.failure);
}

// The server does not know the script: the command goes out once more, with it.  False:
// the queue is full.
bool Connection::Reload(const PendingCommand& command) noexcept {
  const Script& script = *command.script;
  const auto known = std::find_if(loaded_.begin(), loaded_.end(),
                                  [&](const Loaded& l) { return l.script == &script; });
  // An EVAL that left after this command will have taught the script by the time that the
  // same words come again: many that failed together load it once.
  const bool again = known != loaded_.end() && command.begin < known->at;
  const size_t body = command.size - command.body;
  const size_t bytes = kCommandBytes + body + (again ? 0 : script.source.size());
  if (draining_ || !queue_.HasRoom(bytes)) return false;
  CommandBuffer& out = queue_.bytes();
  if (command.asking) EnqueueAsking(command.deadline);
  const size_t head = out.View(command.begin, command.end()).find('\n') + 1;
  const uint64_t at = out.end();
  PendingCommand next = command;
  out.Repeat(command.begin, command.begin + head);
  if (again) {
    out.Raw(kEvalsha);
    out.Word(script.sha1);
  } else {
    out.Raw(kEval);
    out.Word(script.source);
    next.evaluated = true;
    metrics_.script_loads.Add(1);
    if (known == loaded_.end()) {
      loaded_.push_back({&script, at});
    } else {
      known->at = at;
    }
  }
  next.body = static_cast<uint32_t>(out.end() - at);
  out.Repeat(command.begin + command.body, command.end());
  Enqueue(next);
  return true;
}

void Connection::Tell(const PendingCommand& command, Failure failure, std::string_view error,
                      const Value* value) noexcept {
  if (command.sink == nullptr) return;
  metrics_.replies[static_cast<size_t>(failure)].Add(1);
  if (failure == Failure::kNone) metrics_.latency.Add(loop_.Now() - command.issued);
  command.sink->OnReply(command.ticket, {failure, error, value});
}

void Connection::OnDeadlineTimer() noexcept {
  left_.clear();
  unsent_.clear();
  queue_.Expire(loop_.Now(), left_, unsent_);
  const bool failed = state_ == State::kReady && !(left_.empty() && unsent_.empty());
  if (failed) CountFailure();
  for (const PendingCommand& command : left_)
    Tell(command, Failure::kTimeout, "no reply by the deadline", nullptr);
  for (const PendingCommand& command : unsent_)
    Tell(command, Failure::kNotSent, "it could not be sent by the deadline", nullptr);
  if (queue_.empty()) return;
  if (state_ == State::kReady && queue_.front().deadline + base::kRedisOverdueMax <= loop_.Now())
    return Close("a reply is overdue");
  ArmDeadline();
}

void Connection::ArmDeadline() noexcept {
  const Instant overdue =
      state_ == State::kReady ? queue_.front().deadline + base::kRedisOverdueMax : Instant::max();
  const Instant next = std::min(queue_.NextDeadline(), overdue);
  if (next != Instant::max()) loop_.Arm(deadline_timer_, next);
}

// Asks whether the server answers within what the commands allowed it, and twice as long each
// time that it does not.
void Connection::Probe() noexcept {
  if (probing_) return;
  if (!queue_.HasRoom(kCommandBytes)) {
    // Full of commands that nobody waits for; the overdue one in front ends this.
    loop_.ArmAfter(state_timer_, kProbeAgain);
    return;
  }
  probing_ = true;
  queue_.bytes().Begin(1);
  queue_.bytes().Word("PING");
  PendingCommand probe;
  probe.issued = loop_.Now();
  probe.deadline =
      loop_.Now() + std::clamp<Duration>(patience_, kPatienceMin, base::kRedisOverdueMax);
  probe.kind = PendingCommand::Kind::kProbe;
  Enqueue(probe);
}

void Connection::OnProbeReply(const PendingCommand& probe) noexcept {
  probing_ = false;
  if (loop_.Now() <= probe.deadline) {
    failures_ = 0;
    backoff_.Reset();
  } else {
    // While it is broken no command tells anew how long a reply may take, and the last one may
    // have had next to nothing left.
    patience_ = std::min<Duration>(2 * std::max(patience_, kPatienceMin), base::kRedisOverdueMax);
    loop_.ArmAfter(state_timer_, kProbeAgain);
  }
}

}  // namespace flowguard::quota::redis
