// SPDX-License-Identifier: Apache-2.0
//
// The answer's way back: heads are rewritten, bodies pass through as they are framed,
// and an answer that ends too early ends the client's connection visibly.
#include <algorithm>
#include <charconv>

#include "base/bounds.h"
#include "http/fields.h"
#include "serve/gateway.h"
#include "serve/proxy_exchange.h"
#include "serve/rate_headers.h"
#include "wire/http1_writer.h"

namespace flowguard::serve {
namespace {

using http::Bump;

// A count of units, as digits alone; one beyond kCostMax is kCostMax.  -1: it is none.
int64_t UnitsOf(const http::FieldValue& field) noexcept {
  const std::string_view text = field.value;
  if (field.status != http::FieldStatus::kFound || text.empty()) return -1;
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return -1;
  int64_t units = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), units);
  return end.ec == std::errc() ? std::min(units, base::kCostMax) : base::kCostMax;
}

// What a status says of the upstream.  It answers 429 to a caller that asks too much, be it
// well or not.
Outcome OutcomeOf(int status) noexcept {
  if (status == 429) return Outcome::kIgnoredError;
  return status >= 500 ? Outcome::kError : Outcome::kOk;
}

}  // namespace

void ProxyExchange::ReadResponse() noexcept {
  const uint64_t use = ticket_;
  while (upstream_->readable() && session_->unsent() == 0) {
    if (!ReadOnce() || use != ticket_) return;
  }
  // Now the client is what everything waits for, and its session keeps that time.
  if (session_->unsent() > 0) upstream_->DisarmTimeout();
}

bool ProxyExchange::ReadOnce() noexcept {
  const bool behind = !response_.empty();
  char* const into = behind ? response_.Reserve(session_->server().buffers(), kReadBehindHead)
                            : gateway_.scratch_.get();
  const size_t room = behind ? response_.room() : read_bytes_;
  const net::IoResult got = net::Receive(upstream_->fd(), {into, room});
  switch (got.status) {
    case net::IoStatus::kOk:
      break;
    case net::IoStatus::kWouldBlock:
      upstream_->set_readable(false);
      return false;
    case net::IoStatus::kEnd:
      OnUpstreamEnd();
      return false;
    case net::IoStatus::kError:
      Fail(Failure::kReset);
      return false;
  }
  // Edge-triggered: a short read means that the socket is empty, unless its end is
  // still to be read.
  upstream_->set_readable(got.bytes == room || upstream_->peer_closed());
  heard_ = true;
  if (stage_ == Stage::kTunnel) {
    ArmTunnelTimeout();
    session_->Write({into, got.bytes});
    return true;
  }
  if (!head_done_) {
    // The clock of a head that is not whole runs on, as it does under interim answers.
    if (behind) response_.Commit(got.bytes);
    return TakeHeads(behind ? response_.view() : std::string_view(into, got.bytes));
  }
  if (WaitsForUpstream()) ArmResponseTimeout();
  const uint64_t use = ticket_;
  PassBody({}, {into, got.bytes});
  if (use != ticket_) return false;
  // Large steps for clients that keep up, small ones for those that do not.
  if (session_->unsent() > 0) {
    read_bytes_ = kReadBytesMin;
  } else if (got.bytes == room) {
    read_bytes_ = std::min(2 * read_bytes_, Gateway::kScratchBytes);
  }
  return true;
}

bool ProxyExchange::TakeHeads(std::string_view bytes) noexcept {
  wire::ResponseHead& head = *gateway_.response_head_;
  const bool to_head = method_ == wire::Method::kHead;
  while (true) {
    switch (wire::ParseResponseHead(bytes, head_scanned_, to_head, head)) {
      case wire::ParseStatus::kNeedMore:
        head_scanned_ = bytes.size();
        KeepResponse(bytes);
        return true;
      case wire::ParseStatus::kBad:
        Fail(Failure::kGarbage);
        return false;
      case wire::ParseStatus::kDone:
        break;
    }
    head_scanned_ = 0;
    bytes.remove_prefix(head.consumed);
    if (head.status >= 200) break;
    if (head.status == 101) {
      const wire::Header* const to = head.headers.Find(wire::KnownHeader::kUpgrade);
      if (!wants_upgrade_ || to == nullptr || !wire::EqualsIgnoreCase(to->value, "websocket")) {
        Fail(Failure::kGarbage);
        return false;
      }
      BeginTunnel(head, bytes);
      return false;
    }
    if (!PassInterim(head)) return false;
    if (bytes.empty()) {
      response_.Release();
      return true;
    }
  }
  const uint64_t use = ticket_;
  PassHead(head, bytes);
  if (use != ticket_) return false;
  response_.Release();
  return true;
}

