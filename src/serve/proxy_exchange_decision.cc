// SPDX-License-Identifier: Apache-2.0
//
// From the head of a request to its verdict: the engine, the store if rules need it,
// and the wait.
#include <memory>
#include <string>

#include "base/check.h"
#include "http/handler.h"
#include "serve/gateway.h"
#include "serve/proxy_exchange.h"
#include "serve/store_patience.h"

namespace flowguard::serve {

using http::Bump;

void ProxyExchange::Decide(const wire::RequestHead& head) noexcept {
  stage_ = Stage::kDeciding;
  const Instant now = session_->now();
  decided_at_ = now;
  const engine::Step step =
      gateway_.engine_.Begin(attempt_, gateway_.view_, engine::Mode::kEnter, now);
  if (gateway_.view_.ambiguous()) {
    // The upstream might read another of the lines than the rule did.
    gateway_.engine_.Cancel(attempt_, now);
    PassDues();
    http::ServerSession* const session = session_;
    Finish();
    gateway_.CountResponse(400);
    return session->Refuse(400, gateway_.view_.ambiguity());
  }
  if (step == engine::Step::kRemote) return Ask();
  Decided(head);
}

void ProxyExchange::Ask() noexcept {
  const Instant now = session_->now();
  FG_CHECK(gateway_.store_ != nullptr);  // the engine takes no remote rules without one
  KeepHead();
  stage_ = Stage::kAsking;
  gateway_.store_->Take(attempt_.remote_takes(), now, now + gateway_.options_.store_deadline,
                        ticket_, &gateway_);
  gateway_.loop_.ArmAfter(wait_, gateway_.options_.store_deadline + kStoreTellMax);
}

bool ProxyExchange::OnStoreAnswer(uint64_t ticket,
                                  std::span<const engine::TakeOutcome> outcomes) noexcept {
  if (ticket != ticket_) return false;
  const Instant now = gateway_.loop_.Now();
  if (stage_ == Stage::kOrphaned) {
    // Both came: the answer, then our word that nobody waits.
    gateway_.engine_.Resume(attempt_, outcomes, now);
    PassDues();
    gateway_.engine_.Cancel(attempt_, now);
    PassDues();
    Finish();
    return true;
  }
  if (stage_ != Stage::kAsking) return false;
  wait_.Disarm();
  stage_ = Stage::kDeciding;
  decided_at_ = now;
  if (status_) status_->Heard(attempt_.remote_takes(), outcomes);
  gateway_.engine_.Resume(attempt_, outcomes, now);
  PassDues();
  if (!status_) {
    Decided(KeptHead());
    return true;
  }
  std::string body;
  status_->Write(body);
  SendStatus(200, body);
  return true;
}

void ProxyExchange::AnswerStatus(const wire::RequestHead& head) noexcept {
  std::string body;
  status_.emplace();
  const int status =
      gateway_.status_.Read(head, session_->peer().ip, session_->now(), attempt_, *status_, body);
  if (status == 200 && attempt_.remote_pending()) return Ask();
  if (status == 200) status_->Write(body);
  SendStatus(status, body);
}

void ProxyExchange::SendStatus(int status, std::string_view body) noexcept {
  http::Deferred answer(session_->ref());
  Finish();
  gateway_.CountResponse(status);
  answer.Send(status, status == 200 ? "application/json" : "application/problem+json", body,
              "Cache-Control: no-store\r\n");
}

// The client has left, or the deadline is over and the store did not say so.
void ProxyExchange::AbandonTake() noexcept {
  if (given_up_) return;
  given_up_ = true;
  gateway_.store_->Abandon(ticket_, true);
  // An answer that was under way already is in the loop's queue ahead of this.
  gateway_.loop_.Post([this, ticket = ticket_, gateway = std::weak_ptr(gateway_.posted_to_)] {
    if (!gateway.expired()) OnAbandoned(ticket);
  });
}

void ProxyExchange::OnAbandoned(uint64_t ticket) noexcept {
  if (ticket != ticket_) return;
  if (stage_ == Stage::kAsking) {
    OnStoreAnswer(ticket, {});
  } else if (stage_ == Stage::kOrphaned) {
    gateway_.engine_.Cancel(attempt_, gateway_.loop_.Now());
    PassDues();
    Finish();
  }
}

void ProxyExchange::PassDues() noexcept {
  if (gateway_.store_ == nullptr) return;
  for (const engine::Attempt::StoreDue& due : attempt_.store_dues()) {
    if (due.charge > 0) {
      gateway_.store_->Charge(*due.take, due.charge, gateway_.loop_.Now());
    } else {
      gateway_.store_->GiveBack(*due.take, due.receipt, gateway_.loop_.Now());
    }
  }
}

void ProxyExchange::Decided(const wire::RequestHead& head) noexcept {
  const Decision& decision = attempt_.decision();
  if (!decision.allowed()) return Refuse(decision);
  if (attempt_.waiting()) return Park();
  if (decision.degraded && AnswersDegraded(decision)) return AnswerDegraded();
  admitted_ = true;
  Bump<int64_t>(gateway_.counters_.in_flight);
  Forward(head);
}

void ProxyExchange::Park() noexcept {
  GatewayCounters& counters = gateway_.counters_;
  Decision decision = attempt_.decision();
  const bool full = counters.parked.load(std::memory_order_relaxed) >=
                    static_cast<int64_t>(gateway_.options_.parked_max);
  if (full || session_->server().draining()) {
    Bump<uint64_t>(counters.overload);
    return RefuseOverload(decision);
  }
  Bump<int64_t>(counters.parked);
  Bump<uint64_t>(counters.waited);
  KeepHead();
  stage_ = Stage::kParked;
  gateway_.loop_.ArmAfter(wait_, decision.wait);
}

void ProxyExchange::RefuseOverload(Decision decision) noexcept {
  gateway_.engine_.Cancel(attempt_, gateway_.loop_.Now());
  PassDues();
  decision.verdict = Verdict::kRefuse;
  decision.reason = Reason::kOverload;
  decision.retry_after = decision.wait;
  decision.wait = {};
  Refuse(decision);
}

void ProxyExchange::OnTimer() noexcept {
  stage_ == Stage::kAsking ? AbandonTake() : OnWaited();
}

void ProxyExchange::OnWaited() noexcept {
  // Nothing goes upstream for a client that is known to have left.
  if (session_->EndIfLeft()) return;
  Bump<int64_t>(gateway_.counters_.parked, -1);
  stage_ = Stage::kDeciding;
  decided_at_ = gateway_.loop_.Now();
  gateway_.engine_.Continue(attempt_, decided_at_);
  PassDues();
  Decided(KeptHead());
}

void ProxyExchange::RefuseParked() noexcept {
  Bump<int64_t>(gateway_.counters_.parked, -1);
  wait_.Disarm();
  RefuseOverload(attempt_.decision());
}

void ProxyExchange::Refuse(const Decision& decision) noexcept {
  // A client that asked for another protocol would take what follows for it.
  if (wants_upgrade_) session_->CloseAfter();
  const bool keep = session_->keep_alive();
  RefusalRequest request;
  request.head = session_->head_only();
  request.close = !keep;
  request.decided_at = decided_at_;
  request.store_time_us = attempt_.store_time_us();
  request.draw = gateway_.Draw();
  request.date = session_->server().DateLine();
  Bump<uint64_t>(gateway_.counters_.refused);
  gateway_.CountResponse(RefusalStatus(decision));
  std::string& out = AnswerRoom();
  AppendRefusal(decision, gateway_.options_.refusal, request, out);
  SendAnswer(keep);
}

void ProxyExchange::AnswerDegraded() noexcept {
  const bool keep = session_->keep_alive();
  RefusalRequest request;
  request.head = session_->head_only();
  request.close = !keep;
  request.date = session_->server().DateLine();
  gateway_.CountResponse(attempt_.decision().rule->degrade.status);
  AppendDegraded(attempt_.decision(), gateway_.options_.refusal, request, AnswerRoom());
  // It never goes to the upstream: what other rules took for that is given back.
  gateway_.engine_.Cancel(attempt_, gateway_.loop_.Now());
  PassDues();
  SendAnswer(keep);
}

// Where a whole answer is appended: behind those to earlier pipelined requests, if
// that is what the session is about.
std::string& ProxyExchange::AnswerRoom() noexcept {
  if (session_->corked()) return session_->cork();
  gateway_.text_.clear();
  return gateway_.text_;
}

void ProxyExchange::SendAnswer(bool keep) noexcept {
  http::ServerSession* const session = session_;
  Finish();
  if (!session->corked()) session->Write(gateway_.text_);
  session->FinishResponse(keep);
}

void ProxyExchange::KeepHead() noexcept {
  if (!request_.empty()) return;
  request_.Append(session_->server().buffers(), session_->raw_head());
}

const wire::RequestHead& ProxyExchange::KeptHead() noexcept {
  // It was whole and good before; only its place has changed.
  (void)wire::ParseRequestHead(request_.view(), 0, *gateway_.request_head_);
  return *gateway_.request_head_;
}

}  // namespace flowguard::serve
