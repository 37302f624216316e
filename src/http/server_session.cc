// SPDX-License-Identifier: Apache-2.0
//
// Input side and life cycle; what is sent is in server_session_output.cc.
#include "http/server_session.h"

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "http/peer_ip.h"

namespace flowguard::http {
namespace {

constexpr size_t kReadBytesMin = 2048;  // less room than this behind a partial head: grow

}  // namespace

ServerSession::ServerSession(Server& server) noexcept
    : server_(server),
      timer_([](void* self) noexcept { static_cast<ServerSession*>(self)->OnTimer(); }, this) {}

ServerSession::~ServerSession() = default;

void ServerSession::Start(net::Fd fd, const net::Address& peer) noexcept {
  fd_ = std::move(fd);
  peer_.ip = IpOf(peer);
  peer_.port = peer.port();
  phase_ = Phase::kIdle;
  readable_ = peer_closed_ = pumping_ = blocked_ = broken_ = false;
  body_ = BodyState::kDone;
  head_scanned_ = 0;
  fresh_ = true;
  server_.Link(*this);
  Arm(server_.options_.header_timeout);
  if (!server_.loop_.Watch(fd_.get(), *this)) Close();
}

bool ServerSession::IsCurrent(const SessionRef& ref) noexcept {
  return ref.session != nullptr && ref.session->serial_ == ref.serial &&
         ref.session->phase_ == Phase::kRequest;
}

void ServerSession::OnReady(net::Ready ready) noexcept {
  if (phase_ == Phase::kFree) return;
  if (ready.broken || broken_) return Gone();
  answered_this_turn_ = 0;
  readable_ = readable_ || ready.readable;
  peer_closed_ = peer_closed_ || ready.peer_closed;
  if (ready.writable && !out_.empty()) FlushOut();
  Continue();
  if (phase_ == Phase::kRequest && peer_closed_ && server_.service_.Waits(*this)) Gone();
}

void ServerSession::OnRetired() noexcept {
  in_.Release();
  out_.Release();
  server_.Recycle(*this);
}

void ServerSession::OnTimer() noexcept {
  if (!out_.empty()) {  // the client reads nothing
    Bump<uint64_t>(server_.counters_.timeouts);
    net::ResetOnClose(fd_.get());
    return Gone();
  }
  switch (phase_) {
    case Phase::kHead:
      Bump<uint64_t>(server_.counters_.timeouts);
      return Refuse(408, "the request head took too long");
    case Phase::kRequest:
      Bump<uint64_t>(server_.counters_.timeouts);
      if (!started_) {
        close_after_ = true;
        server_.service_.OnGone(*this);
        return Refuse(408, "the request body took too long");
      }
      net::ResetOnClose(fd_.get());
      return Gone();
    case Phase::kTunnel:
      return Gone();
    default:
      return Close();
  }
}

// --- input

bool ServerSession::WantsInput() const noexcept {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kHead:
      return out_.empty();
    case Phase::kRequest:
      return body_ == BodyState::kFlowing && !blocked_;
    case Phase::kTunnel:
      return !blocked_;
    case Phase::kSkip:
    case Phase::kLinger:
      return true;
    default:
      return false;
  }
}

// Works on as far as input, service and client allow.
void ServerSession::Continue() noexcept {
  if (pumping_) return;
  if (server_.cork_owner_ != nullptr) return server_.loop_.Again(*this);
  if (!in_.empty() && WantsInput()) {
    input_ = in_.view();
    Pump();
  }
  ReadInput();
}

void ServerSession::ReadInput() noexcept {
  while (readable_ && WantsInput()) {
    if (answered_this_turn_ >= base::kPipelineDepthMax) return server_.loop_.Again(*this);
    const bool behind = !in_.empty();
    char* const into =
        behind ? in_.Reserve(server_.buffers_, kReadBytesMin) : server_.scratch_.get();
    const size_t room = behind ? in_.room() : Server::kScratchBytes;
    const net::IoResult got = net::Receive(fd_.get(), {into, room});
    switch (got.status) {
      case net::IoStatus::kOk:
        break;
      case net::IoStatus::kWouldBlock:
        readable_ = false;
        return;
      case net::IoStatus::kEnd:
        return OnInputEnd();
      case net::IoStatus::kError:
        return Gone();
    }
    // Edge-triggered: a short read means that the socket is empty, unless its end
    // is still to be read.
    readable_ = got.bytes == room || peer_closed_;
    Bump<uint64_t>(server_.counters_.bytes_in, got.bytes);
    if (behind) {
      in_.Commit(got.bytes);
      input_ = in_.view();
    } else {
      input_ = {into, got.bytes};
    }
    Pump();
  }
}

