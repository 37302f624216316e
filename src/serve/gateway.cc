// SPDX-License-Identifier: Apache-2.0
#include "serve/gateway.h"

#include <utility>

#include "base/hash.h"
#include "http/fields.h"
#include "http/handler.h"
#include "http/server_session.h"
#include "serve/proxy_exchange.h"

namespace flowguard::serve {
namespace {

using http::Bump;

ProxyExchange& ExchangeOf(const http::ServerSession& session) noexcept {
  return *static_cast<ProxyExchange*>(session.context());
}

}  // namespace

Gateway::Gateway(net::Loop& loop, engine::Engine& engine, const GatewayOptions& options,
                 engine::QuotaStore* store)
    : loop_(loop),
      engine_(engine),
      store_(store),
      options_(options),
      pool_(loop, options.upstreams, options.upstream),
      view_(options_.view),
      status_(engine, options_.view),
      scratch_(new char[kScratchBytes]),
      head_room_(new char[kHeadRoomBytes]),
      request_head_(std::make_unique<wire::RequestHead>()),
      response_head_(std::make_unique<wire::ResponseHead>()),
      draw_state_(base::RandomSeed()),
      server_(loop, options_.server, *this) {}

Gateway::~Gateway() {
  for (const std::unique_ptr<ProxyExchange>& exchange : exchanges_)
    exchange->EndAtShutdown();
}

void Gateway::Drain(Duration grace) noexcept {
  server_.Drain(grace);
  for (const std::unique_ptr<ProxyExchange>& exchange : exchanges_) {
    if (exchange->parked()) exchange->RefuseParked();
  }
}

void Gateway::OnRequest(http::ServerSession& session, const wire::RequestHead& head) noexcept {
  if (head.method == wire::Method::kOther && IsMiscasedMethod(head.method_text)) {
    CountResponse(400);
    return session.Refuse(400, "methods are in upper case");
  }
  if (const int status = view_.Assign(head, session.peer().ip); status != 0) {
    CountResponse(status);
    return session.Refuse(status, status == 414 ? "the target is too long"
                                                : "the path can be read in more than one way");
  }
  if (view_.path == kStatusPath) return AnswerStatus(session, head);
  ProxyExchange& exchange = Borrow();
  exchange.Start(session, head);
  if (view_.exempt()) return exchange.Exempt(head);
  exchange.Decide(head);
}

size_t Gateway::OnBody(http::ServerSession& session, std::string_view raw, bool last) noexcept {
  return ExchangeOf(session).OnBody(raw, last);
}

void Gateway::OnDrained(http::ServerSession& session) noexcept {
  if (session.context() != nullptr) ExchangeOf(session).OnClientDrained();
}

void Gateway::OnGone(http::ServerSession& session) noexcept {
  if (session.context() != nullptr) ExchangeOf(session).OnClientGone();
}

size_t Gateway::OnTunnel(http::ServerSession& session, std::string_view raw) noexcept {
  return ExchangeOf(session).OnTunnel(raw);
}

void Gateway::OnTunnelEnd(http::ServerSession& session) noexcept {
  ExchangeOf(session).OnTunnelEnd();
}

bool Gateway::Waits(const http::ServerSession& session) const noexcept {
  return session.context() != nullptr && ExchangeOf(session).waits();
}

void Gateway::OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept {
  std::vector<engine::TakeOutcome> copy(outcomes.begin(), outcomes.end());
  loop_.Post([this, ticket, copy = std::move(copy), gateway = std::weak_ptr(posted_to_)] {
    if (gateway.expired()) return;
    const auto index = static_cast<size_t>(ticket & UINT32_MAX);
    if (index < exchanges_.size()) exchanges_[index]->OnStoreAnswer(ticket, copy);
  });
}

void Gateway::AnswerStatus(http::ServerSession& session, const wire::RequestHead& head) noexcept {
  if (head.method == wire::Method::kGet || head.method == wire::Method::kHead) {
    ProxyExchange& exchange = Borrow();
    exchange.Start(session, head);
    return exchange.AnswerStatus(head);
  }
  std::string body;
  AppendProblemDocument(405, "expected GET", body);
  CountResponse(405);
  http::Responder(session).Send(405, "application/problem+json", body,
                                "Cache-Control: no-store\r\nAllow: GET, HEAD\r\n");
}

ProxyExchange& Gateway::Borrow() {
  if (free_.empty()) {
    exchanges_.push_back(
        std::make_unique<ProxyExchange>(*this, static_cast<uint32_t>(exchanges_.size())));
    free_.push_back(exchanges_.back().get());
  }
  ProxyExchange& exchange = *free_.back();
  free_.pop_back();
  return exchange;
}

void Gateway::Return(ProxyExchange& exchange) noexcept {
  free_.push_back(&exchange);
}

void Gateway::CountResponse(int status) noexcept {
  const int index = status / 100;
  if (index >= 1 && index <= 5) Bump<uint64_t>(counters_.responses[index]);
}

// xorshift64*: for spreading clients, not for secrets.
uint64_t Gateway::Draw() noexcept {
  draw_state_ ^= draw_state_ >> 12;
  draw_state_ ^= draw_state_ << 25;
  draw_state_ ^= draw_state_ >> 27;
  return draw_state_ * 0x2545F4914F6CDD1DULL;
}

}  // namespace flowguard::serve
