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
//
// Rules that need a store are asked through the loop's: the answer comes with the
// store's, or at the deadline, as those rules' on_store_failure says.  What an entry took
// from the store goes back to it whichever worker is told of the exit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/quota_store.h"
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
  Duration store_deadline = std::chrono::milliseconds(20);
};

// One a worker; the engine and the open entries are shared.
//
// Memory:  about 100 KiB, and 5 KiB for each request that waits, be it for the store.
// Threads: the loop's, save OnTaken (the store's).
class DecisionApi final : public http::Handler, public engine::TakeSink {
 public:
  // All must outlive this.  `store`: of this loop; null: the engine has no rules that
  // need one.
  DecisionApi(net::Loop& loop, engine::Engine& engine, OpenEntries& entries,
              const DecisionApiOptions& options, engine::QuotaStore* store = nullptr);
  ~DecisionApi() override;

  void Handle(const wire::RequestHead& head, std::string_view body, const http::PeerInfo& peer,
              http::Responder& responder) noexcept override;
  void OnGone(void* waiter) noexcept override;

  // engine::TakeSink
  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override;

  // Refuses those that wait, and from now on whoever would have to wait.  Call it after
  // the server's own drain has begun, so that the answers close their connections.
  void Drain() noexcept;

  // Settles the open entries that took from the store, as cancelled.  Call it before the
  // store closes; the destructor does it as well.
  void EndEntries() noexcept;

 private:
  enum class Question : uint8_t { kAuth, kCheck, kEnter, kStatus };
  // What the answer depends on besides the decision.
  struct Caller {
    Question question = Question::kAuth;
    int deny_status = 0;      // of an auth
    Duration time_to_live{};  // of an enter
    http::IpAddress peer;     // of an enter
  };
  struct Waiting;

  void Auth(const wire::RequestHead& head, const http::PeerInfo& peer,
            http::Responder& responder) noexcept;
  void AnswerAuth(const Decision& decision, int deny_status, http::Responder& responder);
  // Appends the whole answer.
  void WriteAuth(const Decision& decision, const RefusalRequest& request, std::string& out) const;
  void Check(std::string_view body, const http::PeerInfo& peer, http::Responder& responder);
  void Enter(std::string_view body, const http::PeerInfo& peer, http::Responder& responder);
  void Exit(std::string_view body, const http::PeerInfo& peer, http::Responder& responder);
  void Status(const wire::RequestHead& head, const http::PeerInfo& peer,
              http::Responder& responder);

  // The answer of an enter that is decided; writes into json_.
  int FinishEnter(std::unique_ptr<engine::Attempt>& attempt, const Caller& caller, Instant now);
  void Problem(int status, std::string_view detail, http::Responder& responder,
               std::string_view extra_lines = {});

  // --- decisions that need the store

  // True: there is no decision before the store has answered.
  [[nodiscard]] bool Begin(engine::Attempt& attempt, const engine::RequestView& view,
                           engine::Mode mode, Instant now) noexcept;
  void Cancel(engine::Attempt& attempt, Instant now) noexcept;
  // What the last engine call on `attempt` left for the store.
  void PassDues(const engine::Attempt& attempt) noexcept;
  void Ask(Waiting& waiting) noexcept;
  void OnStoreAnswer(Waiting& waiting, uint64_t ticket,
                     std::span<const engine::TakeOutcome> outcomes) noexcept;
  // The client has left, or the deadline is over and the store did not say so.
  void AbandonTake(Waiting& waiting) noexcept;
  // Every answer of the store to the abandoned `ticket` has been seen.
  void OnAbandoned(Waiting& waiting, uint64_t ticket) noexcept;

  // --- answers that come later

  // The longest wait that there is room for now.
  [[nodiscard]] Duration WaitMax() const noexcept;
  // The caller goes on with Ask or Park.
  Waiting& Postpone(std::unique_ptr<engine::Attempt> attempt, const Caller& caller,
                    http::Responder& responder);
  // Until the wait that was decided is over.
  void Park(Waiting& waiting) noexcept;
  void EndWait(Waiting& waiting) noexcept;
  void RefuseWait(Waiting& waiting) noexcept;
  void Answer(Waiting& waiting) noexcept;
  [[nodiscard]] RefusalRequest LaterAuth(const http::Deferred& reply, int deny_status) noexcept;
  void Free(Waiting& waiting) noexcept;
  static void OnTimer(void* waiting) noexcept;
  static void OnExpireTimer(void* self) noexcept;
  [[nodiscard]] uint64_t Draw() noexcept;

  net::Loop& loop_;
  engine::Engine& engine_;
  OpenEntries& entries_;
  const DecisionApiOptions& options_;
  engine::QuotaStore* const store_;
  const std::shared_ptr<StoreDues> dues_;  // null without a store
  HttpRequestView view_;
  StatusPage status_;
  std::unique_ptr<engine::Attempt> attempt_;  // of what holds nothing: auth, check, status
  net::Timer expire_timer_;
  std::vector<std::unique_ptr<Waiting>> waiting_;  // all that were ever needed at once
  std::vector<Waiting*> free_;
  size_t parked_ = 0;
  bool draining_ = false;
  std::string json_;   // body of the answer being written
  std::string lines_;  // header lines of it
  uint64_t random_;
  // What is posted to the loop does nothing once this is gone.
  const std::shared_ptr<const bool> posted_to_ = std::make_shared<const bool>(true);
};

// What an operator should know about these rules behind this API: a line for each
// rule that /v1/auth cannot hold.
[[nodiscard]] std::vector<std::string> DecisionApiWarnings(const RuleSet& rules);

// The same for servers that nobody asks by resource: a line for each rule that meets
// requests by that alone.
[[nodiscard]] std::vector<std::string> ResourceWarnings(const RuleSet& rules);

}  // namespace flowguard::serve
