// SPDX-License-Identifier: Apache-2.0
//
// What a session sends, and what it keeps while the client does not take it.
#include <array>
#include <charconv>
#include <span>

#include "http/server_session.h"
#include "wire/http1_writer.h"

namespace flowguard::http {
namespace {

void AppendNumber(uint64_t value, std::string& out) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

iovec Part(std::string_view bytes) noexcept {
  return {const_cast<char*>(bytes.data()), bytes.size()};
}

}  // namespace

void ServerSession::Write(std::string_view first, std::string_view second) noexcept {
  started_ = true;
  if (pumping_ && !server_.cork_.empty()) FlushCork();
  SendParts(first, second);
}

void ServerSession::FlushCork() noexcept {
  if (!server_.cork_.empty()) {
    SendParts(server_.cork_, {});
    server_.cork_.clear();
  }
  if (!pumping_ && phase_ == Phase::kFlush && out_.empty()) OnFlushed();
}

void ServerSession::SendParts(std::string_view first, std::string_view second) noexcept {
  if (phase_ == Phase::kFree || broken_) return;
  size_t sent = 0;
  const bool was_empty = out_.empty();
  if (was_empty) {
    const std::array<iovec, 2> parts = {Part(first), Part(second)};
    const net::IoResult result = second.empty()
                                     ? net::Send(fd_.get(), first.data(), first.size())
                                     : net::Send(fd_.get(), std::span<const iovec>(parts));
    if (result.status == net::IoStatus::kError) {
      // Told in the next turn, as the service is in the middle of writing.
      broken_ = true;
      server_.loop_.Again(*this);
      return;
    }
    sent = result.bytes;
    Bump<uint64_t>(server_.counters_.bytes_out, sent);
    if (sent == first.size() + second.size()) return;
  }
  if (sent < first.size()) {
    out_.Append(server_.buffers_, first.substr(sent));
    sent = 0;
  } else {
    sent -= first.size();
  }
  out_.Append(server_.buffers_, second.substr(sent));
  if (was_empty) {
    write_pace_.Begin(now(), server_.options_.write_timeout);
    Arm(write_pace_);
  }
}

void ServerSession::FlushOut() noexcept {
  const net::IoResult result = net::Send(fd_.get(), out_.view().data(), out_.size());
  if (result.status == net::IoStatus::kError) return Gone();
  Bump<uint64_t>(server_.counters_.bytes_out, result.bytes);
  out_.Consume(result.bytes);
  if (!out_.empty()) {
    write_pace_.Add(result.bytes, now(), server_.options_.write_timeout);
    return Arm(write_pace_);
  }
  out_.Release();
  OnFlushed();
}

// Everything that was kept is sent.
void ServerSession::OnFlushed() noexcept {
  switch (phase_) {
    case Phase::kRequest:
    case Phase::kTunnel:
      if (phase_ == Phase::kRequest && body_ == BodyState::kFlowing && !blocked_) {
        body_pace_.Begin(now(), server_.options_.body_timeout);
        Arm(body_pace_);
      } else {
        timer_.Disarm();
      }
      return server_.service_.OnDrained(*this);
    case Phase::kIdle:
      return Arm(server_.options_.idle_timeout);
    case Phase::kFlush:
      if (body_ != BodyState::kDone || !in_.empty() || readable_) return StartLinger();
      return Close();
    default:
      return;
  }
}

void ServerSession::AppendRefusal(int status, std::string_view detail, bool keep,
                                  std::string& out) noexcept {
  const std::string_view phrase = wire::ReasonPhrase(status);
  std::string& body = server_.text_;
  body.assign(R"({"status":)");
  AppendNumber(static_cast<uint64_t>(status), body);
  body.append(R"(,"title":")").append(phrase);
  body.append(R"(","detail":")").append(detail).append("\"}\n");
  out.append("HTTP/1.1 ");
  AppendNumber(static_cast<uint64_t>(status), out);
  out.append(" ").append(phrase).append("\r\n").append(server_.DateLine());
  out.append("Content-Type: application/problem+json\r\nCache-Control: no-store\r\n");
  if (!keep) out.append("Connection: close\r\n");
  out.append("Content-Length: ");
  AppendNumber(body.size(), out);
  out.append("\r\n\r\n");
  if (method_ != wire::Method::kHead || phase_ != Phase::kRequest) out.append(body);
}

void ServerSession::Refuse(int status, std::string_view detail) noexcept {
  if (phase_ == Phase::kFree) return;
  Bump<uint64_t>(server_.counters_.bad_requests);
  const bool in_request = phase_ == Phase::kRequest;
  const bool keep = in_request && keep_alive();
  if (pumping_) {
    AppendRefusal(status, detail, keep, server_.cork_);
  } else {
    std::string text;
    AppendRefusal(status, detail, keep, text);
    Write(text);
  }
  if (in_request) return FinishResponse(keep);
  // Not even the head could be read: whatever follows is not understood either.
  readable_ = true;
  EndConnection();
}

}  // namespace flowguard::http
