// SPDX-License-Identifier: Apache-2.0
#include "net/listener.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace flowguard::net {
namespace {

Error Failed(const Address& address, std::string_view what) {
  return Error::Unavailable("listen on " + address.ToString() + ": " + std::string(what) + ": " +
                            std::strerror(errno));
}

Fd OpenReserve() noexcept {
  return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// Errors of accept4 that concern one connection, which is gone already.
bool ConcernsOneConnection(int error) noexcept {
  switch (error) {
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENETDOWN:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENONET:
    case ETIMEDOUT:
    case EINTR:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::Open(Loop& loop, const Address& address,
                                                 Acceptor& acceptor) {
  Fd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return Failed(address, "socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
    return Failed(address, "SO_REUSEPORT");
  }
  // Accepted sockets inherit it.
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (bind(fd.get(), address.raw(), address.raw_size()) != 0) return Failed(address, "bind");
  if (listen(fd.get(), kBacklog) != 0) return Failed(address, "listen");
  const Address bound = net::LocalAddress(fd.get());
  std::unique_ptr<Listener> listener(new Listener(loop, std::move(fd), bound, acceptor));
  if (!loop.WatchAccept(listener->fd_.get(), *listener)) return Failed(address, "watch");
  return listener;
}

Result<void> Listener::CheckFree(const Address& address) {
  const Fd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return Failed(address, "socket");
  const int on = 1;
  // Connections of an earlier process that wait for their end are no obstacle.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), address.raw(), address.raw_size()) != 0) return Failed(address, "bind");
  return {};
}

Listener::Listener(Loop& loop, Fd fd, const Address& address, Acceptor& acceptor)
    : loop_(loop),
      fd_(std::move(fd)),
      reserve_(OpenReserve()),
      address_(address),
      acceptor_(acceptor),
      resume_([](void* self) noexcept { static_cast<Listener*>(self)->Resume(); }, this) {}

Listener::~Listener() {
  loop_.Forget(*this);
}

void Listener::Resume() noexcept {
  if (fd_ && !loop_.WatchAccept(fd_.get(), *this)) loop_.ArmAfter(resume_, kPause);
}

void Listener::Close() noexcept {
  if (!fd_) return;
  // Clients that the kernel has already shaken hands with must not see a reset.
  AcceptBatch(kBacklog);
  resume_.Disarm();
  fd_.Close();
}

void Listener::OnReady(Ready /*ready*/) noexcept {
  AcceptBatch(kAcceptBatch);
}

void Listener::AcceptBatch(int batch_max) noexcept {
  for (int i = 0; i < batch_max; ++i) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* const raw = reinterpret_cast<sockaddr*>(&storage);
    Fd accepted(accept4(fd_.get(), raw, &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted) {
      ++counters_.accepted;
      acceptor_.OnAccept(std::move(accepted), Address::FromSockaddr(raw, size));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (ConcernsOneConnection(errno)) continue;
    // No descriptors or no memory.
    ShedOne();
    loop_.Unwatch(fd_.get());
    loop_.ArmAfter(resume_, kPause);
    return;
  }
}

void Listener::ShedOne() noexcept {
  reserve_.Close();
  if (const Fd refused(accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      refused) {
    ++counters_.shed;
    acceptor_.OnShed();
  }
  reserve_ = OpenReserve();
}

}  // namespace flowguard::net
