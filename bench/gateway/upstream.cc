// SPDX-License-Identifier: Apache-2.0
//
// A trivial upstream for the gateway's benchmarks and tests: one epoll thread that
// answers every GET with a fixed body, as little work as possible, and counts.
//
//   fg_upstream PORT BODY_BYTES [count-by-xff]
//
// Prints "upstream listening on 127.0.0.1:PORT".  GET /counts answers the number of
// requests by X-Forwarded-For, one "address count" a line (when asked to count).
// Trusts its client (one request a read, no pipelining): it is no server for users.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

struct Connection {
  std::string pending;  // what did not fit into the socket
  size_t sent = 0;
};

struct Upstream {
  std::string response;
  bool count = false;
  std::unordered_map<std::string, long> by_client;
  std::vector<Connection> connections;
  int epoll = -1;
};

std::string Respond(std::string_view body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string Counts(const Upstream& upstream) {
  std::string body;
  for (const auto& [client, n] : upstream.by_client)
    body += client + " " + std::to_string(n) + "\n";
  return Respond(body);
}

void Count(Upstream& upstream, std::string_view request) {
  constexpr std::string_view kName = "X-Forwarded-For: ";
  const size_t at = request.find(kName);
  if (at == std::string_view::npos) return;
  const size_t end = request.find('\r', at);
  ++upstream.by_client[std::string(request.substr(at + kName.size(), end - at - kName.size()))];
}

void Flush(Upstream& upstream, int fd, Connection& connection) {
  while (connection.sent < connection.pending.size()) {
    const ssize_t n = send(fd, connection.pending.data() + connection.sent,
                           connection.pending.size() - connection.sent, MSG_NOSIGNAL);
    if (n < 0) break;
    connection.sent += static_cast<size_t>(n);
  }
  const bool done = connection.sent == connection.pending.size();
  if (done) connection.pending.clear(), connection.sent = 0;
  epoll_event event{};
  event.events = done ? EPOLLIN : EPOLLIN | EPOLLOUT;
  event.data.fd = fd;
  epoll_ctl(upstream.epoll, EPOLL_CTL_MOD, fd, &event);
}

void Answer(Upstream& upstream, int fd, std::string_view request) {
  std::string own;
  std::string_view answer = upstream.response;
  if (upstream.count) {
    if (request.substr(0, 11) == "GET /counts") {
      own = Counts(upstream);
      answer = own;
    } else {
      Count(upstream, request);
    }
  }
  Connection& connection = upstream.connections[static_cast<size_t>(fd)];
  ssize_t n = 0;
  if (connection.pending.empty()) n = send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
  if (n < 0) n = 0;
  if (static_cast<size_t>(n) < answer.size()) {
    connection.pending.append(answer.substr(static_cast<size_t>(n)));
    Flush(upstream, fd, connection);
  }
}

void Accept(Upstream& upstream, int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (static_cast<size_t>(fd) >= upstream.connections.size()) {
      upstream.connections.resize(static_cast<size_t>(fd) + 1);
    }
    upstream.connections[static_cast<size_t>(fd)] = {};
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(upstream.epoll, EPOLL_CTL_ADD, fd, &event);
  }
}

int Listen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(fd, 4096) != 0) {
    std::perror("upstream");
    std::exit(1);
  }
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  std::printf("upstream listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: fg_upstream PORT BODY_BYTES [count-by-xff]\n");
    return 2;
  }
  Upstream upstream;
  upstream.response = Respond(std::string(static_cast<size_t>(std::atoll(argv[2])), 'x'));
  upstream.count = argc > 3;
  upstream.epoll = epoll_create1(0);
  const int listener = Listen(std::atoi(argv[1]));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener;
  epoll_ctl(upstream.epoll, EPOLL_CTL_ADD, listener, &event);
  std::vector<epoll_event> events(512);
  std::vector<char> buffer(256 * 1024);
  for (;;) {
    const int ready =
        epoll_wait(upstream.epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == listener) {
        Accept(upstream, listener);
        continue;
      }
      if ((events[static_cast<size_t>(i)].events & EPOLLOUT) != 0) {
        Flush(upstream, fd, upstream.connections[static_cast<size_t>(fd)]);
      }
      const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
      if (n > 0) {
        Answer(upstream, fd, std::string_view(buffer.data(), static_cast<size_t>(n)));
      } else if (n == 0 || errno != EAGAIN) {
        close(fd);
      }
    }
  }
}
