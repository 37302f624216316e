// SPDX-License-Identifier: Apache-2.0
//
// The reverse proxy of one worker: every request is decided from its head, before an
// upstream is chosen; what is admitted streams through, what is refused is answered
// here.
//
//   http::Server ─► Gateway::OnRequest ─ engine.Begin ─┬► refuse: AppendRefusal
//                                                      ├► wait: parked on a timer
//                                                      └► go: ProxyExchange ─► UpstreamPool
//
// Invariants
//   (1) An admitted request settles exactly once, when its answer has ended, its client
//       has left, or its upstream has failed; concurrency is held until then.  A client
//       that sends no more has left only while its request waits.
//   (2) A request takes from its rules once, however many connections it needs.
//   (3) Nothing of a request reaches an upstream before its decision.
//
// Threads: the loop's, save counters() (any) and OnTaken (the store's).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"

#include "engine/engine.h"
#include "engine/quota_store.h"
#include "http/server.h"
#include "http/service.h"
#include "net/loop.h"
#include "serve/refusal.h"
#include "serve/request_view.h"
#include "serve/status.h"
#include "serve/upstream_pool.h"
#include "wire/http1.h"

namespace flowguard::serve {

class ProxyExchange;

struct GatewayOptions {
  std::vector<net::Address> upstreams;
  UpstreamOptions upstream;
  http::ServerOptions server;
  RequestViewOptions view;
  RefusalOptions refusal;
  Duration store_deadline = std::chrono::milliseconds(20);
  size_t parked_max = base::kParkedMax;
};

// Relaxed counters of one worker; those of connections and bytes towards clients are
// in http::ServerCounters.
struct GatewayCounters {
  // Answers to clients by class, [1] to [5]: ours and the upstream's.
  std::atomic<uint64_t> responses[6] = {};
  std::atomic<uint64_t> refused{0};            // by a rule
  std::atomic<uint64_t> waited{0};             // parked, ever
  std::atomic<int64_t> parked{0};              // now
  std::atomic<uint64_t> overload{0};           // would wait, but parked_max wait already
  std::atomic<uint64_t> upstream_requests{0};  // sent, first tries and retries
  std::atomic<uint64_t> upstream_connects{0};
  std::atomic<uint64_t> upstream_retries{0};
  std::atomic<uint64_t> upstream_connect_failures{0};
  std::atomic<uint64_t> upstream_timeouts{0};
  std::atomic<uint64_t> upstream_resets{0};   // closed or reset before or within an answer
  std::atomic<uint64_t> upstream_garbage{0};  // an answer that is not HTTP
  std::atomic<int64_t> in_flight{0};          // admitted and not settled
  std::atomic<uint64_t> cost_unknown{0};      // answers without the cost that a rule settles by
  std::atomic<uint64_t> tunnels{0};           // upgraded connections, ever
};

class Gateway final : public http::Service, public engine::TakeSink {
 public:
  // `loop`, `engine` and `store` (may be null) must outlive the gateway.
  // Requires: options.upstreams is not empty.
  Gateway(net::Loop& loop, engine::Engine& engine, const GatewayOptions& options,
          engine::QuotaStore* store = nullptr);
  ~Gateway() override;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Listens for clients; the bound address.
  Result<net::Address> Listen(const net::Address& address) { return server_.Listen(address); }

  // Accepts no more, refuses what is parked, lets the rest end within `grace`.
  void Drain(Duration grace) noexcept;
  [[nodiscard]] bool drained() const noexcept { return server_.drained(); }

  [[nodiscard]] const GatewayCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] const http::ServerCounters& server_counters() const noexcept {
    return server_.counters();
  }
  [[nodiscard]] const UpstreamPool& upstreams() const noexcept { return pool_; }
  [[nodiscard]] http::Server& server() noexcept { return server_; }

  // http::Service
  void OnRequest(http::ServerSession& session, const wire::RequestHead& head) noexcept override;
  size_t OnBody(http::ServerSession& session, std::string_view raw, bool last) noexcept override;
  void OnDrained(http::ServerSession& session) noexcept override;
  void OnGone(http::ServerSession& session) noexcept override;
  size_t OnTunnel(http::ServerSession& session, std::string_view raw) noexcept override;
  void OnTunnelEnd(http::ServerSession& session) noexcept override;
  [[nodiscard]] bool Waits(const http::ServerSession& session) const noexcept override;

  // engine::TakeSink
  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override;

 private:
  friend class ProxyExchange;

  static constexpr size_t kScratchBytes = 256 * 1024;
  static constexpr size_t kHeadRoomBytes = 2 * base::kHeadBytesMax;

  void AnswerStatus(http::ServerSession& session, const wire::RequestHead& head) noexcept;
  ProxyExchange& Borrow();
  void Return(ProxyExchange& exchange) noexcept;
  void CountResponse(int status) noexcept;
  [[nodiscard]] uint64_t Draw() noexcept;

  net::Loop& loop_;
  engine::Engine& engine_;
  engine::QuotaStore* const store_;
  const GatewayOptions options_;
  GatewayCounters counters_;
  UpstreamPool pool_;
  HttpRequestView view_;
  StatusPage status_;

  // What one turn of one exchange uses; nothing in them outlives the call.
  std::unique_ptr<char[]> scratch_;                  // answers are received here
  std::unique_ptr<char[]> head_room_;                // heads are written here
  std::unique_ptr<wire::RequestHead> request_head_;  // a kept head, parsed again
  std::unique_ptr<wire::ResponseHead> response_head_;
  std::string text_;

  std::vector<std::unique_ptr<ProxyExchange>> exchanges_;  // every object ever made
  std::vector<ProxyExchange*> free_;
  uint64_t draw_state_;
  // What is posted to the loop does nothing once this is gone.
  const std::shared_ptr<const bool> posted_to_ = std::make_shared<const bool>(true);

  http::Server server_;  // last: its sessions end before what they use
};

}  // namespace flowguard::serve
