// SPDX-License-Identifier: Apache-2.0
//
// One connection to one server, kept up for ever: connects, greets, sends what a turn
// of the loop gathered in one write, hands out replies in order, and comes back after a
// loss.
//
// Time: a command's deadline is kept by one timer for all.  A reply that comes later is
// dropped in its place.  When the first reply is overdue by kRedisOverdueMax the other
// side is taken for gone.
//
// The breaker: after break_after failures in a row (no connection, a lost one, a
// deadline missed) nothing is accepted until a new connection is greeted, or a PING on
// this one is answered in time: in what the last command allowed, twice that the next time.
//
// Threads: the loop's.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/time.h"

#include "net/backoff.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "net/socket.h"
#include "net/timer.h"
#include "net/tls_context.h"
#include "quota/redis/command_queue.h"
#include "quota/redis/commander.h"
#include "quota/redis/error_reply.h"
#include "quota/redis/greeting.h"
#include "quota/redis/metrics.h"
#include "quota/redis/refusals.h"

namespace flowguard::quota::redis {

struct ConnectionOptions {
  GreetingOptions greeting;
  Duration connect_timeout = std::chrono::seconds(1);
  int break_after = 5;
  std::shared_ptr<const net::TlsContext> tls;  // null: none
  // Subscribed to once greeted: then it takes no commands, and OnMessage is told what comes.
  std::string channel;
};

class Connection;

// Who has connections; told of what concerns more than one command.
class ConnectionOwner {
 public:
  // A command was answered by MOVED or ASK.  True: it is sent elsewhere, and that place
  // tells the sink.  `bytes` are the command as it was sent.
  virtual bool OnRedirect(Connection& from, const PendingCommand& command, std::string_view bytes,
                          const ErrorReply& reply) noexcept = 0;
  // Greeted.
  virtual void OnUp(Connection& connection) noexcept = 0;
  // Lost, or not even established.  It tries again by itself; `problem` is for people.
  virtual void OnDown(Connection& connection, std::string_view problem) noexcept = 0;
  // The server does not do its work (any more): READONLY, CLUSTERDOWN.
  virtual void OnDoubt(Connection& connection, Failure failure) noexcept = 0;
  // What came on a channel: {"message", channel, text}, or an error.
  virtual void OnMessage(Connection& /*connection*/,
                         const wire::resp::Value& /*message*/) noexcept {}

 protected:
  ~ConnectionOwner() = default;
};

class Connection final : public net::Watcher, private net::ResolverUser {
 public:
  // All must outlive it.
  Connection(net::Loop& loop, const ConnectionOptions& options, ConnectionOwner& owner,
             Refusals& refusals, Metrics& metrics, uint64_t seed);
  // Tells nobody: who waits for a reply is forgotten.
  ~Connection() override;

  // Connects to "host:port" or "/path".  Another place than before: what is under way is
  // lost, and told so.
  void Start(const std::string& endpoint);
  [[nodiscard]] const std::string& endpoint() const noexcept { return endpoint_; }

  [[nodiscard]] bool ready() const noexcept { return state_ == State::kReady; }
  // Whether a command would be taken now: connected or about to be, and the breaker is
  // closed.
  [[nodiscard]] bool Accepts() const noexcept;
  // Commands without a reply.
  [[nodiscard]] size_t pending() const noexcept { return queue_.size(); }

  // As Commander's.
  void Run(const Script& script, std::span<const std::string_view> keys,
           const wire::resp::EncodedWords& args, Instant deadline, uint64_t ticket,
           ReplySink* sink) noexcept;
  void Command(std::span<const std::string_view> words, Instant deadline, uint64_t ticket,
               ReplySink* sink) noexcept;
  // Sends a command that another connection was redirected with.  False: it cannot.
  [[nodiscard]] bool Adopt(const PendingCommand& command, std::string_view bytes,
                           bool asking) noexcept;

  void OnReady(net::Ready ready) noexcept override;
  void OnTurnEnd() noexcept override;

