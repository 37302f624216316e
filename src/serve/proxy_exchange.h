// SPDX-License-Identifier: Apache-2.0
//
// One request on its way through the gateway: the decision, the wait, the upstream
// connection, and the bytes in both directions.  Holds at most one head and what one
// side has not taken yet; bodies are never gathered.
//
//   kDeciding ─► kAsking (store) ─► kParked ─► kConnecting ─► kRelaying ─► (kTunnel)
//
// Threads: the loop's.  Memory: about 5 KiB, most of it the attempt; used again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/attempt.h"
#include "engine/engine.h"
#include "http/buffer_pool.h"
#include "http/server_session.h"
#include "net/loop.h"
#include "serve/status.h"
#include "serve/upstream_pool.h"
#include "wire/http1.h"
#include "wire/http1_chunked.h"
#include "wire/http1_writer.h"

namespace flowguard::serve {

class Gateway;

class ProxyExchange final : public UpstreamUser {
 public:
  ProxyExchange(Gateway& gateway, uint32_t index) noexcept;

  void Start(http::ServerSession& session, const wire::RequestHead& head) noexcept;

  // --- the decision (proxy_exchange_decision.cc)

  // Decides about `head`, which the gateway's view has been pointed at, and goes on.
  void Decide(const wire::RequestHead& head) noexcept;
  // Answers the question for the status page, when the store has told what it counts.
  void AnswerStatus(const wire::RequestHead& head) noexcept;
  // Passes the request on undecided.
  void Exempt(const wire::RequestHead& head) noexcept { Forward(head); }
  // The store answered `ticket`.  False: nobody waits for that one any more.
  bool OnStoreAnswer(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept;
  // Every answer of the store to the abandoned `ticket` has been seen.
  void OnAbandoned(uint64_t ticket) noexcept;
  // The gateway drains: nobody waits any more.
  void RefuseParked() noexcept;
  // The gateway is destroyed: gives back what is held, and touches no session.
  void EndAtShutdown() noexcept;
  [[nodiscard]] bool parked() const noexcept { return stage_ == Stage::kParked; }
  // Not decided yet, or not its turn.
  [[nodiscard]] bool waits() const noexcept { return parked() || stage_ == Stage::kAsking; }

  // --- the client's side

  size_t OnBody(std::string_view raw, bool last) noexcept;
  void OnClientDrained() noexcept;
  void OnClientGone() noexcept;
  size_t OnTunnel(std::string_view raw) noexcept;
  void OnTunnelEnd() noexcept;

  // --- the upstream's side

  void OnUpstreamReady(net::Ready ready) noexcept override;
  void OnUpstreamTimeout() noexcept override;

 private:
  friend class Gateway;

  enum class Stage : uint8_t {
    kFree,
    kDeciding,
    kAsking,    // the store was asked
    kOrphaned,  // the client left while the store was asked
    kParked,    // waits for its turn
    kConnecting,
    kRelaying,
    kTunnel,
  };
  static constexpr size_t kReadBytesMin = 64 * 1024;   // of an answer at once
  static constexpr size_t kReadBehindHead = 4 * 1024;  // more of a head that is not whole

  enum class Failure : uint8_t { kConnect, kTimeout, kReset, kGarbage };

  // decision
  void Ask() noexcept;
  void SendStatus(int status, std::string_view body) noexcept;
  void AbandonTake() noexcept;
  void PassDues() noexcept;
  void Decided(const wire::RequestHead& head) noexcept;
  void Park() noexcept;
  void RefuseOverload(Decision decision) noexcept;
  void AnswerDegraded() noexcept;
  [[nodiscard]] std::string& AnswerRoom() noexcept;
  void SendAnswer(bool keep) noexcept;
  void OnTimer() noexcept;
  void OnWaited() noexcept;
  void Refuse(const Decision& decision) noexcept;
  void KeepHead() noexcept;
  const wire::RequestHead& KeptHead() noexcept;

  // Functions that say `alive` return false when the exchange ended in them: then
  // nothing here may be touched any more.

  // request
  void Forward(const wire::RequestHead& head) noexcept;
  std::string_view WriteRequestHead(const wire::RequestHead& head) noexcept;  // empty: no room
  [[nodiscard]] bool PassesOn(const wire::Header& line, bool trusted) const noexcept;
  void AddForwardedFor(const wire::RequestHead& head, bool trusted, wire::HeadWriter& out) noexcept;
  void ResumeSending() noexcept;
  void Connect(bool fresh) noexcept;
  void SendRequest() noexcept;
  bool SendKept() noexcept;  // alive
  void OnTaken(size_t bytes, bool whole, bool last) noexcept;
  void OnSendError() noexcept;
  [[nodiscard]] bool WaitsForUpstream() const noexcept;
  void ArmResponseTimeout() noexcept;

  // response
  void ReadResponse() noexcept;
  bool ReadOnce() noexcept;                                   // alive, and more may be there
  bool TakeHeads(std::string_view bytes) noexcept;            // alive
  bool PassInterim(const wire::ResponseHead& head) noexcept;  // alive
  void PassHead(const wire::ResponseHead& head, std::string_view rest) noexcept;
  std::string_view WriteResponseHead(const wire::ResponseHead& head) noexcept;
  void ReadActualCosts(const wire::ResponseHead& head) noexcept;
  void PassBody(std::string_view head, std::string_view bytes) noexcept;
  std::string_view FrameBody(std::string_view bytes, bool& end, bool& good) noexcept;
  bool PassDecoded(std::string_view bytes, bool& end) noexcept;
  void KeepResponse(std::string_view bytes) noexcept;
  void OnResponseEnd() noexcept;
  void OnUpstreamEnd() noexcept;
  void BeginTunnel(const wire::ResponseHead& head, std::string_view rest) noexcept;
  void ArmTunnelTimeout() noexcept;

  // ends
  // `ours`: the upstream has no part in it.
  void Fail(Failure failure, bool ours = false) noexcept;
  void CountFailure(Failure failure) noexcept;
  [[nodiscard]] bool CanRetry(Failure failure, bool reused) const noexcept;
  void Settle(std::optional<Outcome> outcome) noexcept;  // unset: it was never sent
  // What the upstream has come to, with the time that it alone took: what the client takes
  // for its body, or for the answer's, is not the upstream's doing.
  void TellBreakers(Outcome outcome) noexcept;
  void DropUpstream(bool reusable) noexcept;
  void Finish() noexcept;

  Gateway& gateway_;
  Stage stage_ = Stage::kFree;
  wire::Method method_ = wire::Method::kOther;
  bool wants_upgrade_ = false;
  bool body_taken_ = false;  // bytes of the request's body are with an upstream
  bool head_done_ = false;   // the final answer's head was passed on
  bool heard_ = false;       // the upstream sent something
  bool decode_ = false;      // an HTTP/1.0 client gets the chunks unpacked
  bool keep_client_ = false;
  bool keep_upstream_ = false;
  bool surplus_ = false;       // the upstream sent more than its answer
  bool server_error_ = false;  // the answer was 5xx
  bool write_broken_ = false;  // the upstream takes no more of the request
  bool send_blocked_ = false;  // it took less of it than it was offered
  bool half_closed_ = false;   // the client of the tunnel sends no more
  bool admitted_ = false;      // counted as in flight
  bool given_up_ = false;      // the store was told that nobody waits
  Instant decided_at_{};       // of the answer that the engine gave last
  Instant asked_at_{};         // since when it is the upstream's turn, where it is
  wire::BodyFraming framing_ = wire::BodyFraming::kNone;
  wire::ChunkedDecoder chunked_;
  uint64_t left_ = 0;      // kLength: bytes of the answer's body to come
  size_t sent_ = 0;        // of request_
  uint64_t tried_ = 0;     // addresses, as bits
  int retries_ = 0;        // connections to other addresses after a first failed
  size_t interims_ = 0;    // 1xx answers of the upstream
  size_t read_bytes_ = 0;  // how much to read at once
  size_t head_scanned_ = 0;
  http::ServerSession* session_ = nullptr;
  UpstreamConnection* upstream_ = nullptr;
  http::Buffer request_;   // the head as sent, kept for a retry; or the head that waits
  http::Buffer response_;  // part of an answer's head
  uint64_t ticket_ = 0;    // use of this object << 32 | its index
  net::Timer wait_;
  std::optional<StatusAnswer> status_;  // this is a question for the status page
  engine::Attempt attempt_;
};

}  // namespace flowguard::serve