void ServerSession::OnInputEnd() noexcept {
  readable_ = false;
  peer_closed_ = true;
  if (phase_ == Phase::kTunnel) return server_.service_.OnTunnelEnd(*this);
  if (phase_ == Phase::kRequest) return Gone();  // a body that was cut off
  Close();
}

void ServerSession::Pump() noexcept {
  FG_DCHECK(!pumping_ && server_.cork_owner_ == nullptr);
  pumping_ = true;
  server_.cork_owner_ = this;
  while (PumpOnce()) {
  }
  server_.cork_owner_ = nullptr;
  pumping_ = false;
  if (phase_ == Phase::kFree) {
    server_.cork_.clear();
    return;
  }
  if (in_.borrowed() && (in_.empty() || in_.view().data() == input_.data())) {
    in_.ReleaseIfEmpty();
  } else {
    in_.Append(server_.buffers_, input_);
  }
  input_ = {};
  FlushCork();
}

bool ServerSession::PumpOnce() noexcept {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kHead:
      return PumpHead();
    case Phase::kRequest:
      return PumpBody();
    case Phase::kSkip:
      return PumpSkip();
    case Phase::kTunnel:
      return PumpTunnel();
    case Phase::kLinger:
      discarded_ += input_.size();
      TakeInput(input_.size());
      if (discarded_ > base::kLingerBytesMax) Close();
      return false;
    default:
      return false;
  }
}

bool ServerSession::PumpHead() noexcept {
  if (input_.empty() || !out_.empty()) return false;
  if (answered_this_turn_ >= base::kPipelineDepthMax) {
    server_.loop_.Again(*this);
    return false;
  }
  wire::RequestHead& head = *server_.head_;
  switch (wire::ParseRequestHead(input_, head_scanned_, head)) {
    case wire::ParseStatus::kNeedMore:
      head_scanned_ = input_.size();
      // The first head has been on the clock since the connection was accepted.
      if (phase_ == Phase::kIdle && !fresh_) Arm(server_.options_.header_timeout);
      phase_ = Phase::kHead;
      return false;
    case wire::ParseStatus::kBad:
      Refuse(wire::StatusFor(head.bad), wire::Describe(head.bad));
      return false;
    case wire::ParseStatus::kDone:
      Dispatch();
      return true;
  }
  return false;
}

void ServerSession::Dispatch() noexcept {
  const wire::RequestHead& head = *server_.head_;
  raw_head_ = input_.substr(0, head.consumed);
  TakeInput(head.consumed);
  head_scanned_ = 0;
  method_ = head.method;
  minor_version_ = head.minor_version;
  client_keeps_alive_ = head.keep_alive && head.minor_version == 1;
  framing_ = head.body;
  body_ = framing_ == wire::BodyFraming::kNone ? BodyState::kDone : BodyState::kUnread;
  body_left_ = head.content_length;
  chunked_.Reset();
  framed_ = 0;
  expects_continue_ = head.expect_continue;
  close_after_ = continue_sent_ = started_ = blocked_ = false;
  context_ = nullptr;
  ++serial_;
  fresh_ = false;
  phase_ = Phase::kRequest;
  timer_.Disarm();
  Bump<uint64_t>(server_.counters_.requests);
  server_.service_.OnRequest(*this, head);
  raw_head_ = {};
  // No event tells of it again: OnReady looks whether this one waits.
  if (peer_closed_ && phase_ == Phase::kRequest) server_.loop_.Again(*this);
}

