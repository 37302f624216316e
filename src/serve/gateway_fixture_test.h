// SPDX-License-Identifier: Apache-2.0
//
// A gateway with scripted upstreams and raw clients, all on real sockets in the
// test's one thread, with a clock that the test moves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/socket.h"
#include "serve/gateway.h"
#include "testing/manual_clock.h"
#include "testing/socket_client.h"

namespace flowguard::serve {

// An upstream that keeps every byte it is sent and answers what the test says.
class ScriptedUpstream final : public net::Acceptor {
 public:
  class Peer final : public net::Watcher {
   public:
    Peer(ScriptedUpstream& owner, net::Fd fd) : owner_(owner), fd_(std::move(fd)) {
      EXPECT_TRUE(owner.loop_.Watch(fd_.get(), *this));
    }
    ~Peer() override { owner_.loop_.Forget(*this); }

    void OnReady(net::Ready ready) noexcept override {
      if (!fd_) return;
      Flush();
      if (ready.readable && reading) Read();
    }
    void Read() {
      std::vector<char> buffer(262144);
      while (fd_) {
        const net::IoResult got = net::Receive(fd_.get(), buffer);
        if (got.status == net::IoStatus::kEnd) ended = true;
        if (got.status == net::IoStatus::kError) reset = true;
        if (got.status != net::IoStatus::kOk) break;
        bytes += got.bytes;
        if (keep) received.append(buffer.data(), got.bytes);
        if (owner_.on_data) owner_.on_data(*this);
      }
    }
    void Send(std::string_view text) {
      unsent_.append(text);
      Flush();
    }
    void Close() { fd_.Close(); }
    void Reset() {
      net::ResetOnClose(fd_.get());
      fd_.Close();
    }
    [[nodiscard]] size_t unsent() const { return unsent_.size(); }

    std::string received;
    size_t bytes = 0;
    size_t answered = 0;  // of received
    bool keep = true;     // keep what is received
    bool reading = true;
    bool ended = false;
    bool reset = false;

   private:
    void Flush() {
      while (fd_ && !unsent_.empty()) {
        const net::IoResult sent = net::Send(fd_.get(), unsent_.data(), unsent_.size());
        if (sent.bytes == 0) break;
        unsent_.erase(0, sent.bytes);
      }
    }
    ScriptedUpstream& owner_;
    net::Fd fd_;
    std::string unsent_;
  };

  explicit ScriptedUpstream(net::Loop& loop) : loop_(loop) {
    listener_ =
        std::move(net::Listener::Open(loop, *net::Address::Parse("127.0.0.1:0"), *this)).value();
    address_ = listener_->address();
  }
  [[nodiscard]] const net::Address& address() const { return address_; }
  // Refuses connections from now on.
  void StopListening() { listener_->Close(); }
  void OnAccept(net::Fd fd, const net::Address& /*peer*/) noexcept override {
    peers.push_back(std::make_unique<Peer>(*this, std::move(fd)));
  }

  // Answers every request without a body with `answer`.
  void AlwaysAnswer(std::string answer) {
    on_data = [answer = std::move(answer)](Peer& peer) {
      for (size_t end = peer.received.find("\r\n\r\n", peer.answered); end != std::string::npos;
           end = peer.received.find("\r\n\r\n", peer.answered)) {
        peer.answered = end + 4;
        peer.Send(answer);
      }
    };
  }
  // Request heads over all connections.
  [[nodiscard]] size_t requests() const {
    size_t count = 0;
    for (const auto& peer : peers) {
      for (size_t at = peer->received.find(" HTTP/1.1\r\n"); at != std::string::npos;
           at = peer->received.find(" HTTP/1.1\r\n", at + 1)) {
        ++count;
      }
    }
    return count;
  }

  std::vector<std::unique_ptr<Peer>> peers;
  std::function<void(Peer&)> on_data;

 private:
  net::Loop& loop_;
  std::unique_ptr<net::Listener> listener_;
  net::Address address_;
};

inline constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

struct GatewayTest : ::testing::Test {
  GatewayTest() { options.upstreams = {upstream.address()}; }

  // Rules, then the gateway with `options` as they are.
  void Open(std::vector<Rule> rules = {}) {
    RuleSet set;
    set.rules = std::move(rules);
    Open(set);
  }
  void Open(const RuleSet& set) {
    const Result<void> loaded = engine->Load(set);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    gateway = std::make_unique<Gateway>(*loop, *engine, options, store);
    address = *gateway->Listen(*net::Address::Parse("127.0.0.1:0"));
  }
  static Rule Limit(std::string name, int64_t limit) {
    Rule rule;
    rule.name = std::move(name);
    rule.rate = {limit, std::chrono::hours(1)};
    return rule;
  }
  static Rule Concurrency(std::string name, int64_t limit) {
    Rule rule;
    rule.name = std::move(name);
    rule.kind = RuleKind::kConcurrency;
    rule.concurrency = limit;
    return rule;
  }

  testing::SocketClient Dial() {
    testing::SocketClient client(address.raw(), address.raw_size());
    Turn();
    return client;
  }
  void Turn(int turns = 6) {
    for (int i = 0; i < turns; ++i)
      loop->RunOnce(Duration::zero());
  }
  bool Until(const std::function<bool()>& done) {
    for (int i = 0; i < 5000; ++i) {
      if (done()) return true;
      loop->RunOnce(std::chrono::milliseconds(1));
    }
    return false;
  }
  // What has come back once something whole did, or the connection ended.
  std::string Ask(testing::SocketClient& client, std::string_view request) {
    client.Forget();
    client.Send(request);
    Until([&] { return !client.Poll().empty() || client.closed(); });
    Turn();
    return client.Poll();
  }
  std::string Get(testing::SocketClient& client, std::string_view path) {
    return Ask(client, "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  // The n-th connection that the upstream has seen, when it has.
  ScriptedUpstream::Peer& Peer(size_t index) {
    EXPECT_TRUE(Until([&] { return upstream.peers.size() > index; }));
    return *upstream.peers[index];
  }
  ScriptedUpstream::Peer& PeerWith(size_t index, std::string_view text) {
    ScriptedUpstream::Peer& peer = Peer(index);
    EXPECT_TRUE(Until([&] { return peer.received.find(text) != std::string::npos; }))
        << peer.received;
    return peer;
  }
  bool UntilReceived(testing::SocketClient& client, std::string_view text) {
    return Until([&] { return client.Poll().find(text) != std::string::npos; });
  }
  bool UntilClosed(testing::SocketClient& client) {
    return Until([&] { return client.Poll(), client.closed(); });
  }
  int64_t InFlight(const std::string& rule) {
    for (const engine::RuleCounters& counters : engine->Counters().rules) {
      if (counters.rule == rule) return counters.inflight;
    }
    return -1;
  }
  [[nodiscard]] const GatewayCounters& counters() const { return gateway->counters(); }

  testing::ManualClock clock;
  std::unique_ptr<net::Loop> loop = std::move(net::Loop::Create(clock)).value();
  std::unique_ptr<engine::Engine> engine = std::move(engine::Engine::Create({})).value();
  ScriptedUpstream upstream{*loop};
  GatewayOptions options;
  engine::QuotaStore* store = nullptr;
  std::unique_ptr<Gateway> gateway;
  net::Address address;
};

}  // namespace flowguard::serve
