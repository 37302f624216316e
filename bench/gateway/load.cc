// SPDX-License-Identifier: Apache-2.0
//
// A load generator for HTTP/1.1 keep-alive servers: closed loop, or open loop at a
// stated rate with latencies counted from when a request was due (so a stalled
// server is charged for those that queued behind it).  One thread, loopback only.
//
//   fg_load --port P [--connections 64] [--seconds 5] [--rate R] [--path /]
//           [--keys N] [--sources N] [--depth D] [--stamps FILE] [--header "A: b"]
//
// --keys N     each request carries ?k=<one of N keys>, uniformly at random
// --order seq  the keys one after the other instead, from --first on
// --idle N     opens N more connections and leaves them idle
// --sources N  connection i comes from the loopback address 127.1.x.y number i
// --stamps F   writes "source status stamp store-stamp" for each answer that carries a
//              FlowGuard-Decided-At header; without FlowGuard-Store-Decided-At the
//              last is left out
// --answers F  writes "port key status due latency decided-at store-decided-at" for each
//              answer: ns, the first two of the monotonic clock and the third of the
//              server's, the last us; 0 where the answer does not say, key 0 without --keys
// --poll sleep sleeps until something is due or arrives, where cores are few: answers are
//              then seen some 50 us later than by the busy waiting of open loops
// --port may come several times: connections are dealt out in turn.
// SIGTERM ends it early, with what there is so far.
// Prints one line of JSON.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "histogram.h"

namespace {

using flowguard::bench::Histogram;
using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t told_to_end = 0;

struct Options {
  std::vector<int> ports;
  int connections = 64;
  double seconds = 5;
  double rate = 0;
  std::string path = "/";
  uint64_t keys = 0;
  int sources = 0;
  int depth = 1;
  int idle = 0;
  bool sequential = false;
  uint64_t first_key = 0;
  std::string stamps;
  std::string answers;
  bool sleeps = false;
  std::string headers;
};

struct Connection {
  int fd = -1;
  int port = 0;
  int source = 0;
  int in_flight = 0;
  std::vector<Clock::time_point> due;  // of the requests in flight, oldest first
  size_t due_head = 0;
  std::string in;
  uint64_t body_left = 0;
  int status = 0;
  uint64_t key = 0;  // of the last request
  long long decided_at = 0;
  long long store_decided_at = 0;
};

class Load {
 public:
  explicit Load(Options options) : options_(std::move(options)), buffer_(512 * 1024) {}
  int Run();

 private:
  void Connect(Connection& c);
  void Close(Connection& c);
  void Send(Connection& c, int requests, Clock::time_point due);
  bool Read(Connection& c);
  bool Head(Connection& c);
  void Done(Connection& c);
  void Feed(Clock::time_point now);
  [[nodiscard]] int Poll(std::vector<epoll_event>& events, Clock::time_point now) const;
  [[nodiscard]] Clock::time_point NextDue() const;
  void Print(double elapsed);
  uint64_t Random() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

  uint64_t NextKey() { return (options_.sequential ? next_key_++ : Random()) % options_.keys; }

  Options options_;
  std::vector<char> buffer_;
  std::vector<Connection> connections_;
  std::deque<Connection*> idle_;  // first in, first out: each connection has its turn
  std::map<int, uint64_t> statuses_;
  Histogram latency_;
  uint64_t done_ = 0;
  uint64_t errors_ = 0;
  uint64_t bytes_ = 0;
  uint64_t issued_ = 0;
  uint64_t random_ = 88172645463325252ULL;
  uint64_t next_key_ = options_.first_key;
  int epoll_ = -1;
  std::FILE* stamps_ = nullptr;
  std::FILE* answers_ = nullptr;
  Clock::time_point start_;
  bool stopping_ = false;
};

void Load::Connect(Connection& c) {
  c.fd = socket(AF_INET, SOCK_STREAM, 0);
  if (options_.sources > 0) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    const int n = c.source;
    from.sin_addr.s_addr = htonl(0x7f010000U + static_cast<uint32_t>(n / 250 * 256 + n % 250 + 1));
    const int on = 1;
    setsockopt(c.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(c.fd, reinterpret_cast<sockaddr*>(&from), sizeof from) != 0) std::perror("bind");
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(c.port));
  if (connect(c.fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    std::perror("connect");
    std::exit(1);
  }
  const int on = 1;
  setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(c.fd, F_SETFL, O_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &c;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &event);
}

void Load::Close(Connection& c) {
  close(c.fd);
  errors_ += static_cast<uint64_t>(c.in_flight);
  c.in_flight = 0;
  c.due.clear();
  c.due_head = 0;
  c.in.clear();
  c.body_left = 0;
  Connect(c);
  if (options_.rate > 0) {
    idle_.push_back(&c);
  } else if (!stopping_) {
    Send(c, options_.depth, Clock::now());
  }
}

void Load::Send(Connection& c, int requests, Clock::time_point due) {
  char text[1024];
  std::string out;
  for (int i = 0; i < requests; ++i) {
    int n = 0;
    if (options_.keys > 0) {
      c.key = NextKey();
      n = std::snprintf(
          text, sizeof text, "GET %s?k=k%07llu HTTP/1.1\r\nHost: bench.local\r\n%s\r\n",
          options_.path.c_str(), static_cast<unsigned long long>(c.key), options_.headers.c_str());
    } else {
      n = std::snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: bench.local\r\n%s\r\n",
                        options_.path.c_str(), options_.headers.c_str());
    }
    out.append(text, static_cast<size_t>(n));
    c.due.push_back(due);
  }
  c.in_flight += requests;
  issued_ += static_cast<uint64_t>(requests);
  if (send(c.fd, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size()))
    ++errors_;
}

