// SPDX-License-Identifier: Apache-2.0
#include "serve/token_server.h"

#include <utility>

#include "base/log.h"
#include "base/try.h"
#include "http/peer_ip.h"
#include "http/server.h"
#include "serve/token_session.h"

namespace flowguard::serve {

using http::Bump;

TokenServer::TokenServer(net::Loop& loop, TokenService& service, const TokenServerOptions& options,
                         TokenConnections& connections, engine::QuotaStore* store)
    : loop_(loop),
      service_(service),
      options_(options),
      connections_(connections),
      input_(new char[kInputBytes]),
      questions_(loop, service, store, options.store_deadline, counters_),
      drain_timer_([](void* self) noexcept { static_cast<TokenServer*>(self)->OnDrainTimer(); },
                   this) {}

TokenServer::~TokenServer() {
  for (const std::unique_ptr<TokenSession>& session : sessions_) {
    session->Close();
    loop_.Forget(*session);
  }
}

Result<net::Address> TokenServer::Listen(const net::Address& address) {
  FG_ASSIGN_OR_RETURN(listener_, net::Listener::Open(loop_, address, *this));
  return listener_->address();
}

void TokenServer::OnAccept(net::Fd fd, const net::Address& peer) noexcept {
  Bump<uint64_t>(counters_.connections);
  const http::IpAddress ip = http::IpOf(peer);
  if (!options_.allowed.empty() && !options_.allowed.Contains(ip)) {
    Bump<uint64_t>(counters_.refused_network);
    return Tell("token clients are refused: their network is not allowed");
  }
  if (!TakeRoom()) {
    Bump<uint64_t>(counters_.refused_full);
    return Tell("token clients are refused: there are as many as there may be");
  }
  if (free_.empty()) {
    sessions_.push_back(std::make_unique<TokenSession>(*this));
    free_.push_back(sessions_.back().get());
  }
  TokenSession& session = *free_.back();
  free_.pop_back();
  session.Start(std::move(fd), ip);
}

// Of the connections that all workers may have together.
bool TokenServer::TakeRoom() noexcept {
  if (connections_.fetch_add(1, std::memory_order_relaxed) < options_.connections_max) return true;
  connections_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void TokenServer::OnShed() noexcept {
  Bump<uint64_t>(counters_.shed);
  Tell("token clients are refused: the process has no descriptor left");
}

void TokenServer::Tell(std::string_view why) noexcept {
  if (loop_.Now() < told_until_) return;
  told_until_ = loop_.Now() + std::chrono::seconds(1);
  base::Log(base::LogLevel::kWarn, why);
}

void TokenServer::Link(TokenSession& session) noexcept {
  session.previous = nullptr;
  session.next = live_;
  if (live_ != nullptr) live_->previous = &session;
  live_ = &session;
  ++open_;
  counters_.open.store(static_cast<int64_t>(open_), std::memory_order_relaxed);
}

void TokenServer::Unlink(TokenSession& session) noexcept {
  TokenSession* const previous = std::exchange(session.previous, nullptr);
  TokenSession* const next = std::exchange(session.next, nullptr);
  if (previous != nullptr) previous->next = next;
  if (next != nullptr) next->previous = previous;
  if (live_ == &session) live_ = next;
  --open_;
  connections_.fetch_sub(1, std::memory_order_relaxed);
  counters_.open.store(static_cast<int64_t>(open_), std::memory_order_relaxed);
}

void TokenServer::Recycle(TokenSession& session) noexcept {
  free_.push_back(&session);
}

void TokenServer::Drain(Duration grace) noexcept {
  if (draining_) return;
  draining_ = true;
  if (listener_ != nullptr) listener_->Close();
  for (TokenSession* session = live_; session != nullptr;) {
    TokenSession* const next = session->next;
    session->Drain();
    session = next;
  }
  loop_.ArmAfter(drain_timer_, grace);
}

void TokenServer::OnDrainTimer() noexcept {
  while (live_ != nullptr) {
    const uint64_t questions = live_->waiting() + (live_->unsent() ? 1U : 0U);
    Bump<uint64_t>(counters_.cut_off, questions);
    live_->Close();
  }
}

}  // namespace flowguard::serve
