// SPDX-License-Identifier: Apache-2.0
//
// Connecting, greeting and losing; commands and replies are in connection_commands.cc.
#include "quota/redis/connection.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"

namespace flowguard::quota::redis {

Connection::Connection(net::Loop& loop, const ConnectionOptions& options, ConnectionOwner& owner,
                       Refusals& refusals, Metrics& metrics, uint64_t seed)
    : loop_(loop),
      options_(options),
      owner_(owner),
      refusals_(refusals),
      metrics_(metrics),
      resolver_(loop, *this),
      backoff_(seed),
      state_timer_([](void* self) noexcept { static_cast<Connection*>(self)->OnStateTimer(); },
                   this),
      deadline_timer_(
          [](void* self) noexcept { static_cast<Connection*>(self)->OnDeadlineTimer(); }, this),
      greeting_(options.greeting) {}

Connection::~Connection() {
  if (state_ == State::kReady) metrics_.connected.Set(metrics_.connected.value() - 1);
  loop_.Forget(*this);
}

void Connection::Start(const std::string& endpoint) {
  if (endpoint == endpoint_ && state_ != State::kIdle) return;
  endpoint_ = endpoint;
  if (state_ != State::kIdle) {
    CloseQuietly();
    LoseAll();
  }
  backoff_.Reset();
  failures_ = 0;
  Connect();
}

void Connection::Connect() {
  ++attempts_;
  // Not from the time of the turn: the first attempt may come long before the first turn.
  loop_.Arm(state_timer_, loop_.clock().Now() + options_.connect_timeout);
  if (endpoint_.front() == '/') return Use(net::ConnectUnix(endpoint_));
  const Result<net::Address> address = net::Address::Parse(endpoint_);
  if (address.ok()) return Use(net::Connect(*address));
  state_ = State::kResolving;
  resolver_.Start(endpoint_);
}

void Connection::OnResolved(const std::vector<net::Address>& found) noexcept {
  if (found.empty()) return Close("the host's name has no address");
  Use(net::Connect(found[attempts_ % found.size()]));
}

void Connection::Use(net::Fd fd) {
  state_ = State::kConnecting;
  if (!fd) return Close("the connection was refused");
  if (!loop_.Watch(fd.get(), *this)) return Close("the connection cannot be watched");
  fd_ = std::move(fd);
}

void Connection::OnConnected() {
  if (!net::ConnectSucceeded(fd_.get()) || net::IsSelfConnected(fd_.get()))
    return Close("the connection was refused");
  if (options_.tls == nullptr) return Greet();
  state_ = State::kTls;
  tls_ = options_.tls->Open(fd_.get(), endpoint_.substr(0, endpoint_.rfind(':')));
  if (tls_ == nullptr) return Close("TLS cannot begin: the host's name is no name");
  ContinueTls();
}

void Connection::ContinueTls() {
  const net::IoResult result = tls_->Handshake();
  if (result.status == net::IoStatus::kOk) return Greet();
  if (result.status == net::IoStatus::kWouldBlock) return;
  Close("TLS: " + (tls_->problem().empty() ? "the connection ended" : tls_->problem()));
}

void Connection::Greet() {
  state_ = State::kGreeting;
  if (greeting_.Begin(greeting_bytes_) == Greeting::Outcome::kReady) return OnGreeted();
  SendGreeting();
}

void Connection::SendGreeting() {
  while (greeting_bytes_.size() != 0) {
    const net::IoResult result =
        SendBytes(greeting_bytes_.View(greeting_bytes_.begin(), greeting_bytes_.end()));
    if (result.status == net::IoStatus::kWouldBlock) return;
    if (result.status != net::IoStatus::kOk) return Close("the connection was lost");
    greeting_bytes_.Drop(greeting_bytes_.begin() + result.bytes);
  }
}

void Connection::OnGreeted() {
  state_ = State::kReady;
  state_timer_.Disarm();
  failures_ = 0;
  metrics_.connects.Add(1);
  metrics_.connected.Add(1);
  if (subscribes()) Subscribe();
  if (state_ != State::kReady) return;
  owner_.OnUp(*this);
  Flush();
}

// Not through the queue: with RESP3 nothing answers it in its turn.
void Connection::Subscribe() {
  greeting_bytes_.Begin(2);
  greeting_bytes_.Word("SUBSCRIBE");
  greeting_bytes_.Word(options_.channel);
  SendGreeting();
}

void Connection::Close(std::string_view problem) noexcept {
  // The words may be those of what is thrown away here.
  const std::string words(problem);
  if (state_ != State::kReady) metrics_.connect_failures.Add(1);
  CloseQuietly();
  state_ = State::kWaiting;
  CountFailure();
  loop_.ArmAfter(state_timer_, backoff_.Next());
  LoseAll();
  owner_.OnDown(*this, words);
}

void Connection::CloseQuietly() noexcept {
  if (state_ == State::kReady) metrics_.connected.Set(metrics_.connected.value() - 1);
  loop_.Forget(*this);
  resolver_.Cancel();
  state_timer_.Disarm();
  deadline_timer_.Disarm();
  tls_.reset();
  fd_.Close();
  state_ = State::kIdle;
  flush_asked_ = blocked_ = draining_ = probing_ = false;
  greeting_bytes_.Drop(greeting_bytes_.end());
  reader_.Reset();
  input_begin_ = input_end_ = 0;
  loaded_.clear();
}

void Connection::LoseAll() noexcept {
  // Nothing is taken in this state, so the queue only shrinks.
  while (!queue_.empty()) {
    const PendingCommand command = queue_.Pop();
    if (queue_.HasLeft(command)) {
      Tell(command, Failure::kLost, "the connection was lost", nullptr);
    } else {
      Tell(command, Failure::kNotSent, "the connection was lost before it was sent", nullptr);
    }
  }
  queue_.Clear();
}

void Connection::OnReady(net::Ready ready) noexcept {
  switch (state_) {
    case State::kConnecting:
      if (ready.writable || ready.broken) OnConnected();
      return;
    case State::kTls:
      ContinueTls();
      return;
    case State::kGreeting:
      if (ready.writable) SendGreeting();
      break;
    case State::kReady:
      if (subscribes() && ready.writable) SendGreeting();
      if (blocked_ && (ready.writable || tls_ != nullptr)) {
        blocked_ = false;
        Flush();
      }
      break;
    case State::kIdle:
    case State::kResolving:
    case State::kWaiting:
      return;
  }
  // TLS may have to write before it can read on.
  const bool live = state_ == State::kGreeting || state_ == State::kReady;
  if (live && (ready.readable || tls_ != nullptr)) Receive(ready.peer_closed);
}

void Connection::OnStateTimer() noexcept {
  switch (state_) {
    case State::kWaiting:
      Connect();
      return;
    case State::kReady:
      if (broken()) Probe();
      return;
    case State::kResolving:
    case State::kConnecting:
    case State::kTls:
    case State::kGreeting:
      Close("it took longer than connect_timeout");
      return;
    case State::kIdle:
      return;
  }
}

void Connection::CountFailure() noexcept {
  ++failures_;
  if (failures_ != options_.break_after) return;
  metrics_.breaker_opened.Add(1);
  if (state_ == State::kReady) Probe();
}

}  // namespace flowguard::quota::redis
