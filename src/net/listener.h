// SPDX-License-Identifier: Apache-2.0
//
// A listening socket of one loop.  Every worker has its own on the same address
// (SO_REUSEPORT), and the kernel spreads connections over them.
//
// When the process runs out of descriptors the listener gives up one that it holds
// in reserve, accepts and closes connections with it, so that clients are told
// instead of left hanging, and pauses for a moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "flowguard/result.h"

#include "net/address.h"
#include "net/loop.h"
#include "net/socket.h"

namespace flowguard::net {

// Where accepted connections go.
class Acceptor {
 public:
  virtual ~Acceptor() = default;
  // Takes over `fd`: non-blocking, TCP_NODELAY set.
  virtual void OnAccept(Fd fd, const Address& peer) noexcept = 0;
  // A connection was closed at once, because no descriptor was left for it.
  virtual void OnShed() noexcept {}
};

struct ListenerCounters {
  uint64_t accepted = 0;
  uint64_t shed = 0;  // closed at once because no descriptor was left
};

class Listener final : public Watcher {
 public:
  // Binds and listens.  `loop` and `acceptor` must outlive the listener.
  // Errors: kInvalidArgument or kUnavailable, naming the address and the reason.
  static Result<std::unique_ptr<Listener>> Open(Loop& loop, const Address& address,
                                                Acceptor& acceptor);
  // Whether nobody listens on `address` yet: with SO_REUSEPORT a second process could
  // take a share of its connections, and nobody would be told.  Good for any port 0.
  // Errors: as Open; kUnavailable when the address is in use.
  static Result<void> CheckFree(const Address& address);
  ~Listener() override;

  // The bound address; the port is real even when 0 was asked for.
  [[nodiscard]] const Address& address() const noexcept { return address_; }
  [[nodiscard]] const ListenerCounters& counters() const noexcept { return counters_; }

  // Accepts no more and closes the socket; what the kernel has already queued is
  // accepted first.
  void Close() noexcept;

  void OnReady(Ready ready) noexcept override;

 private:
  static constexpr int kBacklog = 4096;
  static constexpr int kAcceptBatch = 64;
  static constexpr Duration kPause = std::chrono::milliseconds(100);

  Listener(Loop& loop, Fd fd, const Address& address, Acceptor& acceptor);
  void AcceptBatch(int batch_max) noexcept;
  void ShedOne() noexcept;
  void Resume() noexcept;

  Loop& loop_;
  Fd fd_;
  Fd reserve_;
  Address address_;
  Acceptor& acceptor_;
  Timer resume_;
  ListenerCounters counters_;
};

}  // namespace flowguard::net
