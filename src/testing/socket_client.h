// SPDX-License-Identifier: Apache-2.0
//
// A client that sends exactly the bytes it is told to and keeps all that comes back.
// Runs in the test's own thread, turn by turn with the loop under test.
#pragma once

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace flowguard::testing {

class SocketClient {
 public:
  // Connects to a listening address and waits for that.
  SocketClient(const sockaddr* address, socklen_t size)
      : fd_(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (connect(fd_, address, size) != 0) reset_ = true;
  }
  SocketClient(SocketClient&& other) noexcept
      : received_(std::move(other.received_)),
        fd_(std::exchange(other.fd_, -1)),
        ended_(other.ended_),
        reset_(other.reset_) {}
  SocketClient& operator=(SocketClient&&) = delete;
  ~SocketClient() { Close(); }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // As much as the socket takes without waiting; how much that was.
  size_t SendSome(std::string_view bytes) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<size_t>(sent) : 0;
  }
  void ShutdownWrites() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Reset() {
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    Close();
  }

  // Takes in what has arrived.
  const std::string& Poll() {
    std::array<char, 65536> buffer;
    while (fd_ >= 0 && !ended_ && !reset_) {
      const ssize_t got = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got > 0) {
        received_.append(buffer.data(), static_cast<size_t>(got));
      } else if (got == 0) {
        ended_ = true;
      } else {
        if (errno != EAGAIN && errno != EWOULDBLOCK) reset_ = true;
        break;
      }
    }
    return received_;
  }
  [[nodiscard]] const std::string& received() const { return received_; }
  void Forget() { received_.clear(); }
  // The server sent everything and closed.
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] bool reset() const { return reset_; }
  [[nodiscard]] bool closed() const { return ended_ || reset_; }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  std::string received_;
  int fd_;
  bool ended_ = false;
  bool reset_ = false;
};

}  // namespace flowguard::testing
