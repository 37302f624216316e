// SPDX-License-Identifier: Apache-2.0
#include "http/handler_service.h"

#include "http/server_session.h"

namespace flowguard::http {

HandlerService::HandlerService(Handler& handler, size_t body_bytes_max)
    : handler_(handler),
      body_bytes_max_(body_bytes_max),
      head_(std::make_unique<wire::RequestHead>()) {}

HandlerService::~HandlerService() = default;

void HandlerService::OnRequest(ServerSession& session, const wire::RequestHead& head) noexcept {
  if (head.body == wire::BodyFraming::kNone) return Call(session, head, {});
  if (head.content_length > body_bytes_max_) {
    return session.Refuse(413, "the body is too large for this server");
  }
  Gathering* const gathering = Borrow();
  gathering->raw_head.assign(session.raw_head());
  gathering->is_chunked = head.body == wire::BodyFraming::kChunked;
  session.set_context(gathering);
  session.StartBody();
}

size_t HandlerService::OnBody(ServerSession& session, std::string_view raw, bool last) noexcept {
  auto* const gathering = static_cast<Gathering*>(session.context());
  std::string_view rest = raw;
  while (gathering->is_chunked && !rest.empty()) {
    const wire::ChunkedDecoder::Piece piece = gathering->chunked.Next(rest);
    gathering->body.append(piece.data);
    rest.remove_prefix(piece.taken);
    if (piece.taken == 0) break;
  }
  if (!gathering->is_chunked) gathering->body.append(raw);
  if (gathering->body.size() > body_bytes_max_) {
    Return(gathering);
    session.Refuse(413, "the body is too large for this server");
    return raw.size();
  }
  if (last) {
    // The head was whole and good before; its bytes have moved.
    (void)wire::ParseRequestHead(gathering->raw_head, 0, *head_);
    Call(session, *head_, gathering->body);
    Return(gathering);
  }
  return raw.size();
}

void HandlerService::OnGone(ServerSession& session) noexcept {
  if (session.context() == nullptr) return;
  // Whole requests are with the handler, others are being gathered.
  if (session.body_done()) return handler_.OnGone(session.context());
  Return(static_cast<Gathering*>(session.context()));
}

// A whole request that has no answer yet is one whose answer was deferred.
bool HandlerService::Waits(const ServerSession& session) const noexcept {
  return session.body_done();
}

void HandlerService::Call(ServerSession& session, const wire::RequestHead& head,
                          std::string_view body) noexcept {
  session.set_context(nullptr);
  Responder responder(session);
  handler_.Handle(head, body, session.peer(), responder);
  if (!responder.answered()) session.Refuse(500, "the server gave no answer");
}

HandlerService::Gathering* HandlerService::Borrow() {
  if (free_.empty()) free_.push_back(std::make_unique<Gathering>());
  Gathering* const gathering = free_.back().release();
  free_.pop_back();
  return gathering;
}

void HandlerService::Return(Gathering* gathering) noexcept {
  gathering->body.clear();
  gathering->raw_head.clear();
  gathering->chunked.Reset();
  free_.emplace_back(gathering);
}

}  // namespace flowguard::http
