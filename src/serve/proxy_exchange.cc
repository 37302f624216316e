// SPDX-License-Identifier: Apache-2.0
//
// The request's way to the upstream, and how an exchange ends.  The decision is in
// proxy_exchange_decision.cc, the answer's way back in proxy_exchange_response.cc.
#include "serve/proxy_exchange.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "http/ip_address.h"
#include "serve/gateway.h"
#include "wire/http1_writer.h"

namespace flowguard::serve {
namespace {

using http::Bump;

// RFC 9110 9.2.2.
bool IsIdempotent(wire::Method method) noexcept {
  switch (method) {
    case wire::Method::kGet:
    case wire::Method::kHead:
    case wire::Method::kPut:
    case wire::Method::kDelete:
    case wire::Method::kOptions:
    case wire::Method::kTrace:
      return true;
    default:
      return false;
  }
}

// "http://host/path" without scheme and authority; "http://host?query" is "/?query", for
// which `room` is used.
std::string_view OriginForm(const wire::RequestHead& head, std::string& room) noexcept {
  if (head.form != wire::TargetForm::kAbsolute) return head.target;
  const size_t authority = head.target.find("://");
  const size_t path = head.target.find_first_of("/?", authority + 3);
  if (path == std::string_view::npos) return "/";
  if (head.target[path] == '/') return head.target.substr(path);
  room.assign("/").append(head.target.substr(path));
  return room;
}

// Lines that belong to one connection, whether Connection names them or not.
bool ConcernsConnection(wire::KnownHeader known) noexcept {
  switch (known) {
    case wire::KnownHeader::kConnection:
    case wire::KnownHeader::kKeepAlive:
    case wire::KnownHeader::kProxyConnection:
    case wire::KnownHeader::kTe:
    case wire::KnownHeader::kTransferEncoding:
    case wire::KnownHeader::kUpgrade:
      return true;
    default:
      return false;
  }
}

// Lines that proxies write and frameworks believe: another address, path or method than
// the one that the rules have seen.
bool IsClaimOfAProxy(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 9> kClaims = {
      "x-original-url",    "x-rewrite-url",    "x-http-method-override",
      "x-method-override", "x-http-method",    "true-client-ip",
      "x-client-ip",       "cf-connecting-ip", "x-cluster-client-ip"};
  return std::any_of(kClaims.begin(), kClaims.end(), [&](std::string_view claim) {
    return name.size() == claim.size() && wire::EqualsIgnoreCase(name, claim);
  });
}

// WebSocket is the one protocol that may follow.  A tunnel for another version of HTTP
// ("h2c") would carry requests that no rule sees.
bool AsksForTunnel(const wire::RequestHead& head) noexcept {
  if (!head.upgrade || head.body != wire::BodyFraming::kNone) return false;
  for (const wire::Header& line : head.headers.all()) {
    if (line.known != wire::KnownHeader::kUpgrade) continue;
    if (!wire::EqualsIgnoreCase(line.value, "websocket")) return false;
  }
  return true;
}

}  // namespace

ProxyExchange::ProxyExchange(Gateway& gateway, uint32_t index) noexcept
    : gateway_(gateway),
      ticket_(index),
      wait_([](void* self) noexcept { static_cast<ProxyExchange*>(self)->OnTimer(); }, this) {}

void ProxyExchange::Start(http::ServerSession& session, const wire::RequestHead& head) noexcept {
  session_ = &session;
  session.set_context(this);
  stage_ = Stage::kDeciding;
  method_ = head.method;
  wants_upgrade_ = AsksForTunnel(head);
  body_taken_ = head_done_ = heard_ = write_broken_ = send_blocked_ = admitted_ = false;
  surplus_ = server_error_ = given_up_ = half_closed_ = false;
  sent_ = head_scanned_ = interims_ = 0;
  tried_ = 0;
  retries_ = 0;
  read_bytes_ = kReadBytesMin;
}

// --- the request's way

void ProxyExchange::Forward(const wire::RequestHead& head) noexcept {
  const std::string_view text = WriteRequestHead(head);
  if (text.empty()) {
    Settle(std::nullopt);
    http::ServerSession* const session = session_;
    Finish();
    gateway_.CountResponse(431);
    return session->Refuse(431, "the request head does not fit once it is forwarded");
  }
  request_.Release();
  request_.Append(session_->server().buffers(), text);
  asked_at_ = gateway_.loop_.Now();
  Connect(false);
}

std::string_view ProxyExchange::WriteRequestHead(const wire::RequestHead& head) noexcept {
  const bool trusted = gateway_.options_.view.client.trusted.Contains(session_->peer().ip);
  wire::HeadWriter out({gateway_.head_room_.get(), Gateway::kHeadRoomBytes});
  out.RequestLine(head.method_text, OriginForm(head, gateway_.text_));
  // A message for an HTTP/1.1 server needs a Host, if an empty one.
  out.AddLine("Host", head.host);
  bool proto = false;
  for (const wire::Header& line : head.headers.all()) {
    if (!PassesOn(line, trusted)) continue;
    if (line.known == wire::KnownHeader::kXForwardedProto && std::exchange(proto, true)) continue;
    out.Forward(line);
  }
  // Framing is written from what was understood, never copied.
  if (head.body == wire::BodyFraming::kChunked) {
    out.AddLine("Transfer-Encoding", "chunked");
  } else if (head.headers.Has(wire::KnownHeader::kContentLength)) {
    out.Add("Content-Length", head.content_length);
  }
  AddForwardedFor(head, trusted, out);
  if (!proto) out.AddLine("X-Forwarded-Proto", "http");
  if (wants_upgrade_) {
    out.AddLine("Connection", "Upgrade");
    out.Forward(*head.headers.Find(wire::KnownHeader::kUpgrade));
  } else if (head.te_trailers) {
    out.AddLine("Connection", "TE");
    out.AddLine("TE", "trailers");
  }
  if (admitted_ && attempt_.decision().degraded) {
    gateway_.text_.clear();
    AppendDegradeMark(attempt_.decision(), gateway_.text_);
    out.Raw(gateway_.text_);
  }
  out.End();
  return out.ok() ? out.view() : std::string_view();
}

// Whether a line of the client's goes on as it came.  `trusted`: what the peer says about
// who sent the request is believed.
bool ProxyExchange::PassesOn(const wire::Header& line, bool trusted) const noexcept {
  if (gateway_.engine_.MarksBy(line.name)) return false;
  // What a rule has read is what the upstream must see: Connection may not take it away.
  if (line.hop_by_hop &&
      (ConcernsConnection(line.known) || !gateway_.engine_.ReadsHeader(line.name))) {
    return false;
  }
  switch (line.known) {
    case wire::KnownHeader::kHost:
    case wire::KnownHeader::kContentLength:
    case wire::KnownHeader::kExpect:
    case wire::KnownHeader::kTrailer:  // none is passed on
    case wire::KnownHeader::kXForwardedFor:
      return false;
    case wire::KnownHeader::kForwarded:
    case wire::KnownHeader::kXForwardedHost:
    case wire::KnownHeader::kXForwardedProto:
    case wire::KnownHeader::kXRealIp:
      return trusted;
    case wire::KnownHeader::kOther:
      break;
    default:
      return true;
  }
  if (wire::EqualsIgnoreCase(line.name, "http2-settings")) return false;
  // X-Forwarded-Port, -Prefix, -Server, -User: whatever the upstream may believe.
  constexpr std::string_view kForwarded = "x-forwarded-";
  const std::string_view begin = line.name.substr(0, kForwarded.size());
  if (wire::EqualsIgnoreCase(begin, kForwarded)) return trusted;
  if (wire::EqualsIgnoreCase(line.name, "x-forwarded")) return trusted;
  if (!trusted && IsClaimOfAProxy(line.name)) return gateway_.engine_.ReadsHeader(line.name);
  // CGI and its kin read X_Api_Key as X-Api-Key, which would evade a rule on that.
  return line.name.find('_') == std::string_view::npos || gateway_.engine_.ReadsHeader(line.name);
}

void ProxyExchange::AddForwardedFor(const wire::RequestHead& head, bool trusted,
                                    wire::HeadWriter& out) noexcept {
  std::array<char, http::kIpTextMax> text;
  const std::string_view ip = session_->peer().ip.Format(text);
  out.Raw("X-Forwarded-For: ");
  if (trusted && head.headers.Has(wire::KnownHeader::kXForwardedFor)) {
    for (const wire::Header& line : head.headers.all()) {
      if (line.known != wire::KnownHeader::kXForwardedFor || line.value.empty()) continue;
      out.Raw(line.value);
      out.Raw(", ");
    }
  }
  out.Raw(ip);
  out.Raw("\r\n");
}

void ProxyExchange::Connect(bool fresh) noexcept {
  stage_ = Stage::kConnecting;
  const UpstreamPool::Acquired acquired = gateway_.pool_.Acquire(*this, tried_, fresh);
  upstream_ = acquired.connection;
  tried_ |= uint64_t{1} << acquired.endpoint;
  if (upstream_ == nullptr) {
    // An address that fails at once has always the fewest requests in flight: unless it
    // is left out, every request goes there first.
    if (!acquired.shortage) gateway_.pool_.ReportFailure(acquired.endpoint);
    return Fail(Failure::kConnect, acquired.shortage);
  }
  if (upstream_->connected()) return SendRequest();
  Bump<uint64_t>(gateway_.counters_.upstream_connects);
}

void ProxyExchange::SendRequest() noexcept {
  Bump<uint64_t>(gateway_.counters_.upstream_requests);
  stage_ = Stage::kRelaying;
  sent_ = 0;
  heard_ = write_broken_ = send_blocked_ = false;
  upstream_->DisarmTimeout();
  // With body bytes at hand, head and body leave in one write from OnBody.
  if (session_->body_done() || session_->arrived().empty()) {
    if (!SendKept()) return;
  }
  if (session_->body_done()) return;
  const uint64_t use = ticket_;
  session_->StartBody();
  // A body that is broken, or a send that fails, has ended this exchange already.
  if (use != ticket_ || stage_ != Stage::kRelaying) return;
  // After a retry the body has been started before.  Within the session's own input
  // handling it goes on by itself.
  if (!session_->corked()) session_->ResumeInput();
}

bool ProxyExchange::SendKept() noexcept {
  const std::string_view rest = request_.view().substr(sent_);
  const net::IoResult result = net::Send(upstream_->fd(), rest.data(), rest.size());
  if (result.status == net::IoStatus::kError) {
    const uint64_t use = ticket_;
    OnSendError();
    return use == ticket_ && stage_ == Stage::kRelaying;
  }
  sent_ += result.bytes;
  OnTaken(result.bytes, sent_ == request_.size(), session_->body_done());
  return true;
}

size_t ProxyExchange::OnBody(std::string_view raw, bool last) noexcept {
  if (stage_ != Stage::kRelaying || write_broken_) return 0;
  const std::string_view head = request_.view().substr(sent_);
  const std::array<iovec, 2> parts = {iovec{const_cast<char*>(head.data()), head.size()},
                                      iovec{const_cast<char*>(raw.data()), raw.size()}};
  const net::IoResult result = net::Send(upstream_->fd(), parts);
  if (result.status == net::IoStatus::kError) {
    OnSendError();
    return 0;
  }
  const size_t of_head = std::min(result.bytes, head.size());
  const size_t of_body = result.bytes - of_head;
  sent_ += of_head;
  body_taken_ = body_taken_ || of_body > 0;
  OnTaken(result.bytes, result.bytes == head.size() + raw.size(), last);
  return of_body;
}

// The upstream took `bytes` of what it was offered; `whole`: all of it; `last`: nothing of
// the request comes behind that.
void ProxyExchange::OnTaken(size_t bytes, bool whole, bool last) noexcept {
  const bool was_blocked = std::exchange(send_blocked_, !whole);
  if (whole) asked_at_ = gateway_.loop_.Now();
  if (whole) return last ? ArmResponseTimeout() : upstream_->DisarmTimeout();
  // The client's clock stands still meanwhile: an upstream that stops reading would
  // hold the client, the connection and its place without end.
  if (bytes > 0 || !was_blocked) ArmResponseTimeout();
}

// The upstream takes no more, but may have answered before it stopped listening.
void ProxyExchange::OnSendError() noexcept {
  write_broken_ = true;
  const uint64_t use = ticket_;
  upstream_->set_readable(true);
  ReadResponse();
  if (use != ticket_ || stage_ != Stage::kRelaying) return;
  if (!heard_) return Fail(Failure::kReset);
  if (session_->unsent() == 0) ArmResponseTimeout();
}

// Whether the next step is the upstream's: to take more of the request, or to answer.
bool ProxyExchange::WaitsForUpstream() const noexcept {
  return send_blocked_ || write_broken_ || session_->body_done();
}

void ProxyExchange::ArmResponseTimeout() noexcept {
  upstream_->ArmTimeout(gateway_.pool_.options().response_timeout);
}

void ProxyExchange::OnUpstreamReady(net::Ready ready) noexcept {
  const uint64_t use = ticket_;
  if (stage_ == Stage::kConnecting) {
    if (!ready.writable && !ready.broken) return;
    if (ready.broken || !net::ConnectSucceeded(upstream_->fd())) return Fail(Failure::kConnect);
    upstream_->set_connected();
    SendRequest();
  } else if (ready.writable) {
    ResumeSending();
  }
  if (use != ticket_ || upstream_ == nullptr || !upstream_->readable()) return;
  if (stage_ == Stage::kRelaying || stage_ == Stage::kTunnel) ReadResponse();
}

void ProxyExchange::ResumeSending() noexcept {
  if (stage_ == Stage::kTunnel) return session_->ResumeInput();
  if (stage_ != Stage::kRelaying || write_broken_) return;
  if (sent_ < request_.size() && !SendKept()) return;
  if (!session_->body_done()) session_->ResumeInput();
}

void ProxyExchange::OnUpstreamTimeout() noexcept {
  if (stage_ != Stage::kTunnel) return Fail(Failure::kTimeout);
  http::ServerSession* const session = session_;
  Settle(Outcome::kOk);
  DropUpstream(false);
  Finish();
  session->Abort();
}

// --- ends

void ProxyExchange::OnClientGone() noexcept {
  const Instant now = gateway_.loop_.Now();
  switch (stage_) {
    case Stage::kAsking:
      stage_ = Stage::kOrphaned;
      session_ = nullptr;
      wait_.Disarm();
      return AbandonTake();
    case Stage::kParked:
      Bump<int64_t>(gateway_.counters_.parked, -1);
      wait_.Disarm();
      gateway_.engine_.Cancel(attempt_, now);
      PassDues();
      return Finish();
    case Stage::kTunnel:
      Settle(Outcome::kOk);
      break;
    default:
      TellBreakers(Outcome::kCancelled);
      Settle(Outcome::kCancelled);
  }
  DropUpstream(false);
  Finish();
}

void ProxyExchange::EndAtShutdown() noexcept {
  if (stage_ == Stage::kFree) return;
  wait_.Disarm();
  if (stage_ == Stage::kAsking && !given_up_) gateway_.store_->Abandon(ticket_, true);
  Settle(Outcome::kCancelled);
  gateway_.engine_.Cancel(attempt_, gateway_.loop_.Now());
  PassDues();
  DropUpstream(false);
  request_.Release();
  response_.Release();
  stage_ = Stage::kFree;
}

void ProxyExchange::CountFailure(Failure failure) noexcept {
  GatewayCounters& counters = gateway_.counters_;
  switch (failure) {
    case Failure::kConnect:
      return Bump<uint64_t>(counters.upstream_connect_failures);
    case Failure::kTimeout:
      return Bump<uint64_t>(counters.upstream_timeouts);
    case Failure::kReset:
      return Bump<uint64_t>(counters.upstream_resets);
    case Failure::kGarbage:
      return Bump<uint64_t>(counters.upstream_garbage);
  }
}

// Another connection may carry the request only when the first cannot have acted on
// it, or when acting twice is the same as once.
bool ProxyExchange::CanRetry(Failure failure, bool reused) const noexcept {
  if (body_taken_ || heard_) return false;
  if (stage_ == Stage::kConnecting) {
    if (retries_ >= gateway_.options_.upstream.retries) return false;
    const uint64_t all =
        gateway_.pool_.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << gateway_.pool_.size()) - 1;
    return tried_ != all;
  }
  return failure == Failure::kReset && reused && (sent_ == 0 || IsIdempotent(method_));
}

