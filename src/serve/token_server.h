// SPDX-License-Identifier: Apache-2.0
//
// The door that Sentinel's clients knock at: one worker's listener and connections of the
// token protocol.
//
//   Listener ─► TokenServer::OnAccept ─► TokenSession ─► TokenQuestions ─► TokenService
//
// Peers are not known by name: anyone who may connect may ask.  Bounded are the connections
// of all workers together, the bytes read of one in a turn, the answers that it does not
// take, and the questions that wait for the store; a list of networks says who may connect.
//
// Threads: the loop's, save Counters, which may be read from any thread.
// Memory:  64 KiB, and what token_session.h says of each connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/bounds.h"
#include "engine/quota_store.h"
#include "http/buffer_pool.h"
#include "http/ip_address.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/timer.h"
#include "serve/token_counters.h"
#include "serve/token_questions.h"
#include "serve/token_service.h"

namespace flowguard::serve {

class TokenSession;

inline constexpr size_t kTokenConnectionsDefault = 20'000;

struct TokenServerOptions {
  http::IpBlocks allowed;                             // networks of clients; empty: any
  size_t connections_max = kTokenConnectionsDefault;  // of all workers together
  Duration store_deadline = std::chrono::milliseconds(8);
};

// The connections that the token servers of one process have together.
// Threads: any.
using TokenConnections = std::atomic<size_t>;

class TokenServer final : public net::Acceptor {
 public:
  // All must outlive this.  `store`: of this loop; null: the service has no rules that need
  // one.
  TokenServer(net::Loop& loop, TokenService& service, const TokenServerOptions& options,
              TokenConnections& connections, engine::QuotaStore* store = nullptr);
  ~TokenServer() override;
  TokenServer(const TokenServer&) = delete;
  TokenServer& operator=(const TokenServer&) = delete;

  // Listens; the bound address (port 0: chosen by the kernel).
  Result<net::Address> Listen(const net::Address& address);

  // Accepts no more; answers what has arrived and what waits for the store, then closes
  // each connection; all that are left after `grace`.
  void Drain(Duration grace) noexcept;
  // No connection is left, and no question waits.
  [[nodiscard]] bool drained() const noexcept {
    return draining_ && open_ == 0 && questions_.waiting() == 0;
  }
  // Gives back what tokens took from the store.  Call it before that closes.
  void EndTokens() noexcept { questions_.EndTokens(); }

  [[nodiscard]] const TokenServerCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] size_t open() const noexcept { return open_; }

  void OnAccept(net::Fd fd, const net::Address& peer) noexcept override;
  void OnShed() noexcept override;

  // --- for sessions

  [[nodiscard]] net::Loop& loop() noexcept { return loop_; }
  [[nodiscard]] TokenService& service() noexcept { return service_; }
  [[nodiscard]] TokenQuestions& questions() noexcept { return questions_; }
  [[nodiscard]] TokenServerCounters& counters() noexcept { return counters_; }
  [[nodiscard]] http::BufferPool& buffers() noexcept { return buffers_; }
  // Room for one read behind what an earlier one left, and for the answers to it; nothing in
  // them outlives the call.
  [[nodiscard]] char* input() noexcept { return input_.get(); }
  [[nodiscard]] std::string& cork() noexcept { return cork_; }
  void Link(TokenSession& session) noexcept;
  void Unlink(TokenSession& session) noexcept;
  void Recycle(TokenSession& session) noexcept;

 private:
  // What one read left, which is less than another and a frame, and another read.
  static constexpr size_t kInputBytes = 2 * base::kTokenReadBytes;

  [[nodiscard]] bool TakeRoom() noexcept;
  void OnDrainTimer() noexcept;
  void Tell(std::string_view why) noexcept;

  net::Loop& loop_;
  TokenService& service_;
  const TokenServerOptions& options_;
  TokenConnections& connections_;
  TokenServerCounters counters_;
  http::BufferPool buffers_;
  std::unique_ptr<char[]> input_;
  std::string cork_;
  TokenQuestions questions_;

  std::unique_ptr<net::Listener> listener_;
  std::vector<std::unique_ptr<TokenSession>> sessions_;  // every object ever made
  std::vector<TokenSession*> free_;
  TokenSession* live_ = nullptr;
  size_t open_ = 0;

  bool draining_ = false;
  net::Timer drain_timer_;
  Instant told_until_{};  // one line a second at most
};

}  // namespace flowguard::serve