 private:
  enum class State : uint8_t { kIdle, kResolving, kConnecting, kTls, kGreeting, kReady, kWaiting };

  void OnResolved(const std::vector<net::Address>& found) noexcept override;
  void Connect();
  void Use(net::Fd fd);
  void OnConnected();
  void ContinueTls();
  void Greet();
  void SendGreeting();
  void OnGreeted();
  void Subscribe();
  [[nodiscard]] bool subscribes() const noexcept { return !options_.channel.empty(); }
  // Ends what is under way and tries again later.
  void Close(std::string_view problem) noexcept;
  void CloseQuietly() noexcept;
  void LoseAll() noexcept;

  // Empty: the command can be taken; else why not.
  [[nodiscard]] std::string_view Obstacle(size_t bytes, Instant deadline) const noexcept;
  // What stands before the keys of a command of `words`.
  void WriteHead(const Script& script, size_t keys, size_t words) noexcept;
  void Enqueue(const PendingCommand& command) noexcept;
  void EnqueueAsking(Instant deadline) noexcept;
  void AskForFlush() noexcept;
  void Flush() noexcept;
  net::IoResult SendBytes(std::string_view bytes) noexcept;

  void Receive(bool to_the_end) noexcept;
  [[nodiscard]] bool ReadReplies() noexcept;
  [[nodiscard]] bool Dispatch(const wire::resp::Value& reply) noexcept;
  void OnCommandReply(const PendingCommand& command, const wire::resp::Value& reply) noexcept;
  void OnErrorReply(const PendingCommand& command, const wire::resp::Value& reply) noexcept;
  [[nodiscard]] bool Reload(const PendingCommand& command) noexcept;
  void OnProbeReply(const PendingCommand& probe) noexcept;
  void Tell(const PendingCommand& command, Failure failure, std::string_view error,
            const wire::resp::Value* value) noexcept;

  void OnStateTimer() noexcept;
  void OnDeadlineTimer() noexcept;
  void ArmDeadline() noexcept;
  void CountFailure() noexcept;
  void Probe() noexcept;
  [[nodiscard]] bool broken() const noexcept { return failures_ >= options_.break_after; }

  net::Loop& loop_;
  const ConnectionOptions& options_;
  ConnectionOwner& owner_;
  Refusals& refusals_;
  Metrics& metrics_;

  std::string endpoint_;
  State state_ = State::kIdle;
  net::Fd fd_;
  std::unique_ptr<net::TlsStream> tls_;
  net::Resolver resolver_;
  uint32_t attempts_ = 0;  // chooses among the addresses of a name
  net::Backoff backoff_;
  net::Timer state_timer_;     // connecting, waiting to try again, probing
  net::Timer deadline_timer_;  // of the commands

  Greeting greeting_;
  wire::resp::CommandBuffer greeting_bytes_;
  CommandQueue queue_;
  bool flush_asked_ = false;
  bool blocked_ = false;                               // the socket takes no more for now
  bool draining_ = false;                              // takes nothing; closes when all is answered
  int failures_ = 0;                                   // in a row
  bool probing_ = false;                               // a PING of our own is in the queue
  Duration patience_ = std::chrono::milliseconds(20);  // what the next PING is allowed

  // What the last command of a script began with: mostly what the next one does.
  struct Head {
    const Script* script = nullptr;
    size_t keys = 0;
    size_t words = 0;
    uint32_t body = 0;  // as PendingCommand's
    size_t size = 0;
    std::array<char, 128> bytes;
  };
  Head head_;

  wire::resp::Reader reader_;
  std::vector<char> input_;
  size_t input_begin_ = 0;  // first byte not read yet
  size_t input_end_ = 0;

  // Scripts that went out as EVAL on this connection, and up to where: a command from
  // before that needs no second EVAL.
  struct Loaded {
    const Script* script;
    uint64_t at;
  };
  std::vector<Loaded> loaded_;
  std::vector<PendingCommand> left_;    // for OnDeadlineTimer
  std::vector<PendingCommand> unsent_;  // for OnDeadlineTimer
};

}  // namespace flowguard::quota::redis
