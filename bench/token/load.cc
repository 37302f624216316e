// SPDX-License-Identifier: Apache-2.0
//
// A load generator for token servers, written from the layout of the protocol alone.  Each
// connection asks `depth` questions in one write, and again when all are answered; with
// --rate at a stated rate of questions, with latencies counted from when a write was due
// (so a stalled server is charged for those that queued behind it).  One thread, loopback.
//
//   fg_token_load --port P [--connections 64] [--depth 32] [--seconds 5] [--rate R]
//                 [--flow 1] [--flows N] [--values N] [--namespace NAME] [--idle N]
//
// --flows N   asks for the flows from --flow on, N of them, one after the other
// --values N  asks PARAM_FLOW, with one text of N different ones
// --idle N    opens N more connections, which register and are quiet then
//
// Every answer has to belong to a question that is open, once, with eight bytes of body;
// anything else is an error.  Prints one line of JSON.
#include <algorithm>
#include <cerrno>
#include <chrono>
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
#include <sys/socket.h>
#include <unistd.h>

#include "histogram.h"

namespace {

using flowguard::bench::Histogram;
using Clock = std::chrono::steady_clock;

struct Options {
  int port = 0;
  int connections = 64;
  int depth = 32;
  int idle = 0;
  double seconds = 5;
  double rate = 0;
  int64_t flow = 1;
  uint64_t flows = 1;
  uint64_t values = 0;
  std::string name_space = "bench";
};

template <typename Int>
void AppendNumber(Int value, std::string& out) {
  for (int shift = (static_cast<int>(sizeof value) - 1) * 8; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> shift & 0xff));
}

uint32_t Number(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

struct Connection {
  int fd = -1;
  int in_flight = 0;
  int32_t first = 0;       // xid of the first question of the write that is out
  std::vector<bool> open;  // by xid - first
  Clock::time_point due;   // of that write
  std::string in;          // a part of an answer
};

class Load {
 public:
  explicit Load(const Options& options) : options_(options), buffer_(256 * 1024) {}
  int Run();

 private:
  void Connect(Connection& c);
  void Write(Connection& c, std::string_view bytes);
  void Send(Connection& c, Clock::time_point due);
  void AppendQuestion(int32_t xid);
  bool Read(Connection& c);
  bool Take(Connection& c, std::string_view message);
  void Feed(Clock::time_point now);
  void Print(double elapsed);

  const Options options_;
  std::vector<char> buffer_;
  std::string out_;
  std::vector<Connection> connections_;
  std::deque<Connection*> ready_;  // first in, first out: each connection has its turn
  std::map<int, uint64_t> statuses_;
  Histogram latency_;
  uint64_t done_ = 0;
  uint64_t errors_ = 0;
  uint64_t writes_ = 0;
  uint64_t asked_ = 0;
  int epoll_ = -1;
  Clock::time_point start_;
};

void Load::Connect(Connection& c) {
  c.fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(options_.port));
  if (connect(c.fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    std::perror("connect");
    std::exit(1);
  }
  const int on = 1;
  setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // As Sentinel's clients: registers, and does not wait for the answer.
  out_.clear();
  AppendNumber(static_cast<uint16_t>(9 + options_.name_space.size()), out_);
  AppendNumber(int32_t{0}, out_);
  AppendNumber(int8_t{0}, out_);
  AppendNumber(static_cast<int32_t>(options_.name_space.size()), out_);
  out_ += options_.name_space;
  Write(c, out_);
  fcntl(c.fd, F_SETFL, O_NONBLOCK);
  c.open.resize(static_cast<size_t>(options_.depth));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &c;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &event);
}

