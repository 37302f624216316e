// SPDX-License-Identifier: Apache-2.0
#include "serve/token_questions.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "http/ip_address.h"
#include "http/server.h"
#include "net/timer.h"
#include "serve/token_session.h"

namespace flowguard::serve {
namespace {

using http::Bump;
using wire::token::Type;

// A ticket: how often its object was used before, and in the low half the object's place,
// counted from here: the gateway and the decision API, which may ask the same store, count
// from 0 and from 2^31.
constexpr uint64_t kFirstPlace = uint64_t{1} << 30;
constexpr uint64_t kTicketStep = uint64_t{1} << 32;
static_assert(base::kTokenWaitingMax <= kFirstPlace, "or they reach the decision API's");
static_assert(base::kParkedMax + base::kConnectionsMax <= kFirstPlace,
              "or the gateway's reach these");

// After the deadline of a take; see kStoreTellMax.  Less than there, for the client's
// patience is less.
constexpr Duration kTellMax = std::chrono::milliseconds(3);

}  // namespace

void AppendReply(int32_t xid, int8_t type, const TokenReply& reply, std::string& out) {
  switch (static_cast<Type>(type)) {
    case Type::kFlow:
    case Type::kParamFlow:
      return wire::token::AppendFlowAnswer(xid, type, reply.status, reply.remaining, reply.wait_ms,
                                           out);
    case Type::kConcurrentAcquire:
      return wire::token::AppendTokenAnswer(xid, reply.status, reply.token_id, out);
    default:
      return wire::token::AppendStatus(xid, type, reply.status, out);
  }
}

// A question whose answer is put off until the store has answered.
struct TokenQuestions::Waiting {
  Waiting(TokenQuestions& owner, uint64_t first_ticket)
      : questions(owner), timer(&TokenQuestions::OnTimer, this), ticket(first_ticket) {}

