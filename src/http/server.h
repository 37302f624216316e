// SPDX-License-Identifier: Apache-2.0
//
// One worker's HTTP/1 server: listeners, sessions, the buffers that they share, and
// the drain.
//
//   Loop ─► Listener ─► Server::OnAccept ─► ServerSession ─► Service
//
// Threads: the loop's, save Counters, which may be read from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/bounds.h"
#include "http/buffer_pool.h"
#include "http/service.h"
#include "net/listener.h"
#include "net/loop.h"

namespace flowguard::http {

class ServerSession;

struct ServerOptions {
  Duration header_timeout = std::chrono::seconds(10);  // for the whole head, not per read
  Duration idle_timeout = std::chrono::seconds(75);    // between requests
  // Without a byte of body, and without a byte taken by the client; over all of them each
  // is given a second for every base::kTransferRateMin bytes more.
  Duration body_timeout = std::chrono::seconds(30);
  Duration write_timeout = std::chrono::seconds(30);
  Duration linger = std::chrono::seconds(2);      // for the client to read a last answer
  Duration drain_idle = std::chrono::seconds(1);  // idle connections live this long into a drain
  size_t connections_max = base::kConnectionsMax;
};

// Relaxed counters of one worker.
struct ServerCounters {
  std::atomic<uint64_t> connections{0};   // accepted, ever
  std::atomic<int64_t> open{0};           // now
  std::atomic<uint64_t> shed{0};          // refused: too many connections, or no descriptor
  std::atomic<uint64_t> requests{0};      // heads that were whole
  std::atomic<uint64_t> bad_requests{0};  // answered 4xx/5xx by the session itself
  std::atomic<uint64_t> timeouts{0};      // slow heads, bodies and readers
  std::atomic<uint64_t> aborted{0};       // clients that left before their answer's end
  std::atomic<uint64_t> cut_off{0};       // requests that the end of a drain broke off
  std::atomic<uint64_t> bytes_in{0};
  std::atomic<uint64_t> bytes_out{0};
};

// Adds to a counter that only this thread writes: no locked instruction.
template <typename T>
inline void Bump(std::atomic<T>& counter, T by = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

class Server final : public net::Acceptor {
 public:
  // `loop` and `service` must outlive the server.
  Server(net::Loop& loop, const ServerOptions& options, Service& service);
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Listens; the bound address (port 0: chosen by the kernel).  May be called for
  // several addresses.
  Result<net::Address> Listen(const net::Address& address);

  // Accepts no more; the next answer on every connection closes it, idle ones are
  // closed after drain_idle, everything that is left after `grace`; what was in progress
  // then is counted as cut off.
  void Drain(Duration grace) noexcept;
  [[nodiscard]] bool draining() const noexcept { return draining_; }
  // No connection is left.
  [[nodiscard]] bool drained() const noexcept { return draining_ && open_ == 0; }

  [[nodiscard]] net::Loop& loop() noexcept { return loop_; }
  [[nodiscard]] const ServerOptions& options() const noexcept { return options_; }
  [[nodiscard]] const ServerCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] size_t open() const noexcept { return open_; }
  [[nodiscard]] BufferPool& buffers() noexcept { return buffers_; }

  // A Date line with its CRLF, good for this second.
  [[nodiscard]] std::string_view DateLine() noexcept;

  void OnAccept(net::Fd fd, const net::Address& peer) noexcept override;
  void OnShed() noexcept override;

 private:
  friend class ServerSession;

  static constexpr size_t kScratchBytes = 64 * 1024;

  void Link(ServerSession& session) noexcept;
  void Unlink(ServerSession& session) noexcept;
  void Recycle(ServerSession& session) noexcept;
  void OnDrainTimer() noexcept;
  void TellShed(std::string_view why) noexcept;

  net::Loop& loop_;
  const ServerOptions options_;
  Service& service_;
  ServerCounters counters_;
  BufferPool buffers_;

  // What one turn of one session uses; nothing in it outlives the call.
  std::unique_ptr<char[]> scratch_;          // input is received here first
  std::unique_ptr<wire::RequestHead> head_;  // of the request being dispatched
  std::string cork_;                         // answers to pipelined requests, sent at once
  std::string text_;                         // an answer given outside of input handling
  ServerSession* cork_owner_ = nullptr;

  std::vector<std::unique_ptr<net::Listener>> listeners_;
  std::vector<std::unique_ptr<ServerSession>> sessions_;  // every object ever made
  std::vector<ServerSession*> free_;
  ServerSession* live_ = nullptr;  // intrusive list
  size_t open_ = 0;

  bool draining_ = false;
  bool idle_closed_ = false;
  Instant drain_end_{};
  net::Timer drain_timer_;

  Instant shed_told_until_{};  // one line a second at most

  Instant date_until_{};
  size_t date_size_ = 0;
  char date_[40] = {};
};

}  // namespace flowguard::http