void ProxyExchange::Fail(Failure failure, bool ours) noexcept {
  const bool reused = upstream_ != nullptr && upstream_->reused();
  // A kept connection that died while nobody used it is nobody's fault.
  const bool stale = failure == Failure::kReset && reused && !heard_;
  if (!stale) CountFailure(failure);
  if (!stale && upstream_ != nullptr) gateway_.pool_.ReportFailure(upstream_->endpoint());
  const bool retry = CanRetry(failure, reused);
  if (!retry) TellBreakers(ours ? Outcome::kIgnoredError : Outcome::kError);
  DropUpstream(false);
  if (retry) {
    Bump<uint64_t>(gateway_.counters_.upstream_retries);
    // That connection is no address that was tried, and a fresh one is not stale again.
    if (stale) {
      tried_ = 0;
    } else {
      ++retries_;
    }
    return Connect(true);
  }
  if (stale) CountFailure(failure);
  Settle(Outcome::kError);
  http::ServerSession* const session = session_;
  const bool begun = head_done_;
  Finish();
  // What was begun cannot be taken back, only be seen to be incomplete.
  if (begun) return session->Abort();
  const bool late = failure == Failure::kTimeout;
  gateway_.CountResponse(late ? 504 : 502);
  session->Refuse(late ? 504 : 502, late ? "the upstream did not answer in time"
                                         : "the upstream could not be reached or gave no answer");
}