  TokenQuestions& questions;
  net::Timer timer;
  uint64_t ticket;
  bool given_up = false;                     // the take
  std::unique_ptr<engine::Attempt> attempt;  // null: free
  TokenService::Later later;
  int32_t xid = 0;
  http::IpAddress peer;
  Instant asked_at;
  TokenSession* session = nullptr;
  uint64_t session_serial = 0;  // another one: the client has left
};

TokenQuestions::TokenQuestions(net::Loop& loop, TokenService& service, engine::QuotaStore* store,
                               Duration store_deadline, TokenServerCounters& counters)
    : loop_(loop),
      service_(service),
      store_(store),
      dues_(store == nullptr ? nullptr : std::make_shared<StoreDues>(loop, *store)),
      store_deadline_(store_deadline),
      counters_(counters),
      attempt_(std::make_unique<engine::Attempt>()) {}

TokenQuestions::~TokenQuestions() {
  for (const auto& waiting : waiting_) {
    if (waiting->attempt == nullptr) continue;
    if (!waiting->given_up) store_->Abandon(waiting->ticket, true);
    Cancel(*waiting->attempt);
  }
  EndTokens();
  if (dues_ != nullptr) dues_->Close();
}

void TokenQuestions::EndTokens() noexcept {
  if (dues_ == nullptr) return;
  service_.EndTokens(*dues_, loop_.Now());
  dues_->PassBrought();
}

bool TokenQuestions::Ask(const wire::token::Question& question, TokenSession& session,
                         TokenReply& reply) noexcept {
  const Instant now = loop_.Now();
  if (attempt_ == nullptr) attempt_ = std::make_unique<engine::Attempt>();
  if (service_.Begin(attempt_, question, session.peer(), dues_, now, reply)) return true;
  if (store_ == nullptr || waiting() >= base::kTokenWaitingMax) {
    Bump<uint64_t>(counters_.store_failed);
    service_.Resume(attempt_, TokenService::KeepOf(question), {}, session.peer(), dues_, now,
                    reply);
    return true;
  }
  AskStore(Keep(question, session));
  return false;
}

TokenQuestions::Waiting& TokenQuestions::Keep(const wire::token::Question& question,
                                              TokenSession& session) {
  if (free_.empty()) {
    waiting_.push_back(std::make_unique<Waiting>(*this, kFirstPlace + waiting_.size()));
    free_.push_back(waiting_.back().get());
  }
  Waiting& waiting = *free_.back();
  free_.pop_back();
  waiting.attempt = std::move(attempt_);
  waiting.later = TokenService::KeepOf(question);
  waiting.xid = question.xid;
  waiting.peer = session.peer();
  waiting.asked_at = loop_.Now();
  waiting.session = &session;
  waiting.session_serial = session.serial();
  CountWaiting();
  return waiting;
}

void TokenQuestions::AskStore(Waiting& waiting) noexcept {
  const Instant now = loop_.Now();
  store_->Take(waiting.attempt->remote_takes(), now, now + store_deadline_, waiting.ticket, this);
  loop_.ArmAfter(waiting.timer, store_deadline_ + kTellMax);
}

void TokenQuestions::OnTaken(uint64_t ticket,
                             std::span<const engine::TakeOutcome> outcomes) noexcept {
  std::vector<engine::TakeOutcome> copy(outcomes.begin(), outcomes.end());
  loop_.Post([this, ticket, copy = std::move(copy), questions = std::weak_ptr(posted_to_)] {
    if (questions.expired()) return;
    const uint64_t place = (ticket & UINT32_MAX) - kFirstPlace;
    if (place < waiting_.size()) OnStoreAnswer(*waiting_[place], ticket, copy);
  });
}

void TokenQuestions::OnStoreAnswer(Waiting& waiting, uint64_t ticket,
                                   std::span<const engine::TakeOutcome> outcomes) noexcept {
  if (ticket != waiting.ticket || waiting.attempt == nullptr) return;
  Finish(waiting, outcomes);
  Free(waiting);
}

void TokenQuestions::Finish(Waiting& waiting,
                            std::span<const engine::TakeOutcome> outcomes) noexcept {
  const Instant now = loop_.Now();
  const bool failed =
      outcomes.empty() ||
      std::any_of(outcomes.begin(), outcomes.end(), [](const engine::TakeOutcome& outcome) {
        return outcome.status == engine::TakeOutcome::Status::kFailed;
      });
  if (failed) Bump<uint64_t>(counters_.store_failed);
  Bump<uint64_t>(counters_.waited);
  Bump<uint64_t>(counters_.wait_ns, static_cast<uint64_t>((now - waiting.asked_at).count()));
  TokenSession& session = *waiting.session;
  if (session.serial() != waiting.session_serial) {
    service_.engine().Resume(*waiting.attempt, outcomes, now);
    dues_->Pass(*waiting.attempt);
    return Cancel(*waiting.attempt);
  }
  TokenReply reply;
  service_.Resume(waiting.attempt, waiting.later, outcomes, waiting.peer, dues_, now, reply);
  frame_.clear();
  AppendReply(waiting.xid, waiting.later.type, reply, frame_);
  session.AnswerLater(frame_);
}

// Nobody hears the answer.
void TokenQuestions::Cancel(engine::Attempt& attempt) noexcept {
  service_.Cancel(attempt, loop_.Now());
  dues_->Pass(attempt);
}

void TokenQuestions::OnTimer(void* waiting) noexcept {
  auto& over = *static_cast<Waiting*>(waiting);
  over.questions.AbandonTake(over);
}

void TokenQuestions::AbandonTake(Waiting& waiting) noexcept {
  if (std::exchange(waiting.given_up, true)) return;
  store_->Abandon(waiting.ticket, true);
  // An answer that was under way already is in the loop's queue ahead of this.
  loop_.Post([this, &waiting, ticket = waiting.ticket, questions = std::weak_ptr(posted_to_)] {
    if (!questions.expired()) OnStoreAnswer(waiting, ticket, {});
  });
}

void TokenQuestions::Free(Waiting& waiting) noexcept {
  waiting.timer.Disarm();
  waiting.ticket += kTicketStep;
  waiting.given_up = false;
  waiting.attempt.reset();
  waiting.session = nullptr;
  free_.push_back(&waiting);
  CountWaiting();
}

void TokenQuestions::CountWaiting() noexcept {
  counters_.waiting.store(static_cast<int64_t>(waiting()), std::memory_order_relaxed);
}

}  // namespace flowguard::serve
