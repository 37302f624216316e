// SPDX-License-Identifier: Apache-2.0
//
// Decisions for others: gateways, proxies and applications ask over HTTP.
//
//   POST /v1/check    JSON question in, the five numbers out; always 200 once decided
//   ANY  /v1/auth     may the request that you received pass?  200, or the refusal
//                     (nginx auth_request, Traefik, Caddy, Envoy; original_request.h)
//   POST /v1/enter    begins a call that ends later: {"id": ...}
//   POST /v1/exit     ends it, with its outcome and what it cost
//   GET  /v1/status   what is left, without spending any (status.h)
//
// /v1/auth has no end of the call, so it looks at concurrency rules and never holds
// one; whoever wants that uses enter and exit.  A rule that lets requests wait delays
// the answer of /v1/auth and /v1/enter, a bounded number of them at a time.
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

 private:
  struct Waiting;

  void Auth(const wire::RequestHead& head, const http::PeerInfo& peer,
            http::Responder& responder) noexcept;
  void AnswerAuth(const Decision& decision, std::string_view target, http::Responder& responder);
  void Check(std::string_view body, http::Responder& responder);
  void Enter(std::string_view body, http::Responder& responder);
  void Exit(std::string_view body, http::Responder& responder);
  void Status(const wire::RequestHead& head, const http::PeerInfo& peer,
              http::Responder& responder);

  // The answer of an enter that is decided; writes into json_.
  int FinishEnter(std::unique_ptr<engine::Attempt>& attempt, Duration time_to_live, Instant now);
  void Problem(int status, std::string_view detail, http::Responder& responder,
               std::string_view extra_lines = {});
  // The longest wait that there is room for now.
  [[nodiscard]] Duration WaitMax() const noexcept;
  // The answer comes when the wait of `attempt` is over.
  void Postpone(std::unique_ptr<engine::Attempt> attempt, Duration time_to_live,
                http::Responder& responder);
  void EndWait(Waiting& waiting) noexcept;
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
  std::string json_;   // body of the answer being written
  std::string lines_;  // header lines of it
  uint64_t random_;
};

// What an operator should know about these rules behind this API: a line for each
// rule that /v1/auth cannot hold.
[[nodiscard]] std::vector<std::string> DecisionApiWarnings(const RuleSet& rules);

}  // namespace flowguard::serve
