// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <algorithm>
#include <cerrno>

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace flowguard::net {
namespace {

IoResult FromSend(ssize_t sent) noexcept {
  if (sent >= 0) return {IoStatus::kOk, static_cast<size_t>(sent)};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoStatus::kWouldBlock, 0};
  return {IoStatus::kError, 0};
}

ConnectFault FaultOf(int error) noexcept {
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return ConnectFault::kShortage;
    default:
      return ConnectFault::kAddress;
  }
}

}  // namespace

void Fd::Close() noexcept {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

IoResult Receive(int fd, std::span<char> into) noexcept {
  ssize_t got = 0;
  do {
    got = recv(fd, into.data(), into.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return {IoStatus::kOk, static_cast<size_t>(got)};
  if (got == 0) return {IoStatus::kEnd, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {IoStatus::kWouldBlock, 0};
  return {IoStatus::kError, 0};
}

bool IsQuiet(int fd) noexcept {
  char byte = 0;
  const ssize_t got = recv(fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

bool PeerClosed(int fd) noexcept {
  pollfd watched{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&watched, 1, 0) > 0;
}

IoResult Send(int fd, std::span<const iovec> parts) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  ssize_t sent = 0;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return FromSend(sent);
}

IoResult Send(int fd, const char* data, size_t size) noexcept {
  ssize_t sent = 0;
  do {
    sent = send(fd, data, size, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return FromSend(sent);
}

Fd Connect(const Address& address, ConnectFault& fault) noexcept {
  Fd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    fault = FaultOf(errno);
    return fd;
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(fd.get(), address.raw(), address.raw_size()) != 0 && errno != EINPROGRESS) {
    fault = FaultOf(errno);
    return Fd();
  }
  return fd;
}

Fd ConnectUnix(std::string_view path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static_assert(sizeof address.sun_path > kUnixPathBytesMax);
  path.copy(address.sun_path, kUnixPathBytesMax);
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd.get(), raw, sizeof address) != 0 && errno != EINPROGRESS) return Fd();
  return fd;
}

bool ConnectSucceeded(int fd) noexcept {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

bool IsSelfConnected(int fd) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const raw = reinterpret_cast<sockaddr*>(&storage);
  if (getpeername(fd, raw, &size) != 0) return false;
  const Address peer = Address::FromSockaddr(raw, size);
  const Address local = LocalAddress(fd);
  return peer.valid() && local.port() == peer.port() &&
         std::ranges::equal(local.ip_bytes(), peer.ip_bytes());
}

void NoticeLostPeer(int fd) noexcept {
  constexpr int kQuietSeconds = 60;
  constexpr int kAskEverySeconds = 15;
  constexpr int kAsks = 4;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kQuietSeconds, sizeof kQuietSeconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kAskEverySeconds, sizeof kAskEverySeconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kAsks, sizeof kAsks);
}

void ShutdownWrites(int fd) noexcept {
  shutdown(fd, SHUT_WR);
}

void ResetOnClose(int fd) noexcept {
  linger option{};
  option.l_onoff = 1;
  option.l_linger = 0;
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, sizeof option);
}

Address LocalAddress(int fd) noexcept {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const raw = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(fd, raw, &size) != 0) return {};
  return Address::FromSockaddr(raw, size);
}

}  // namespace flowguard::net
