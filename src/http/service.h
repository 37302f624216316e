// SPDX-License-Identifier: Apache-2.0
//
// What stands behind a ServerSession: told of a request when its head is whole, fed
// the body as it arrives, asked for nothing.  handler_service.h makes one of a
// Handler; serve/gateway.h is the other.
//
// Threads: the loop's.
#pragma once

#include <cstddef>
#include <string_view>

#include "wire/http1.h"

namespace flowguard::http {

class ServerSession;

class Service {
 public:
  virtual ~Service() = default;

  // A request head is whole and its semantics were checked.  `head` and
  // session.raw_head() live until OnRequest returns.  The body stays unread until
  // session.StartBody().
  virtual void OnRequest(ServerSession& session, const wire::RequestHead& head) noexcept = 0;

  // Body bytes in the framing of the request (chunked stays chunked; its coding has
  // been checked, and trailers are left out), `last` with the end of it.  Returns how many were
  // taken; with fewer than given the session stops reading until ResumeInput.
  virtual size_t OnBody(ServerSession& session, std::string_view raw, bool last) noexcept = 0;

  // Everything that Write had to keep is sent.
  virtual void OnDrained(ServerSession& /*session*/) noexcept {}

  // The client is gone, or the session had to end, before FinishResponse.  The
  // session is not touched any more.
  virtual void OnGone(ServerSession& session) noexcept = 0;

  // The request waits for its turn and nothing of it is under way.  Then a client that
  // sends no more is taken to have left, for nothing else tells that nobody waits; else
  // it gets its answer, as it may have closed its own half only.
  [[nodiscard]] virtual bool Waits(const ServerSession& /*session*/) const noexcept {
    return false;
  }

  // Bytes of an upgraded connection, as OnBody; see ServerSession::StartTunnel.
  virtual size_t OnTunnel(ServerSession& /*session*/, std::string_view raw) noexcept {
    return raw.size();
  }
  // The client of a tunnel sends no more.
  virtual void OnTunnelEnd(ServerSession& /*session*/) noexcept {}
};

}  // namespace flowguard::http