void ProxyExchange::Settle(std::optional<Outcome> outcome) noexcept {
  if (!admitted_) return;
  admitted_ = false;
  Bump<int64_t>(gateway_.counters_.in_flight, -1);
  const Instant now = gateway_.loop_.Now();
  outcome ? gateway_.engine_.Settle(attempt_, *outcome, std::nullopt, now)
          : gateway_.engine_.Abandon(attempt_, now);
  PassDues();
}

void ProxyExchange::TellBreakers(Outcome outcome) noexcept {
  if (!admitted_) return;
  const Instant now = gateway_.loop_.Now();
  const bool waits = stage_ == Stage::kConnecting || WaitsForUpstream();
  const Duration took = waits ? now - asked_at_ : Duration::zero();
  gateway_.engine_.TellBreakers(attempt_, outcome, took, now);
}

void ProxyExchange::DropUpstream(bool reusable) noexcept {
  if (upstream_ == nullptr) return;
  gateway_.pool_.Release(*upstream_, reusable);
  upstream_ = nullptr;
}

void ProxyExchange::Finish() noexcept {
  ticket_ += uint64_t{1} << 32;
  stage_ = Stage::kFree;
  session_ = nullptr;
  request_.Release();
  response_.Release();
  status_.reset();
  gateway_.Return(*this);
}

}  // namespace flowguard::serve
