// SPDX-License-Identifier: Apache-2.0
//
// One client connection: reads heads and bodies, keeps requests in order, writes
// answers, and ends well: an early answer is seen by the client even if its body was
// not read, and leftover body is never taken for a request.
//
// Life of a request
//   head whole ─► Service::OnRequest ─► (StartBody ─► OnBody ...) ─► Write ... ─►
//   FinishResponse ─► next request, or close
//
// Invariants
//   (1) One request at a time is with the service; further ones wait in the input.
//   (2) Between requests no buffer is borrowed.
//   (3) After OnGone or FinishResponse the service does not touch the session.
//
// Threads: the loop's.  Memory: about 300 bytes; objects are used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "flowguard/time.h"

#include "http/buffer_pool.h"
#include "http/handler.h"
#include "http/pace.h"
#include "http/server.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/socket.h"
#include "wire/http1.h"
#include "wire/http1_chunked.h"

namespace flowguard::http {

class ServerSession final : public net::Watcher {
 public:
  explicit ServerSession(Server& server) noexcept;
  ~ServerSession() override;

  // --- what the service may ask, between OnRequest and FinishResponse

  [[nodiscard]] const PeerInfo& peer() const noexcept { return peer_; }
  // The address that the client connected to.
  [[nodiscard]] net::Address LocalAddress() const noexcept;
  [[nodiscard]] net::Loop& loop() noexcept { return server_.loop_; }
  [[nodiscard]] Server& server() noexcept { return server_; }
  [[nodiscard]] Instant now() const noexcept { return server_.loop_.Now(); }
  // The bytes of the head; in OnRequest only.
  [[nodiscard]] std::string_view raw_head() const noexcept { return raw_head_; }
  [[nodiscard]] wire::Method method() const noexcept { return method_; }
  [[nodiscard]] uint8_t minor_version() const noexcept { return minor_version_; }
  [[nodiscard]] bool head_only() const noexcept { return method_ == wire::Method::kHead; }
  // The whole body is with the service, or there is none.
  [[nodiscard]] bool body_done() const noexcept { return body_ == BodyState::kDone; }
  // The connection can go on after an answer given now.
  [[nodiscard]] bool keep_alive() const noexcept;
  void CloseAfter() noexcept { close_after_ = true; }

  // The service's own pointer for this request; null at OnRequest.
  void set_context(void* context) noexcept { context_ = context; }
  [[nodiscard]] void* context() const noexcept { return context_; }
  [[nodiscard]] SessionRef ref() noexcept { return {this, serial_}; }
  [[nodiscard]] static bool IsCurrent(const SessionRef& ref) noexcept;

  // --- the request's body

  // What has arrived of the body (and perhaps of further requests behind it).
  [[nodiscard]] std::string_view arrived() const noexcept { return pumping_ ? input_ : in_.view(); }
  // Starts feeding OnBody, and sends "100 Continue" if the client waits for it.  In
  // OnRequest the feeding begins when that returns, else before this returns.
  void StartBody() noexcept;
  // The service can take more (OnBody, OnTunnel).
  void ResumeInput() noexcept;
  // "100 Continue" was sent by this side.
  [[nodiscard]] bool continue_sent() const noexcept { return continue_sent_; }

  // --- the answer

  // True while the session works through its input: then whole answers may be appended
  // to cork(), and all of them leave in one write.  Else: Write.
  [[nodiscard]] bool corked() const noexcept { return pumping_; }
  [[nodiscard]] std::string& cork() noexcept { return server_.cork_; }
  // Sends at once what the client takes and keeps the rest; OnDrained tells when that
  // is gone.
  void Write(std::string_view first, std::string_view second = {}) noexcept;
  // Bytes that the client has not taken yet.
  [[nodiscard]] size_t unsent() const noexcept { return out_.size(); }
  // The last byte of the answer was written, or stands in cork().  `keep_alive`: what
  // the answer told the client.
  void FinishResponse(bool keep_alive) noexcept;
  // For who kept a request waiting: true when its client sends no more; then OnGone was
  // called and the session has ended.  Cost: one system call.
  bool EndIfLeft() noexcept;
  // Answers with a small problem document and finishes the request.
  void Refuse(int status, std::string_view detail) noexcept;
  // Resets the connection: the client sees that the answer is not whole.  OnGone is
  // not called.
  void Abort() noexcept;