void Load::Done(Connection& c) {
  const Clock::time_point due = c.due[c.due_head];
  const std::chrono::nanoseconds latency = Clock::now() - due;
  latency_.Add(static_cast<uint64_t>(latency.count()));
  if (answers_ != nullptr) {
    std::fprintf(answers_, "%d %llu %d %lld %lld %lld %lld\n", c.port,
                 static_cast<unsigned long long>(c.key), c.status,
                 static_cast<long long>(due.time_since_epoch().count()),
                 static_cast<long long>(latency.count()), c.decided_at, c.store_decided_at);
  }
  ++c.due_head;
  if (c.due_head == c.due.size()) c.due.clear(), c.due_head = 0;
  ++done_;
  --c.in_flight;
  ++statuses_[c.status];
}

// The number in the header line that begins so; 0: there is none.
long long Number(std::string_view head, std::string_view begin) {
  const size_t at = head.find(begin);
  return at == std::string_view::npos ? 0 : std::atoll(head.data() + at + begin.size());
}

// Parses one head at the front of c.in; false: need more.
bool Load::Head(Connection& c) {
  const size_t end = c.in.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const std::string_view head(c.in.data(), end + 2);
  c.status = std::atoi(c.in.c_str() + 9);
  c.body_left = 0;
  for (const char* name : {"\r\nContent-Length: ", "\r\ncontent-length: "}) {
    const size_t at = head.find(name);
    if (at != std::string_view::npos)
      c.body_left = std::strtoull(head.data() + at + 18, nullptr, 10);
  }
  if (stamps_ != nullptr || answers_ != nullptr) {
    c.decided_at = Number(head, "\r\nFlowGuard-Decided-At: ");
    c.store_decided_at = Number(head, "\r\nFlowGuard-Store-Decided-At: ");
  }
  if (stamps_ != nullptr && c.decided_at != 0) {
    std::fprintf(stamps_, "%d %d %lld", c.source, c.status, c.decided_at);
    if (c.store_decided_at != 0) std::fprintf(stamps_, " %lld", c.store_decided_at);
    std::fputc('\n', stamps_);
  }
  c.in.erase(0, end + 4);
  return true;
}

// False: the connection ended.
bool Load::Read(Connection& c) {
  const ssize_t n = recv(c.fd, buffer_.data(), buffer_.size(), 0);
  if (n < 0) return errno == EAGAIN;
  if (n == 0) return false;
  bytes_ += static_cast<uint64_t>(n);
  std::string_view bytes(buffer_.data(), static_cast<size_t>(n));
  while (!bytes.empty() || !c.in.empty()) {
    if (c.body_left > 0) {
      std::string_view& from = bytes;
      const size_t inside = std::min<uint64_t>(c.body_left, c.in.size());
      c.in.erase(0, inside);
      c.body_left -= inside;
      const size_t take = std::min<uint64_t>(c.body_left, from.size());
      from.remove_prefix(take);
      c.body_left -= take;
      if (c.body_left > 0) return true;
      Done(c);
      continue;
    }
    c.in.append(bytes);
    bytes = {};
    if (!Head(c)) return true;
    if (c.body_left == 0) Done(c);
  }
  return true;
}

// Open loop: issues what is due.
void Load::Feed(Clock::time_point now) {
  while (!idle_.empty()) {
    const auto due = NextDue();
    if (due > now) return;
    Connection* c = idle_.front();
    idle_.pop_front();
    Send(*c, 1, due);
  }
}

Clock::time_point Load::NextDue() const {
  return start_ + std::chrono::nanoseconds(
                      static_cast<int64_t>(static_cast<double>(issued_) * 1e9 / options_.rate));
}

