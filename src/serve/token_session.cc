// SPDX-License-Identifier: Apache-2.0
#include "serve/token_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bounds.h"
#include "http/server.h"
#include "serve/token_questions.h"
#include "serve/token_server.h"

namespace flowguard::serve {
namespace {

using http::Bump;
using wire::token::Question;
using wire::token::Status;
using wire::token::Type;

// Reads of a drain: what was on its way is answered, and who sends without end is not
// waited for.
constexpr int kDrainReadsMax = 4;
// A string keeps no memory of its own for so few bytes.
constexpr size_t kInPlaceBytes = 15;

}  // namespace

TokenSession::TokenSession(TokenServer& server) noexcept
    : server_(server),
      timer_([](void* self) noexcept { static_cast<TokenSession*>(self)->OnTimer(); }, this) {}

TokenSession::~TokenSession() = default;

void TokenSession::Start(net::Fd fd, const http::IpAddress& peer) noexcept {
  fd_ = std::move(fd);
  peer_ = peer;
  phase_ = Phase::kOpen;
  readable_ = peer_closed_ = behind_ = blocked_ = turn_end_asked_ = false;
  waiting_ = 0;
  pass_over_ = 0;
  server_.Link(*this);
  net::NoticeLostPeer(fd_.get());
  if (!server_.loop().Watch(fd_.get(), *this)) Close();
}

void TokenSession::OnReady(net::Ready ready) noexcept {
  if (phase_ == Phase::kFree) return;
  if (ready.broken) return Close();
  readable_ = readable_ || ready.readable;
  peer_closed_ = peer_closed_ || ready.peer_closed;
  if (ready.writable && blocked_) {
    blocked_ = false;
    Flush();
  }
  Work();
  EndIfDone();
}

void TokenSession::OnTurnEnd() noexcept {
  turn_end_asked_ = false;
  Flush();
  if (phase_ == Phase::kFree) return;
  if ((readable_ || behind_) && WantsInput()) return server_.loop().Again(*this);
  EndIfDone();
}

void TokenSession::OnRetired() noexcept {
  left_ = {};
  name_space_ = {};
  out_.Release();
  server_.Recycle(*this);
}

void TokenSession::OnTimer() noexcept {
  if (!out_.empty()) {
    Bump<uint64_t>(server_.counters().stalled);
    net::ResetOnClose(fd_.get());
  }
  Close();
}

// --- input

bool TokenSession::WantsInput() const noexcept {
  const bool open = phase_ == Phase::kOpen || (phase_ == Phase::kEnding && behind_);
  return open && out_.size() < base::kTokenUnsentMax &&
         waiting_ < base::kTokenWaitingPerConnectionMax;
}

// One read's worth; more in the next turn, so that others get their share.
void TokenSession::Work() noexcept {
  if (phase_ == Phase::kLinger) return Discard();
  if (!WantsInput()) return;
  char* const bytes = server_.input();
  size_t size = left_.size();
  if (!behind_ && !Receive(bytes + size, size)) return;
  std::memcpy(bytes, left_.data(), left_.size());
  Consume({bytes, size});
  if (!readable_ && !behind_) return;
  if (WantsInput()) {
    server_.loop().Again(*this);
  } else if (phase_ == Phase::kOpen) {
    Bump<uint64_t>(server_.counters().paused);
  }
}

// Adds what came to `bytes`.  False: nothing did.
bool TokenSession::Receive(char* into, size_t& bytes) noexcept {
  if (!readable_) return false;
  const net::IoResult got = net::Receive(fd_.get(), {into, base::kTokenReadBytes});
  switch (got.status) {
    case net::IoStatus::kOk:
      break;
    case net::IoStatus::kWouldBlock:
      readable_ = false;
      return false;
    case net::IoStatus::kEnd:
      readable_ = false;
      peer_closed_ = true;
      End();
      return false;
    case net::IoStatus::kError:
      Close();
      return false;
  }
  // Edge-triggered: a short read means that the socket is empty, unless its end is still to
  // be read.
  readable_ = got.bytes == base::kTokenReadBytes || peer_closed_;
  bytes += got.bytes;
  Bump<uint64_t>(server_.counters().bytes_in, got.bytes);
  return true;
}

void TokenSession::Consume(std::string_view input) noexcept {
  std::string& out = server_.cork();
  out.clear();
  behind_ = false;
  for (;;) {
    PassOver(input);
    const wire::token::Frame frame = wire::token::ReadFrame(input);
    if (frame.kind == wire::token::Frame::Kind::kNeedMore) break;
    if (waiting_ >= base::kTokenWaitingPerConnectionMax) {
      behind_ = true;
      break;
    }
    if (frame.kind == wire::token::Frame::Kind::kTooLong) {
      RefuseTooLong(frame.message, out);
      pass_over_ = frame.size;
      continue;
    }
    Take(frame.message, out);
    input.remove_prefix(frame.size);
  }
  if (input.size() > kInPlaceBytes || left_.capacity() <= kInPlaceBytes) {
    left_.assign(input);
  } else {
    std::string(input).swap(left_);  // gives the memory back
  }
  Send(out);
}

void TokenSession::PassOver(std::string_view& input) noexcept {
  const size_t bytes = std::min(pass_over_, input.size());
  input.remove_prefix(bytes);
  pass_over_ -= bytes;
}

void TokenSession::Take(std::string_view message, std::string& out) noexcept {
  TokenServerCounters& counters = server_.counters();
  const Question question = wire::token::ReadQuestion(message);
  Bump<uint64_t>(counters.questions);
  switch (question.fault) {
    case Question::Fault::kNone:
      if (static_cast<Type>(question.type) == Type::kPing) return TakePing(question, out);
      break;
    case Question::Fault::kNoHead:
      return Bump<uint64_t>(counters.no_head);
    case Question::Fault::kUnknownType:
      Bump<uint64_t>(counters.unknown_type);
      break;
    case Question::Fault::kBadBody:
      Bump<uint64_t>(counters.bad_body);
      break;
  }
  TokenReply reply;
  if (server_.questions().Ask(question, *this, reply)) {
    AppendReply(question.xid, question.type, reply, out);
  } else {
    ++waiting_;
  }
}

void TokenSession::TakePing(const Question& question, std::string& out) noexcept {
  TokenService& service = server_.service();
  const std::string_view wanted = question.name_space;
  if (wanted.empty()) {
    return wire::token::AppendStatus(question.xid, question.type, Status::kFail, out);
  }
  // Joined before the other is left: who pings twice is never missing.
  int32_t connected = service.Join(wanted);
  if (wanted == name_space_) --connected;
  if (!name_space_.empty()) service.Leave(name_space_);
  name_space_.assign(wanted);
  wire::token::AppendPong(question.xid, connected, out);
}

void TokenSession::RefuseTooLong(std::string_view head, std::string& out) noexcept {
  Bump<uint64_t>(server_.counters().too_long);
  const Question question = wire::token::ReadQuestion(head);
  const bool known = question.fault != Question::Fault::kUnknownType;
  AppendReply(question.xid, question.type, {.status = known ? Status::kBadRequest : Status::kFail},
              out);
}

// The client has its answers; what it sends on top has come too late.
void TokenSession::Discard() noexcept {
  for (int reads = 0; readable_ && reads < kDrainReadsMax; ++reads) {
    const net::IoResult got = net::Receive(fd_.get(), {server_.input(), base::kTokenReadBytes});
    if (got.status == net::IoStatus::kWouldBlock) {
      readable_ = false;
    } else if (got.status != net::IoStatus::kOk) {
      return Close();
    }
  }
  if (readable_) server_.loop().Again(*this);
}

// --- output

void TokenSession::Send(std::string_view bytes) noexcept {
  if (bytes.empty()) return;
  if (out_.empty()) {
    const net::IoResult sent = net::Send(fd_.get(), bytes.data(), bytes.size());
    if (sent.status == net::IoStatus::kError) return Close();
    if (sent.status == net::IoStatus::kOk) {
      Bump<uint64_t>(server_.counters().bytes_out, sent.bytes);
      bytes.remove_prefix(sent.bytes);
    }
    if (bytes.empty()) return;
    server_.loop().ArmAfter(timer_, kWriteMax);
    // Less than was asked: it becomes writable again, and the loop will say so.
    blocked_ = true;
  }
  out_.Append(server_.buffers(), bytes);
}

void TokenSession::AnswerLater(std::string_view frame) noexcept {
  --waiting_;
  out_.Append(server_.buffers(), frame);
  if (std::exchange(turn_end_asked_, true)) return;
  server_.loop().AtTurnEnd(*this);
}

void TokenSession::Flush() noexcept {
  while (!out_.empty() && !blocked_) {
    const std::string_view bytes = out_.view();
    const net::IoResult sent = net::Send(fd_.get(), bytes.data(), bytes.size());
    if (sent.status == net::IoStatus::kError) return Close();
    if (sent.status == net::IoStatus::kOk) {
      Bump<uint64_t>(server_.counters().bytes_out, sent.bytes);
      out_.Consume(sent.bytes);
    }
    blocked_ = !out_.empty();
    if (blocked_) server_.loop().ArmAfter(timer_, kWriteMax);
  }
  if (!out_.empty()) return;
  if (!out_.borrowed()) return;
  out_.Release();
  timer_.Disarm();
}

// --- ends

void TokenSession::Drain() noexcept {
  for (int reads = 0; reads < kDrainReadsMax && phase_ == Phase::kOpen; ++reads) {
    readable_ = true;  // maybe: the loop has yet to tell
    Work();
  }
  if (phase_ == Phase::kOpen) End();
}

// No more questions are taken.
void TokenSession::End() noexcept {
  phase_ = Phase::kEnding;
  EndIfDone();
}

void TokenSession::EndIfDone() noexcept {
  if (phase_ != Phase::kEnding || behind_ || waiting_ > 0 || !out_.empty()) return;
  if (peer_closed_) return Close();
  net::ShutdownWrites(fd_.get());
  phase_ = Phase::kLinger;
  server_.loop().ArmAfter(timer_, kLinger);
}

void TokenSession::Close() noexcept {
  if (phase_ == Phase::kFree) return;
  phase_ = Phase::kFree;
  ++serial_;
  if (!name_space_.empty()) server_.service().Leave(name_space_);
  timer_.Disarm();
  fd_.Close();
  server_.Unlink(*this);
  server_.loop().Retire(*this);
}

}  // namespace flowguard::serve
