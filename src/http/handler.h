// SPDX-License-Identifier: Apache-2.0
//
// Servers that answer by themselves (decision API, admin): a request with its whole,
// small body in, one answer out, at once or later.
//
//   class Hello final : public http::Handler {
//     void Handle(const wire::RequestHead&, std::string_view, const PeerInfo&,
//                 Responder& responder) noexcept override {
//       responder.Send(200, "text/plain", "hello\n");
//     }
//   };
//
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "flowguard/time.h"

#include "http/ip_address.h"
#include "wire/http1.h"

namespace flowguard::http {

class Server;
class ServerSession;

// Who sent the request: the other end of the connection, not what header lines claim.
struct PeerInfo {
  IpAddress ip;
  uint16_t port = 0;
};

// A session that may have ended, or gone on to another request, in the meantime.
// Threads: plain value; only the session's loop looks through it.
struct SessionRef {
  ServerSession* session = nullptr;
  uint64_t serial = 0;  // of the request within all requests of that session object
};

// An answer that is given later.  Copyable; the first Send wins, and a Send after
// the client went away does nothing.
// Threads: Send on the loop's thread only: post to the loop from others.
class Deferred {
 public:
  Deferred() noexcept = default;
  explicit Deferred(SessionRef ref) noexcept : ref_(ref) {}

  // The client still waits for this answer.
  [[nodiscard]] bool waiting() const noexcept;
  void Send(int status, std::string_view content_type, std::string_view body,
            std::string_view extra_lines = {}) noexcept;

  // As those of Responder, for who writes the whole answer himself.
  // Requires: waiting().
  [[nodiscard]] std::string_view date_line() const noexcept;
  [[nodiscard]] bool head_only() const noexcept;
  [[nodiscard]] bool keep_alive() const noexcept;
  // `answer`: everything from the status line to the end of the body.
  void SendWhole(std::string_view answer) noexcept;

 private:
  SessionRef ref_;
};

// Takes the answer to one request.  Exactly one of Send, Done, Defer is called
// before Handle returns; a handler that calls none is a bug and answers 500.
class Responder {
 public:
  explicit Responder(ServerSession& session) noexcept : session_(session) {}
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  // The time of this loop turn.
  [[nodiscard]] Instant now() const noexcept;
  // "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", kept for the second.
  [[nodiscard]] std::string_view date_line() const noexcept;
  // A HEAD request: the answer has no body, whatever its Content-Length says.
  [[nodiscard]] bool head_only() const noexcept;
  // False: the answer must carry "Connection: close".
  [[nodiscard]] bool keep_alive() const noexcept;

  // A whole answer.  `extra_lines` are header lines with their CRLF.  Date,
  // Content-Length and Connection are written here.
  // Cost: no allocation after warm-up.
  void Send(int status, std::string_view content_type, std::string_view body,
            std::string_view extra_lines = {}) noexcept;

  // For those who write whole answers themselves: append everything from the status
  // line to the end of the body to out(), then call Done.  Several answers to
  // pipelined requests stand in one buffer: append only.
  [[nodiscard]] std::string& out() noexcept;
  void Done() noexcept;

  // The answer comes later, through what is returned.  `waiter`: what Handler::OnGone is
  // called with if the client leaves before; null: it is not called.
  [[nodiscard]] Deferred Defer(void* waiter = nullptr) noexcept;

  [[nodiscard]] bool answered() const noexcept { return answered_; }
  // No connection reuse after this answer.  Call it before keep_alive() is asked.
  void CloseAfter() noexcept;

 private:
  ServerSession& session_;
  bool answered_ = false;
};

class Handler {
 public:
  virtual ~Handler() = default;

  // Views live until Handle returns.  `body` is decoded and whole.
  virtual void Handle(const wire::RequestHead& head, std::string_view body, const PeerInfo& peer,
                      Responder& responder) noexcept = 0;

  // The client left before the answer that was deferred with `waiter` (not null) was
  // sent, or was cut off at the end of a drain; that answer goes nowhere.  Not called
  // when the server is destroyed.
  virtual void OnGone(void* /*waiter*/) noexcept {}
};

}  // namespace flowguard::http
