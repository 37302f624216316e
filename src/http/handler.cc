// SPDX-License-Identifier: Apache-2.0
#include "http/handler.h"

#include <array>
#include <charconv>

#include "base/check.h"
#include "http/server_session.h"
#include "wire/http1_writer.h"

namespace flowguard::http {
namespace {

struct Answer {
  int status;
  std::string_view content_type;
  std::string_view body;
  std::string_view extra_lines;
};

void AppendNumber(uint64_t value, std::string& out) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

bool HasBody(int status) noexcept {
  return status != 204 && status != 304;
}

void AppendAnswer(ServerSession& session, const Answer& answer, bool keep, std::string& out) {
  out.append("HTTP/1.1 ");
  AppendNumber(static_cast<uint64_t>(answer.status), out);
  out.append(" ").append(wire::ReasonPhrase(answer.status)).append("\r\n");
  out.append(session.server().DateLine());
  if (!answer.content_type.empty()) {
    out.append("Content-Type: ").append(answer.content_type).append("\r\n");
  }
  out.append(answer.extra_lines);
  if (!keep) out.append("Connection: close\r\n");
  if (HasBody(answer.status)) {
    out.append("Content-Length: ");
    AppendNumber(answer.body.size(), out);
    out.append("\r\n");
  }
  out.append("\r\n");
  if (HasBody(answer.status) && !session.head_only()) out.append(answer.body);
}

}  // namespace

Instant Responder::now() const noexcept {
  return session_.now();
}

std::string_view Responder::date_line() const noexcept {
  return session_.server().DateLine();
}

bool Responder::head_only() const noexcept {
  return session_.head_only();
}

bool Responder::keep_alive() const noexcept {
  return session_.keep_alive();
}

std::string& Responder::out() noexcept {
  return session_.cork();
}

void Responder::CloseAfter() noexcept {
  session_.CloseAfter();
}

void Responder::Send(int status, std::string_view content_type, std::string_view body,
                     std::string_view extra_lines) noexcept {
  AppendAnswer(session_, {status, content_type, body, extra_lines}, keep_alive(), out());
  Done();
}

void Responder::Done() noexcept {
  FG_DCHECK(!answered_);
  answered_ = true;
  session_.FinishResponse(session_.keep_alive());
}

Deferred Responder::Defer(void* waiter) noexcept {
  answered_ = true;
  session_.set_context(waiter);
  return Deferred(session_.ref());
}

bool Deferred::waiting() const noexcept {
  return ServerSession::IsCurrent(ref_);
}

void Deferred::Send(int status, std::string_view content_type, std::string_view body,
                    std::string_view extra_lines) noexcept {
  if (!waiting()) return;
  std::string text;
  AppendAnswer(*ref_.session, {status, content_type, body, extra_lines}, keep_alive(), text);
  SendWhole(text);
}

std::string_view Deferred::date_line() const noexcept {
  return ref_.session->server().DateLine();
}

bool Deferred::head_only() const noexcept {
  return ref_.session->head_only();
}

bool Deferred::keep_alive() const noexcept {
  return ref_.session->keep_alive();
}

void Deferred::SendWhole(std::string_view answer) noexcept {
  if (!waiting()) return;
  ServerSession& session = *ref_.session;
  if (session.corked()) {
    session.cork().append(answer);
  } else {
    session.Write(answer);
  }
  session.FinishResponse(session.keep_alive());
}

}  // namespace flowguard::http