void Load::Write(Connection& c, std::string_view bytes) {
  if (send(c.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    ++errors_;
}

void Load::AppendQuestion(int32_t xid) {
  const int64_t flow = options_.flow + static_cast<int64_t>(asked_ % options_.flows);
  char text[24];
  int text_size = 0;
  if (options_.values > 0) {
    text_size = std::snprintf(text, sizeof text, "value-%llu",
                              static_cast<unsigned long long>(asked_ % options_.values));
  }
  const bool param = options_.values > 0;
  AppendNumber(static_cast<uint16_t>(param ? 26 + text_size : 18), out_);
  AppendNumber(xid, out_);
  AppendNumber(static_cast<int8_t>(param ? 2 : 1), out_);
  AppendNumber(flow, out_);
  AppendNumber(int32_t{1}, out_);
  if (param) {
    AppendNumber(int32_t{1}, out_);
    AppendNumber(int8_t{7}, out_);
    AppendNumber(static_cast<int32_t>(text_size), out_);
    out_.append(text, static_cast<size_t>(text_size));
  } else {
    AppendNumber(int8_t{0}, out_);
  }
  ++asked_;
}

void Load::Send(Connection& c, Clock::time_point due) {
  out_.clear();
  c.first += options_.depth;
  if (c.first > 999'000'000) c.first = options_.depth;
  for (int i = 0; i < options_.depth; ++i) {
    AppendQuestion(c.first + i);
    c.open[static_cast<size_t>(i)] = true;
  }
  c.in_flight = options_.depth;
  c.due = due;
  ++writes_;
  Write(c, out_);
}

// False: it answers nothing that was asked.
bool Load::Take(Connection& c, std::string_view message) {
  if (message.size() < 6) return false;
  const auto xid = static_cast<int32_t>(Number(message.data()));
  if (xid == 0) return message[4] == 0 && message[5] == 0;
  const auto place = static_cast<size_t>(xid - c.first);
  const char type = options_.values > 0 ? 2 : 1;
  if (place >= c.open.size() || !c.open[place]) return false;
  if (message.size() != 14 || message[4] != type) return false;
  c.open[place] = false;
  ++statuses_[message[5]];
  const std::chrono::nanoseconds latency = Clock::now() - c.due;
  latency_.Add(static_cast<uint64_t>(latency.count()));
  ++done_;
  --c.in_flight;
  return true;
}

// False: the connection ended.
bool Load::Read(Connection& c) {
  std::memcpy(buffer_.data(), c.in.data(), c.in.size());
  const size_t before = c.in.size();
  const ssize_t n = recv(c.fd, buffer_.data() + before, buffer_.size() - before, 0);
  if (n < 0) return errno == EAGAIN;
  if (n == 0) return false;
  std::string_view bytes(buffer_.data(), before + static_cast<size_t>(n));
  while (bytes.size() >= 2) {
    const size_t size = static_cast<size_t>(static_cast<unsigned char>(bytes[0])) << 8 |
                        static_cast<unsigned char>(bytes[1]);
    if (bytes.size() < 2 + size) break;
    if (!Take(c, bytes.substr(2, size))) ++errors_;
    bytes.remove_prefix(2 + size);
  }
  c.in.assign(bytes);
  return true;
}

// At a stated rate: writes what is due.
void Load::Feed(Clock::time_point now) {
  const double gap = 1e9 * options_.depth / options_.rate;
  while (!ready_.empty()) {
    const auto due =
        start_ + std::chrono::nanoseconds(static_cast<int64_t>(static_cast<double>(writes_) * gap));
    if (due > now) return;
    Connection* c = ready_.front();
    ready_.pop_front();
    Send(*c, due);
  }
}

void Load::Print(double elapsed) {
  std::string statuses;
  for (const auto& [status, n] : statuses_) {
    statuses += (statuses.empty() ? "" : ", ") + ("\"" + std::to_string(status) + "\": ") +
                std::to_string(n);
  }
  std::printf(
      "{\"questions\": %llu, \"seconds\": %.3f, \"rate\": %.0f, \"errors\": %llu, \"p50_us\": "
      "%.1f, "
      "\"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f, \"statuses\": {%s}}\n",
      static_cast<unsigned long long>(done_), elapsed, static_cast<double>(done_) / elapsed,
      static_cast<unsigned long long>(errors_), latency_.QuantileUs(.5), latency_.QuantileUs(.99),
      latency_.QuantileUs(.999), latency_.MaxUs(), statuses.c_str());
}

int Load::Run() {
  epoll_ = epoll_create1(0);
  connections_.resize(static_cast<size_t>(options_.connections + options_.idle));
  for (Connection& c : connections_)
    Connect(c);
  start_ = Clock::now();
  const auto end = start_ + std::chrono::nanoseconds(static_cast<int64_t>(options_.seconds * 1e9));
  for (int i = 0; i < options_.connections; ++i) {
    Connection& c = connections_[static_cast<size_t>(i)];
    if (options_.rate > 0) {
      ready_.push_back(&c);
    } else {
      Send(c, start_);
    }
  }
  std::vector<epoll_event> events(1024);
  for (;;) {
    const auto now = Clock::now();
    if (now >= end) break;
    if (options_.rate > 0) Feed(now);
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                 options_.rate > 0 ? 0 : 100);
    for (int i = 0; i < ready; ++i) {
      Connection& c = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      const bool asked = c.in_flight > 0;
      if (!Read(c)) {
        std::fprintf(stderr, "fg_token_load: the server closed a connection\n");
        return 1;
      }
      if (!asked || c.in_flight > 0) continue;
      if (options_.rate > 0) {
        ready_.push_back(&c);
      } else {
        Send(c, Clock::now());
      }
    }
  }
  Print(std::chrono::duration<double>(Clock::now() - start_).count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--port")
      options.port = std::atoi(value);
    else if (name == "--connections")
      options.connections = std::atoi(value);
    else if (name == "--depth")
      options.depth = std::atoi(value);
    else if (name == "--idle")
      options.idle = std::atoi(value);
    else if (name == "--seconds")
      options.seconds = std::atof(value);
    else if (name == "--rate")
      options.rate = std::atof(value);
    else if (name == "--flow")
      options.flow = std::atoll(value);
    else if (name == "--flows")
      options.flows = std::strtoull(value, nullptr, 10);
    else if (name == "--values")
      options.values = std::strtoull(value, nullptr, 10);
    else if (name == "--namespace")
      options.name_space = value;
    else {
      std::fprintf(stderr, "fg_token_load: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  if (options.port <= 0 || options.depth <= 0 || options.flows == 0) {
    std::fprintf(stderr, "usage: fg_token_load --port P [--connections N] [--depth N] ...\n");
    return 2;
  }
  return Load(options).Run();
}