void ProxyExchange::KeepResponse(std::string_view bytes) noexcept {
  const std::string_view kept = response_.view();
  if (!kept.empty() && bytes.data() >= kept.data() && bytes.data() <= kept.data() + kept.size()) {
    response_.Consume(kept.size() - bytes.size());
  } else {
    response_.Append(session_->server().buffers(), bytes);
  }
}

bool ProxyExchange::PassInterim(const wire::ResponseHead& head) noexcept {
  if (++interims_ > base::kInterimAnswersMax) {
    Fail(Failure::kGarbage);
    return false;
  }
  // HTTP/1.0 does not know them, and one "100 Continue" is enough.
  if (head.status != 100 && head.status != 103) return true;
  if (session_->minor_version() == 0) return true;
  if (head.status == 100 && session_->continue_sent()) return true;
  wire::HeadWriter out({gateway_.head_room_.get(), Gateway::kHeadRoomBytes});
  out.StatusLine(head.status, head.reason);
  for (const wire::Header& line : head.headers.all()) {
    if (!line.hop_by_hop && line.known != wire::KnownHeader::kContentLength) out.Forward(line);
  }
  out.End();
  if (out.ok()) session_->Write(out.view());
  return true;
}

void ProxyExchange::PassHead(const wire::ResponseHead& head, std::string_view rest) noexcept {
  head_done_ = true;
  if (WaitsForUpstream()) ArmResponseTimeout();
  server_error_ = head.status >= 500;
  TellBreakers(OutcomeOf(head.status));
  framing_ = head.body;
  left_ = head.content_length;
  chunked_.Reset();
  keep_upstream_ = head.keep_alive;
  decode_ = framing_ == wire::BodyFraming::kChunked && session_->minor_version() == 0;
  keep_client_ = session_->keep_alive() && framing_ != wire::BodyFraming::kUntilClose && !decode_;
  gateway_.pool_.ReportSuccess(upstream_->endpoint());
  gateway_.CountResponse(head.status);
  if (admitted_) ReadActualCosts(head);
  const std::string_view text = WriteResponseHead(head);
  if (text.empty()) {
    head_done_ = false;
    return Fail(Failure::kGarbage);
  }
  PassBody(text, rest);
}

// Rules that find no number keep what they reserved.
void ProxyExchange::ReadActualCosts(const wire::ResponseHead& head) noexcept {
  bool unknown = false;
  for (size_t hold = 0; hold < attempt_.hold_count(); ++hold) {
    const std::string_view name = attempt_.settle_header(hold);
    if (name.empty()) continue;
    const http::FieldValue field =
        http::FindHeader(head.headers, name, http::RepeatedLines::kAmbiguous, {});
    const int64_t units = UnitsOf(field);
    unknown = unknown || units < 0;
    if (units >= 0) attempt_.set_actual_cost(hold, units);
  }
  if (unknown) Bump<uint64_t>(gateway_.counters_.cost_unknown);
}

std::string_view ProxyExchange::WriteResponseHead(const wire::ResponseHead& head) noexcept {
  const RateHeaderOptions& rate = gateway_.options_.refusal.rate_headers;
  const bool ours = rate.on_success && admitted_ && attempt_.decision().rule != nullptr;
  wire::HeadWriter out({gateway_.head_room_.get(), Gateway::kHeadRoomBytes});
  out.StatusLine(head.status, head.reason);
  for (const wire::Header& line : head.headers.all()) {
    if (line.hop_by_hop) continue;
    if (line.known == wire::KnownHeader::kContentLength && framing_ != wire::BodyFraming::kNone) {
      continue;
    }
    if (ours && IsRateHeader(line.name)) continue;
    out.Forward(line);
  }
  if (framing_ == wire::BodyFraming::kLength) out.Add("Content-Length", head.content_length);
  if (framing_ == wire::BodyFraming::kChunked && !decode_) {
    out.AddLine("Transfer-Encoding", "chunked");
  }
  if (ours) {
    gateway_.text_.clear();
    AppendRateHeaders(attempt_.decision(), rate, gateway_.text_);
    out.Raw(gateway_.text_);
  }
  if (gateway_.options_.refusal.decided_at && admitted_) {
    gateway_.text_.clear();
    AppendDecidedAt(decided_at_, attempt_.store_time_us(), gateway_.text_);
    out.Raw(gateway_.text_);
  }
  if (!keep_client_) out.AddLine("Connection", "close");
  out.End();
  return out.ok() ? out.view() : std::string_view();
}

void ProxyExchange::PassBody(std::string_view head, std::string_view bytes) noexcept {
  bool end = false;
  bool good = true;
  if (decode_) {
    if (!head.empty()) session_->Write(head);
    good = PassDecoded(bytes, end);
  } else {
    const std::string_view framed = FrameBody(bytes, end, good);
    surplus_ = surplus_ || framed.size() < bytes.size();
    session_->Write(head, framed);
  }
  if (!good) return Fail(Failure::kGarbage);
  if (end) OnResponseEnd();
}

