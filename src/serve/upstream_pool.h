// SPDX-License-Identifier: Apache-2.0
//
// One worker's connections to the upstream: several addresses, kept-alive
// connections used again, passive health.
//
// Choice: among the addresses that are not ejected, the one with the fewest requests
// in flight, ties in turn.  An address that fails fail_after times in a row
// is left out for retry_down_after, and again after its next failure; when all would
// be left out, none is.
//
// Threads: the loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "flowguard/time.h"

#include "base/bounds.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/socket.h"

namespace flowguard::serve {

class UpstreamPool;

struct UpstreamOptions {
  Duration connect_timeout = std::chrono::seconds(5);
  Duration response_timeout = std::chrono::seconds(60);    // without a byte from the upstream
  Duration idle_timeout = std::chrono::seconds(50);        // shorter than most servers keep theirs
  Duration tunnel_timeout = std::chrono::hours(1);         // without a byte in either direction
  Duration tunnel_end_timeout = std::chrono::seconds(30);  // as that, once one end has closed
  size_t idle_max = base::kUpstreamIdleMax;                // to one address
  int fail_after = 3;  // failures in a row that take an address out
  Duration retry_down_after = std::chrono::seconds(5);  // and for how long
  int retries = 1;                                      // of a request, on other addresses
};

// Who uses a connection; told of what happens on it.
class UpstreamUser {
 public:
  virtual void OnUpstreamReady(net::Ready ready) noexcept = 0;
  virtual void OnUpstreamTimeout() noexcept = 0;

 protected:
  ~UpstreamUser() = default;
};

// A connection to one address.  Objects are used again.
class UpstreamConnection final : public net::Watcher {
 public:
  explicit UpstreamConnection(UpstreamPool& pool) noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] uint32_t endpoint() const noexcept { return endpoint_; }
  // Served a request before: it may die at any moment without anybody's fault.
  [[nodiscard]] bool reused() const noexcept { return reused_; }
  [[nodiscard]] bool connected() const noexcept { return connected_; }
  void set_connected() noexcept { connected_ = true; }
  // The socket may hold unread bytes.
  [[nodiscard]] bool readable() const noexcept { return readable_; }
  void set_readable(bool readable) noexcept { readable_ = readable; }
  [[nodiscard]] bool peer_closed() const noexcept { return peer_closed_; }

  void ArmTimeout(Duration after) noexcept;
  void DisarmTimeout() noexcept { timer_.Disarm(); }

  void OnReady(net::Ready ready) noexcept override;
  void OnRetired() noexcept override;

 private:
  friend class UpstreamPool;
  void OnTimer() noexcept;

  UpstreamPool& pool_;
  net::Fd fd_;
  UpstreamUser* user_ = nullptr;  // null: idle, or not in use
  uint32_t endpoint_ = 0;
  bool reused_ = false;
  bool connected_ = false;
  bool readable_ = false;
  bool peer_closed_ = false;
  net::Timer timer_;
};

class UpstreamPool {
 public:
  // Requires: addresses is not empty.
  UpstreamPool(net::Loop& loop, std::vector<net::Address> addresses,
               const UpstreamOptions& options);
  ~UpstreamPool();
  UpstreamPool(const UpstreamPool&) = delete;
  UpstreamPool& operator=(const UpstreamPool&) = delete;

  // A connection for one request: a kept one (`fresh` forbids it), or one that is being
  // established, ready when it becomes writable.  `avoid`: addresses tried already for
  // this request, as bits; another one is preferred.
  struct Acquired {
    UpstreamConnection* connection = nullptr;  // null: the system refused at once
    uint32_t endpoint = 0;
    bool shortage = false;  // it refused for want of descriptors or memory of our own
  };
  Acquired Acquire(UpstreamUser& user, uint64_t avoid, bool fresh) noexcept;
  // The request is over.  `reusable`: the connection is between two messages.
  void Release(UpstreamConnection& connection, bool reusable) noexcept;

  void ReportSuccess(uint32_t endpoint) noexcept { endpoints_[endpoint].failures = 0; }
  void ReportFailure(uint32_t endpoint) noexcept;

  [[nodiscard]] size_t size() const noexcept { return endpoints_.size(); }
  [[nodiscard]] size_t idle(uint32_t endpoint) const noexcept {
    return endpoints_[endpoint].idle.size();
  }
  [[nodiscard]] bool ejected(uint32_t endpoint) const noexcept;
  [[nodiscard]] const UpstreamOptions& options() const noexcept { return options_; }

 private:
  friend class UpstreamConnection;

  struct Endpoint {
    net::Address address;
    std::vector<UpstreamConnection*> idle;  // the last one used is the first taken
    uint32_t in_flight = 0;
    int failures = 0;  // in a row
    Instant ejected_until = Instant::min();
  };

  [[nodiscard]] uint32_t Choose(uint64_t avoid) noexcept;
  void DropIdle(UpstreamConnection& connection) noexcept;
  void Close(UpstreamConnection& connection) noexcept;

  net::Loop& loop_;
  const UpstreamOptions options_;
  std::vector<Endpoint> endpoints_;
  std::vector<std::unique_ptr<UpstreamConnection>> connections_;  // every object ever made
  std::vector<UpstreamConnection*> free_;
  uint32_t next_ = 0;
};

}  // namespace flowguard::serve