// How many bytes at the front of the input are body.  False: the coding is broken.
bool ServerSession::FrameBody(size_t& bytes, bool& last) noexcept {
  if (framing_ == wire::BodyFraming::kLength) {
    bytes = static_cast<size_t>(std::min<uint64_t>(body_left_, input_.size()));
    last = bytes == body_left_;
    return true;
  }
  if (framed_ < input_.size() && !chunked_.done()) {
    const wire::ChunkedDecoder::Piece piece = chunked_.Feed(input_.substr(framed_));
    if (piece.status == wire::ParseStatus::kBad) return false;
    framed_ += piece.taken;
  }
  bytes = framed_;
  last = chunked_.done();
  return true;
}

// Trailers come behind the decision: an upstream that merges them into the header lines
// would read what no rule has seen.  They stay in the input until they are whole, and of
// them only the empty line goes on.
void ServerSession::DropTrailers(size_t& bytes, bool& last) noexcept {
  constexpr size_t kEmptyLine = 2;
  const size_t trailers = chunked_.trailer_bytes();
  if (framing_ != wire::BodyFraming::kChunked || (last && trailers <= kEmptyLine)) return;
  if (!last || bytes > trailers) {
    bytes -= std::min(bytes, trailers);
    last = false;
  } else if (bytes == trailers) {
    TakeInput(trailers - kEmptyLine);
    bytes = framed_ = kEmptyLine;
  }
}

bool ServerSession::PumpBody() noexcept {
  if (body_ != BodyState::kFlowing || blocked_) return false;
  size_t bytes = 0;
  bool last = false;
  if (!FrameBody(bytes, last)) {
    // Part of it may be with the upstream already: the service must not end it well.
    close_after_ = true;
    server_.service_.OnGone(*this);
    if (started_) {
      Abort();
    } else {
      Refuse(400, "the chunked coding of the body is broken");
    }
    return false;
  }
  DropTrailers(bytes, last);
  // While part of an answer is unsent, the timer is that of the client's reading.
  if (bytes == 0 && !last) {
    if (out_.empty()) Arm(body_pace_);
    return false;
  }
  const uint64_t serial = serial_;
  const std::string_view raw = input_.substr(0, bytes);
  // Taken before the call, as the service may finish the request in it.
  TakeInput(bytes);
  if (framing_ == wire::BodyFraming::kLength) {
    body_left_ -= bytes;
  } else {
    framed_ -= bytes;
  }
  if (last) {
    body_ = BodyState::kDone;
    if (out_.empty()) timer_.Disarm();
  }
  const size_t taken = server_.service_.OnBody(*this, raw, last);
  if (serial_ != serial || phase_ != Phase::kRequest) return true;
  body_pace_.Add(taken, now(), server_.options_.body_timeout);
  if (taken == bytes) return true;
  ReturnInput(bytes - taken);
  if (framing_ == wire::BodyFraming::kLength) {
    body_left_ += bytes - taken;
  } else {
    framed_ += bytes - taken;
  }
  body_ = BodyState::kFlowing;
  blocked_ = true;
  if (out_.empty()) timer_.Disarm();
  return false;
}

// Throws away the rest of a body whose request was answered.
bool ServerSession::PumpSkip() noexcept {
  size_t bytes = 0;
  bool last = false;
  if (!FrameBody(bytes, last)) {
    EndConnection();
    return false;
  }
  TakeInput(bytes);
  discarded_ += bytes;
  if (framing_ == wire::BodyFraming::kLength) {
    body_left_ -= bytes;
  } else {
    framed_ -= bytes;
  }
  if (!last) {
    if (discarded_ > base::kRefusedBodyDrainMax) EndConnection();
    return false;
  }
  body_ = BodyState::kDone;
  phase_ = Phase::kIdle;
  Arm(server_.options_.idle_timeout);
  return true;
}

bool ServerSession::PumpTunnel() noexcept {
  if (blocked_ || input_.empty()) return false;
  const std::string_view raw = input_;
  TakeInput(raw.size());
  const size_t taken = server_.service_.OnTunnel(*this, raw);
  if (phase_ != Phase::kTunnel || taken == raw.size()) return false;
  ReturnInput(raw.size() - taken);
  blocked_ = true;
  return false;
}

void ServerSession::TakeInput(size_t bytes) noexcept {
  if (!in_.empty() && in_.view().data() == input_.data()) in_.Consume(bytes);
  input_.remove_prefix(bytes);
}

