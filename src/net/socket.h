// SPDX-License-Identifier: Apache-2.0
//
// The few socket calls that the servers use, non-blocking, as values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include <sys/uio.h>

#include "net/address.h"

namespace flowguard::net {

// Owns a descriptor.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { Close(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }
  void Close() noexcept;

 private:
  int fd_ = -1;
};

enum class IoStatus : uint8_t {
  kOk,
  kWouldBlock,
  kEnd,    // reading: the peer has sent everything
  kError,  // the connection is gone
};

struct IoResult {
  IoStatus status = IoStatus::kOk;
  size_t bytes = 0;
};

[[nodiscard]] IoResult Receive(int fd, std::span<char> into) noexcept;
// True when nothing can be read now: no byte, no end, no error.  Takes nothing.
[[nodiscard]] bool IsQuiet(int fd) noexcept;
// Whether the peer sends no more, or the connection is broken.  Takes nothing.
[[nodiscard]] bool PeerClosed(int fd) noexcept;
// Sends as much as the socket takes; bytes may be less than asked with kOk.
[[nodiscard]] IoResult Send(int fd, std::span<const iovec> parts) noexcept;
[[nodiscard]] IoResult Send(int fd, const char* data, size_t size) noexcept;

// Why there is no connection under way.
enum class ConnectFault : uint8_t {
  kAddress,   // that address cannot be reached: no route, no local port left for it
  kShortage,  // this process or machine has no descriptor or memory left, for any address
};
// Starts connecting.  An empty Fd: the system refused at once, and `fault` is set.
[[nodiscard]] Fd Connect(const Address& address, ConnectFault& fault) noexcept;
// The same for who treats all faults alike.
[[nodiscard]] inline Fd Connect(const Address& address) noexcept {
  ConnectFault any;
  return Connect(address, any);
}
// The same to a socket in the file system.
// Requires: path.size() <= kUnixPathBytesMax, and no zero byte.
inline constexpr size_t kUnixPathBytesMax = 107;
[[nodiscard]] Fd ConnectUnix(std::string_view path) noexcept;
// Whether a connection that became writable is established.
[[nodiscard]] bool ConnectSucceeded(int fd) noexcept;

// Whether a connection is to itself: the kernel may choose the port that was to be
// reached, when nobody listens on it, for our own end.
[[nodiscard]] bool IsSelfConnected(int fd) noexcept;

// The kernel asks a peer that has been quiet for a minute whether it is still there, and
// ends the connection within another minute if it is not.  For connections that may be
// quiet for ever.
void NoticeLostPeer(int fd) noexcept;

void ShutdownWrites(int fd) noexcept;
// Closing will reset the connection, so that the peer cannot take a cut-off message
// for a whole one.
void ResetOnClose(int fd) noexcept;
[[nodiscard]] Address LocalAddress(int fd) noexcept;

}  // namespace flowguard::net