// Arrivals; at once, or when something arrives or is due.
int Load::Poll(std::vector<epoll_event>& events, Clock::time_point now) const {
  const int room = static_cast<int>(events.size());
  if (options_.rate <= 0) return epoll_wait(epoll_, events.data(), room, 100);
  if (!options_.sleeps) return epoll_wait(epoll_, events.data(), room, 0);
  std::chrono::nanoseconds most = std::chrono::milliseconds(100);
  if (!idle_.empty()) most = std::clamp<std::chrono::nanoseconds>(NextDue() - now, {}, most);
  const timespec wait{0, static_cast<long>(most.count())};
  return epoll_pwait2(epoll_, events.data(), room, &wait, nullptr);
}

void Load::Print(double elapsed) {
  std::string statuses;
  for (const auto& [status, n] : statuses_) {
    statuses += (statuses.empty() ? "" : ", ") + ("\"" + std::to_string(status) + "\": ") +
                std::to_string(n);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"requests\": %llu, \"seconds\": %.3f, \"rate\": %.0f, \"errors\": %llu, \"bytes\": %llu, "
      "\"issued\": %llu, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, "
      "\"max_us\": %.1f, \"statuses\": {%s}}\n",
      static_cast<unsigned long long>(done_), elapsed, static_cast<double>(done_) / elapsed,
      static_cast<unsigned long long>(errors_), static_cast<unsigned long long>(bytes_),
      static_cast<unsigned long long>(issued_), latency_.QuantileUs(.5), latency_.QuantileUs(.9),
      latency_.QuantileUs(.99), latency_.QuantileUs(.999), latency_.MaxUs(), statuses.c_str());
}

int Load::Run() {
  epoll_ = epoll_create1(0);
  if (!options_.stamps.empty()) stamps_ = std::fopen(options_.stamps.c_str(), "w");
  if (!options_.answers.empty()) answers_ = std::fopen(options_.answers.c_str(), "w");
  connections_.resize(static_cast<size_t>(options_.connections));
  for (int i = 0; i < options_.connections; ++i) {
    Connection& c = connections_[static_cast<size_t>(i)];
    c.source = options_.sources > 0 ? i % options_.sources : 0;
    c.port = options_.ports[static_cast<size_t>(i) % options_.ports.size()];
    Connect(c);
    if (options_.rate > 0) idle_.push_back(&c);
  }
  std::vector<Connection> idle(static_cast<size_t>(options_.idle));
  for (Connection& c : idle) {
    c.port = options_.ports.front();
    Connect(c);
  }
  start_ = Clock::now();
  const auto end = start_ + std::chrono::nanoseconds(static_cast<int64_t>(options_.seconds * 1e9));
  if (options_.rate <= 0) {
    for (Connection& c : connections_)
      Send(c, options_.depth, start_);
  }
  std::vector<epoll_event> events(1024);
  for (;;) {
    const auto now = Clock::now();
    if (now >= end || told_to_end != 0) break;
    if (options_.rate > 0) Feed(now);
    const int ready = Poll(events, now);
    for (int i = 0; i < ready; ++i) {
      Connection& c = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      if (!Read(c)) {
        Close(c);
        continue;
      }
      if (c.in_flight > 0) continue;
      if (options_.rate > 0) {
        idle_.push_back(&c);
      } else {
        Send(c, options_.depth, Clock::now());
      }
    }
  }
  stopping_ = true;
  Print(std::chrono::duration<double>(Clock::now() - start_).count());
  if (stamps_ != nullptr) std::fclose(stamps_);
  if (answers_ != nullptr) std::fclose(answers_);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--port")
      options.ports.push_back(std::atoi(value));
    else if (name == "--connections")
      options.connections = std::atoi(value);
    else if (name == "--seconds")
      options.seconds = std::atof(value);
    else if (name == "--rate")
      options.rate = std::atof(value);
    else if (name == "--path")
      options.path = value;
    else if (name == "--keys")
      options.keys = std::strtoull(value, nullptr, 10);
    else if (name == "--sources")
      options.sources = std::atoi(value);
    else if (name == "--depth")
      options.depth = std::atoi(value);
    else if (name == "--idle")
      options.idle = std::atoi(value);
    else if (name == "--order")
      options.sequential = std::string_view(value) == "seq";
    else if (name == "--first")
      options.first_key = std::strtoull(value, nullptr, 10);
    else if (name == "--stamps")
      options.stamps = value;
    else if (name == "--answers")
      options.answers = value;
    else if (name == "--poll")
      options.sleeps = std::string_view(value) == "sleep";
    else if (name == "--header")
      options.headers += std::string(value) + "\r\n";
    else {
      std::fprintf(stderr, "fg_load: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  if (options.ports.empty()) {
    std::fprintf(stderr, "usage: fg_load --port P [--connections N] [--seconds S] ...\n");
    return 2;
  }
  std::signal(SIGTERM, [](int) { told_to_end = 1; });
  return Load(std::move(options)).Run();
}