void ServerSession::ReturnInput(size_t bytes) noexcept {
  if (in_.borrowed() && in_.view().data() == input_.data()) in_.Unconsume(bytes);
  input_ = {input_.data() - bytes, input_.size() + bytes};
}

void ServerSession::StartBody() noexcept {
  if (body_ != BodyState::kUnread) return;
  body_ = BodyState::kFlowing;
  body_pace_.Begin(now(), server_.options_.body_timeout);
  if (expects_continue_ && arrived().empty()) {
    expects_continue_ = false;
    const bool started = started_;
    Write("HTTP/1.1 100 Continue\r\n\r\n");
    started_ = started;
    continue_sent_ = true;
  }
  if (pumping_) return;
  if (in_.empty()) Arm(body_pace_);
  Continue();
}

void ServerSession::ResumeInput() noexcept {
  // The client was not waited for meanwhile.
  if (std::exchange(blocked_, false)) body_pace_.Begin(now(), server_.options_.body_timeout);
  Continue();
}

bool ServerSession::BodyCanBeSkipped() const noexcept {
  if (body_ == BodyState::kDone) return true;
  if (expects_continue_) return false;  // nobody knows whether it will be sent
  if (framing_ == wire::BodyFraming::kLength) return body_left_ <= base::kRefusedBodyDrainMax;
  wire::ChunkedDecoder probe = chunked_;
  return probe.Feed(arrived().substr(framed_)).status == wire::ParseStatus::kDone;
}

bool ServerSession::keep_alive() const noexcept {
  return client_keeps_alive_ && !close_after_ && !server_.draining_ && BodyCanBeSkipped();
}

// --- ends

void ServerSession::FinishResponse(bool keep_alive) noexcept {
  if (phase_ != Phase::kRequest && phase_ != Phase::kTunnel) return;
  ++answered_this_turn_;
  context_ = nullptr;
  if (!keep_alive || close_after_ || !BodyCanBeSkipped()) {
    EndConnection();
  } else if (body_ == BodyState::kDone) {
    phase_ = Phase::kIdle;
    Arm(server_.options_.idle_timeout);
  } else {
    phase_ = Phase::kSkip;
    discarded_ = 0;
    Arm(server_.options_.body_timeout);
  }
  Continue();
}

// No further request: what is unsent goes out, then the connection ends.
void ServerSession::EndConnection() noexcept {
  phase_ = Phase::kFlush;
  Arm(server_.options_.write_timeout);
  if (!pumping_ && out_.empty()) OnFlushed();
}

// Closing a socket that holds unread bytes resets it, and a reset can destroy the
// answer before the client has read it.
void ServerSession::StartLinger() noexcept {
  phase_ = Phase::kLinger;
  discarded_ = 0;
  net::ShutdownWrites(fd_.get());
  Arm(server_.options_.linger);
  Continue();
}

void ServerSession::Abort() noexcept {
  if (phase_ == Phase::kFree) return;
  net::ResetOnClose(fd_.get());
  Close();
}

void ServerSession::Gone() noexcept {
  if (phase_ == Phase::kFree) return;
  if (phase_ == Phase::kRequest || phase_ == Phase::kTunnel) {
    Bump<uint64_t>(server_.counters_.aborted);
    server_.service_.OnGone(*this);
  }
  Close();
}

bool ServerSession::EndIfLeft() noexcept {
  if (!peer_closed_ && !net::PeerClosed(fd_.get())) return false;
  Gone();
  return true;
}

void ServerSession::Close() noexcept {
  if (phase_ == Phase::kFree) return;
  phase_ = Phase::kFree;
  ++serial_;
  timer_.Disarm();
  fd_.Close();
  server_.Unlink(*this);
  server_.loop_.Retire(*this);
}

void ServerSession::StartTunnel() noexcept {
  phase_ = Phase::kTunnel;
  blocked_ = false;
  timer_.Disarm();
  Continue();
}

void ServerSession::EndTunnel() noexcept {
  if (phase_ != Phase::kTunnel) return;
  context_ = nullptr;
  EndConnection();
}

net::Address ServerSession::LocalAddress() const noexcept {
  return net::LocalAddress(fd_.get());
}

}  // namespace flowguard::http
