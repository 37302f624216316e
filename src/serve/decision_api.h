// SPDX-License-Identifier: Apache-2.0
//
// Decisions for others: gateways, proxies and applications ask over HTTP.
//
//   POST /v1/check    JSON question in, the five numbers out; always 200 once decided
//   ANY  /v1/auth     may the request that you received pass?  200, or the refusal
//                     (nginx auth_request, Traefik, Caddy, Envoy; original_request.h)
//   POST /v1/enter    begins a call that ends later: {"id": ...}; an id of zeros when no
//                     rule is to be told of its end
//   POST /v1/exit     ends it, with its outcome and what it cost; takes zeros, and does
//                     nothing then
//   GET  /v1/status   what is left, without spending any (status.h)
//
// /v1/auth has no end of the call, so concurrency rules do not apply to it; whoever
// wants that uses enter and exit.  A rule that lets requests wait delays
// the answer of /v1/auth and /v1/enter, a bounded number of them at a time.  A client
// that leaves gives its turn back at once; a drain refuses those that wait (503).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attempt.h"
#include "engine/engine.h"
#include "http/handler.h"
#include "net/loop.h"
#include "net/timer.h"
#include "serve/decision_json.h"
#include "serve/open_entries.h"
#include "serve/original_request.h"
#include "serve/refusal.h"
#include "serve/request_view.h"
#include "serve/status.h"

namespace flowguard::serve {

struct DecisionApiOptions {
  RequestViewOptions view;
  RefusalOptions refusal;
};

// One a worker; the engine and the open entries are shared.
//
// Memory:  about 100 KiB, and 5 KiB for each request that waits.
// Threads: the loop's.
class DecisionApi final : public http::Handler {
 public:
  // All must outlive this.
  DecisionApi(net::Loop& loop, engine::Engine& engine, OpenEntries& entries,
              const DecisionApiOptions& options);
  ~DecisionApi() override;

  void Handle(const wire::RequestHead& head, std::string_view body, const http::PeerInfo& peer,
              http::Responder& responder) noexcept override;
  void OnGone(void* waiter) noexcept override;

  // Refuses those that wait, and from now on whoever would have to wait.  Call it after
  // the server's own drain has begun, so that the answers close their connections.
  void Drain() noexcept;

 private:
  struct Waiting;

  void Auth(const wire::RequestHead& head, const http::PeerInfo& peer,
            http::Responder& responder) noexcept;
  void AnswerAuth(const Decision& decision, std::string_view target, http::Responder& responder);
  void Check(std::string_view body, const http::PeerInfo& peer, http::Responder& responder);
  void Enter(std::string_view body, const http::PeerInfo& peer, http::Responder& responder);
  void Exit(std::string_view body, const http::PeerInfo& peer, http::Responder& responder);
  void Status(const wire::RequestHead& head, const http::PeerInfo& peer,
              http::Responder& responder);

  // The answer of an enter that is decided; writes into json_.
  int FinishEnter(std::unique_ptr<engine::Attempt>& attempt, const http::IpAddress& peer,
                  Duration time_to_live, Instant now);
  void Problem(int status, std::string_view detail, http::Responder& responder,
               std::string_view extra_lines = {});
  // The longest wait that there is room for now.
  [[nodiscard]] Duration WaitMax() const noexcept;
  // The answer comes when the wait of `attempt` is over; the rest of it is the caller's
  // to fill in.
  Waiting& Postpone(std::unique_ptr<engine::Attempt> attempt, http::Responder& responder);
  void EndWait(Waiting& waiting) noexcept;
  void RefuseWait(Waiting& waiting) noexcept;
  void Free(Waiting& waiting) noexcept;
  static void OnWaitOver(void* waiting) noexcept;
  static void OnExpireTimer(void* self) noexcept;
  [[nodiscard]] uint64_t Draw() noexcept;

  net::Loop& loop_;
  engine::Engine& engine_;
  OpenEntries& entries_;
  const DecisionApiOptions& options_;
  HttpRequestView view_;
  StatusPage status_;
  std::unique_ptr<engine::Attempt> attempt_;  // of /v1/auth
  net::Timer expire_timer_;
  std::vector<std::unique_ptr<Waiting>> waiting_;  // all that were ever needed at once
  std::vector<Waiting*> free_;
  bool draining_ = false;
  std::string json_;   // body of the answer being written
  std::string lines_;  // header lines of it
  uint64_t random_;
};

// What an operator should know about these rules behind this API: a line for each
// rule that /v1/auth cannot hold.
[[nodiscard]] std::vector<std::string> DecisionApiWarnings(const RuleSet& rules);

// The same for servers that nobody asks by resource: a line for each rule that meets
// requests by that alone.
[[nodiscard]] std::vector<std::string> ResourceWarnings(const RuleSet& rules);

}  // namespace flowguard::serve
