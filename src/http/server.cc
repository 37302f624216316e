// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "http/server_session.h"
#include "wire/http1_writer.h"

namespace flowguard::http {
namespace {

constexpr std::string_view kTooManyConnections =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    "Content-Length: 0\r\n\r\n";

}  // namespace

Server::Server(net::Loop& loop, const ServerOptions& options, Service& service)
    : loop_(loop),
      options_(options),
      service_(service),
      scratch_(new char[kScratchBytes]),
      head_(std::make_unique<wire::RequestHead>()),
      drain_timer_([](void* self) noexcept { static_cast<Server*>(self)->OnDrainTimer(); }, this) {}

Server::~Server() {
  for (const std::unique_ptr<ServerSession>& session : sessions_) {
    session->Close();
    loop_.Forget(*session);
  }
}

Result<net::Address> Server::Listen(const net::Address& address) {
  Result<std::unique_ptr<net::Listener>> listener = net::Listener::Open(loop_, address, *this);
  if (!listener.ok()) return listener.error();
  listeners_.push_back(std::move(listener).value());
  return listeners_.back()->address();
}

void Server::OnAccept(net::Fd fd, const net::Address& peer) noexcept {
  Bump<uint64_t>(counters_.connections);
  if (open_ >= options_.connections_max) {
    Bump<uint64_t>(counters_.shed);
    TellShed("connections are refused: this worker has as many as it may");
    // A client that does not take it learns the same from the close.
    (void)net::Send(fd.get(), kTooManyConnections.data(), kTooManyConnections.size());
    return;
  }
  if (free_.empty()) {
    sessions_.push_back(std::make_unique<ServerSession>(*this));
    free_.push_back(sessions_.back().get());
  }
  ServerSession& session = *free_.back();
  free_.pop_back();
  session.Start(std::move(fd), peer);
}

void Server::OnShed() noexcept {
  Bump<uint64_t>(counters_.shed);
  TellShed("connections are closed unread: the process has no descriptor left");
}

void Server::TellShed(std::string_view why) noexcept {
  if (loop_.Now() < shed_told_until_) return;
  shed_told_until_ = loop_.Now() + std::chrono::seconds(1);
  base::Log(base::LogLevel::kWarn, why);
}

void Server::Link(ServerSession& session) noexcept {
  session.previous_ = nullptr;
  session.next_ = live_;
  if (live_ != nullptr) live_->previous_ = &session;
  live_ = &session;
  ++open_;
  counters_.open.store(static_cast<int64_t>(open_), std::memory_order_relaxed);
}

void Server::Unlink(ServerSession& session) noexcept {
  ServerSession* const previous = std::exchange(session.previous_, nullptr);
  ServerSession* const next = std::exchange(session.next_, nullptr);
  if (previous != nullptr) previous->next_ = next;
  if (next != nullptr) next->previous_ = previous;
  if (live_ == &session) live_ = next;
  --open_;
  counters_.open.store(static_cast<int64_t>(open_), std::memory_order_relaxed);
}

void Server::Recycle(ServerSession& session) noexcept {
  free_.push_back(&session);
}

void Server::Drain(Duration grace) noexcept {
  if (draining_) return;
  for (const std::unique_ptr<net::Listener>& listener : listeners_)
    listener->Close();
  draining_ = true;
  drain_end_ = loop_.Now() + grace;
  loop_.ArmAfter(drain_timer_, std::min(grace, options_.drain_idle));
}

void Server::OnDrainTimer() noexcept {
  const bool all = loop_.Now() >= drain_end_;
  for (ServerSession* session = live_; session != nullptr;) {
    ServerSession* const next = session->next_;
    if (all) {
      if (session->in_progress()) Bump<uint64_t>(counters_.cut_off);
      session->Gone();
    } else if (session->phase_ == ServerSession::Phase::kIdle && !session->readable_) {
      session->StartLinger();
    }
    session = next;
  }
  if (!all) loop_.Arm(drain_timer_, drain_end_);
}

std::string_view Server::DateLine() noexcept {
  if (date_size_ == 0 || loop_.Now() >= date_until_) {
    char text[wire::kHttpDateBytes];
    const std::string_view date = wire::FormatHttpDate(loop_.clock().WallNow(), text);
    std::memcpy(date_, "Date: ", 6);
    std::memcpy(date_ + 6, date.data(), date.size());
    std::memcpy(date_ + 6 + date.size(), "\r\n", 2);
    date_size_ = 8 + date.size();
    date_until_ = loop_.Now() + std::chrono::seconds(1);
  }
  return {date_, date_size_};
}

}  // namespace flowguard::http