  // --- upgraded connections

  // From here on bytes go to OnTunnel and come from Write, until EndTunnel.
  void StartTunnel() noexcept;
  // The other side ended: sends what is left, then closes.
  void EndTunnel() noexcept;

 private:
  friend class Server;
  friend class Responder;
  friend class Deferred;

  enum class Phase : uint8_t {
    kFree,     // not in use
    kIdle,     // between requests, or before the first
    kHead,     // part of a head is here
    kRequest,  // with the service
    kSkip,     // answered; the rest of a small body is thrown away
    kFlush,    // answered for the last time; unsent bytes go out
    kLinger,   // waits for the client to read the last answer
    kTunnel,
  };
  enum class BodyState : uint8_t { kUnread, kFlowing, kDone };

  void Start(net::Fd fd, const net::Address& peer) noexcept;
  void OnReady(net::Ready ready) noexcept override;
  void OnRetired() noexcept override;
  void OnTimer() noexcept;

  // input
  [[nodiscard]] bool WantsInput() const noexcept;
  // A request is with the service, or part of an answer was not sent yet.
  [[nodiscard]] bool in_progress() const noexcept {
    return phase_ == Phase::kRequest || phase_ == Phase::kTunnel || !out_.empty();
  }
  void Continue() noexcept;
  void ReadInput() noexcept;
  void OnInputEnd() noexcept;
  void Pump() noexcept;
  bool PumpOnce() noexcept;
  bool PumpHead() noexcept;
  bool PumpBody() noexcept;
  bool PumpSkip() noexcept;
  bool PumpTunnel() noexcept;
  void Dispatch() noexcept;
  bool FrameBody(size_t& bytes, bool& last) noexcept;
  void DropTrailers(size_t& bytes, bool& last) noexcept;
  [[nodiscard]] bool BodyCanBeSkipped() const noexcept;
  void TakeInput(size_t bytes) noexcept;
  void ReturnInput(size_t bytes) noexcept;

  // output
  void FlushCork() noexcept;
  void SendParts(std::string_view first, std::string_view second) noexcept;
  void FlushOut() noexcept;
  void OnFlushed() noexcept;
  void AppendRefusal(int status, std::string_view detail, bool keep, std::string& out) noexcept;

  // ends
  void EndConnection() noexcept;
  void StartLinger() noexcept;
  void Gone() noexcept;
  void Close() noexcept;
  void Arm(Duration delay) noexcept { server_.loop_.ArmAfter(timer_, delay); }
  void Arm(const Pace& pace) noexcept { server_.loop_.Arm(timer_, pace.until()); }

  Server& server_;
  net::Fd fd_;
  Phase phase_ = Phase::kFree;
  BodyState body_ = BodyState::kDone;
  wire::Method method_ = wire::Method::kOther;
  wire::BodyFraming framing_ = wire::BodyFraming::kNone;
  uint8_t minor_version_ = 1;
  bool client_keeps_alive_ = false;
  bool close_after_ = false;
  bool expects_continue_ = false;
  bool continue_sent_ = false;
  bool readable_ = false;     // the socket may hold unread bytes
  bool peer_closed_ = false;  // the client sends no more
  bool fresh_ = true;         // no request yet
  bool pumping_ = false;
  bool blocked_ = false;  // the service takes no more for now
  bool started_ = false;  // part of the answer was written
  bool broken_ = false;   // sending failed
  uint16_t answered_this_turn_ = 0;
  size_t head_scanned_ = 0;
  size_t framed_ = 0;       // bytes at the front of the input that chunked_ has seen
  uint64_t body_left_ = 0;  // kLength
  uint64_t discarded_ = 0;  // of a body that nobody wants
  uint64_t serial_ = 0;
  Pace body_pace_;
  Pace write_pace_;
  wire::ChunkedDecoder chunked_;
  std::string_view input_;  // while pumping: bytes not used yet, in the scratch or in in_
  std::string_view raw_head_;
  Buffer in_;
  Buffer out_;
  void* context_ = nullptr;
  PeerInfo peer_;
  net::Timer timer_;
  ServerSession* previous_ = nullptr;
  ServerSession* next_ = nullptr;
};

}  // namespace flowguard::http