// The part of `bytes` that belongs to the answer.
std::string_view ProxyExchange::FrameBody(std::string_view bytes, bool& end, bool& good) noexcept {
  switch (framing_) {
    case wire::BodyFraming::kNone:
      end = true;
      return {};
    case wire::BodyFraming::kLength: {
      const auto size = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
      left_ -= size;
      end = left_ == 0;
      return bytes.substr(0, size);
    }
    case wire::BodyFraming::kChunked: {
      const wire::ChunkedDecoder::Piece piece = chunked_.Feed(bytes);
      good = piece.status != wire::ParseStatus::kBad;
      end = piece.status == wire::ParseStatus::kDone;
      return bytes.substr(0, piece.taken);
    }
    case wire::BodyFraming::kUntilClose:
      return bytes;
  }
  return {};
}

// Sends the data inside of the chunks.  False: the coding is broken.
bool ProxyExchange::PassDecoded(std::string_view bytes, bool& end) noexcept {
  while (!bytes.empty() && !end) {
    const wire::ChunkedDecoder::Piece piece = chunked_.Next(bytes);
    if (piece.status == wire::ParseStatus::kBad) return false;
    if (!piece.data.empty()) session_->Write(piece.data);
    bytes.remove_prefix(piece.taken);
    end = piece.status == wire::ParseStatus::kDone;
  }
  surplus_ = surplus_ || !bytes.empty();
  return true;
}

void ProxyExchange::OnResponseEnd() noexcept {
  const bool request_over = session_->body_done() && sent_ == request_.size() && !write_broken_;
  const bool reusable = keep_upstream_ && !surplus_ && request_over && !upstream_->readable();
  Settle(server_error_ ? Outcome::kError : Outcome::kOk);
  DropUpstream(reusable);
  http::ServerSession* const session = session_;
  const bool keep = keep_client_;
  Finish();
  session->FinishResponse(keep);
}

void ProxyExchange::OnUpstreamEnd() noexcept {
  if (stage_ == Stage::kTunnel) {
    http::ServerSession* const session = session_;
    Settle(Outcome::kOk);
    DropUpstream(false);
    Finish();
    return session->EndTunnel();
  }
  if (!head_done_ || framing_ != wire::BodyFraming::kUntilClose) return Fail(Failure::kReset);
  keep_upstream_ = false;
  OnResponseEnd();
}

// --- upgraded connections

void ProxyExchange::BeginTunnel(const wire::ResponseHead& head, std::string_view rest) noexcept {
  Bump<uint64_t>(gateway_.counters_.tunnels);
  gateway_.CountResponse(101);
  wire::HeadWriter out({gateway_.head_room_.get(), Gateway::kHeadRoomBytes});
  out.StatusLine(head.status, head.reason);
  for (const wire::Header& line : head.headers.all()) {
    if (!line.hop_by_hop && line.known != wire::KnownHeader::kContentLength) out.Forward(line);
  }
  out.AddLine("Connection", "Upgrade");
  if (const wire::Header* const to = head.headers.Find(wire::KnownHeader::kUpgrade)) {
    out.Forward(*to);
  }
  out.End();
  if (!out.ok()) return Fail(Failure::kGarbage);
  head_done_ = true;
  TellBreakers(Outcome::kOk);
  stage_ = Stage::kTunnel;
  ArmTunnelTimeout();
  const uint64_t use = ticket_;
  session_->Write(out.view(), rest);
  response_.Release();
  session_->StartTunnel();
  if (use == ticket_ && upstream_->readable()) ReadResponse();
}

size_t ProxyExchange::OnTunnel(std::string_view raw) noexcept {
  const net::IoResult result = net::Send(upstream_->fd(), raw.data(), raw.size());
  // A broken connection is told by the loop; until then nothing more is taken.
  if (result.status != net::IoStatus::kOk) return 0;
  ArmTunnelTimeout();
  return result.bytes;
}

void ProxyExchange::ArmTunnelTimeout() noexcept {
  const UpstreamOptions& options = gateway_.pool_.options();
  upstream_->ArmTimeout(half_closed_ ? options.tunnel_end_timeout : options.tunnel_timeout);
}

void ProxyExchange::OnTunnelEnd() noexcept {
  half_closed_ = true;
  ArmTunnelTimeout();
  net::ShutdownWrites(upstream_->fd());
}

void ProxyExchange::OnClientDrained() noexcept {
  if (stage_ != Stage::kRelaying && stage_ != Stage::kTunnel) return;
  if (stage_ == Stage::kRelaying && WaitsForUpstream()) ArmResponseTimeout();
  ReadResponse();
}

}  // namespace flowguard::serve
