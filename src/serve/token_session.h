// SPDX-License-Identifier: Apache-2.0
//
// One client of a token server: frames in, answers out, in any order.
//
//   read ─► frame ─► question ─► TokenQuestions ─┬─► cork ─► one write for all of a read
//                                                └─ store ─► out ─► one write a turn
//
// A client may be quiet for as long as it likes: Sentinel's send no sign of life.  One that
// does not take its answers is read no more until it has, and is closed when it takes none
// for kWriteMax.  What is no question is answered where its head can be read, and the next
// frame begins where the length said.
//
// Threads: the loop's.  Memory: under 320 bytes, and no buffer while the client is quiet;
// a frame of which a part is here, and answers that the client does not take, lie in memory
// of their own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "flowguard/time.h"

#include "http/buffer_pool.h"
#include "http/ip_address.h"
#include "net/loop.h"
#include "net/socket.h"
#include "net/timer.h"
#include "wire/token_frames.h"

namespace flowguard::serve {

class TokenServer;

class TokenSession final : public net::Watcher {
 public:
  // A client that takes nothing for this long is gone.
  static constexpr Duration kWriteMax = std::chrono::seconds(10);
  // For a client to see the last answers before the connection is closed.
  static constexpr Duration kLinger = std::chrono::seconds(1);

  // `server` must outlive this.
  explicit TokenSession(TokenServer& server) noexcept;
  ~TokenSession() override;

  void Start(net::Fd fd, const http::IpAddress& peer) noexcept;
  // Answers what has arrived, waits for what the store was asked, and ends.
  void Drain() noexcept;
  // Ends at once.
  void Close() noexcept;

  [[nodiscard]] const http::IpAddress& peer() const noexcept { return peer_; }
  // Of this connection; the object is used again for others.
  [[nodiscard]] uint64_t serial() const noexcept { return serial_; }
  // Questions without an answer, and whether some of the answers were not sent.
  [[nodiscard]] size_t waiting() const noexcept { return waiting_; }
  [[nodiscard]] bool unsent() const noexcept { return !out_.empty(); }

  // The answer to a question that waited for the store; sent when the turn ends.
  void AnswerLater(std::string_view frame) noexcept;

  // The server's list of live sessions.
  TokenSession* previous = nullptr;
  TokenSession* next = nullptr;

 private:
  enum class Phase : uint8_t {
    kFree,    // not in use
    kOpen,    // takes questions
    kEnding,  // takes no more; answers are still to come or to be sent
    kLinger,  // answered; the client has yet to close
  };

  void OnReady(net::Ready ready) noexcept override;
  void OnTurnEnd() noexcept override;
  void OnRetired() noexcept override;
  void OnTimer() noexcept;

  // input
  [[nodiscard]] bool WantsInput() const noexcept;
  void Work() noexcept;
  bool Receive(char* into, size_t& bytes) noexcept;
  void Consume(std::string_view input) noexcept;
  void PassOver(std::string_view& input) noexcept;
  void Take(std::string_view message, std::string& out) noexcept;
  void TakePing(const wire::token::Question& question, std::string& out) noexcept;
  void RefuseTooLong(std::string_view head, std::string& out) noexcept;
  void Discard() noexcept;

  // output
  void Send(std::string_view bytes) noexcept;
  void Flush() noexcept;

  // ends
  void End() noexcept;
  void EndIfDone() noexcept;

  TokenServer& server_;
  net::Fd fd_;
  Phase phase_ = Phase::kFree;
  bool readable_ = false;     // the socket may hold unread bytes
  bool peer_closed_ = false;  // the client sends no more
  bool behind_ = false;       // whole frames may lie in left_
  bool blocked_ = false;      // the socket takes no more for now
  bool turn_end_asked_ = false;
  uint32_t waiting_ = 0;
  uint64_t serial_ = 0;
  size_t pass_over_ = 0;  // bytes of a frame that is too long
  std::string left_;      // bytes that were read and not used yet
  http::Buffer out_;      // answers that were not sent yet
  std::string name_space_;
  http::IpAddress peer_;
  net::Timer timer_;
};

static_assert(sizeof(TokenSession) < 320);

}  // namespace flowguard::serve
