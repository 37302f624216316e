// SPDX-License-Identifier: Apache-2.0
//
// A token server on a loopback port, and its clients, on the test's own thread; the clock
// moves by hand.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "net/loop.h"
#include "serve/token_server.h"
#include "serve/token_session.h"
#include "testing/fake_quota_store.h"
#include "testing/manual_clock.h"
#include "testing/socket_client.h"
#include "wire/token_frames.h"

namespace flowguard::serve {

inline Rule FlowRule(int64_t flow_id, int64_t limit) {
  Rule rule;
  rule.name = "flow-" + std::to_string(flow_id);
  rule.rate = {limit, std::chrono::hours(1)};
  rule.algorithm = Algorithm::kFixedWindow;
  rule.scope = Scope::kCluster;
  rule.cluster.flow_id = flow_id;
  return rule;
}

inline std::string Ping(int32_t xid, std::string_view name_space) {
  std::string frame;
  wire::token::AppendPing(xid, name_space, frame);
  return frame;
}

inline std::string Flow(int32_t xid, int64_t flow_id, int32_t count = 1) {
  std::string frame;
  wire::token::AppendFlow(xid, flow_id, count, false, frame);
  return frame;
}

// A frame of this message.
inline std::string Framed(std::string_view message) {
  std::string frame;
  frame.push_back(static_cast<char>(message.size() >> 8));
  frame.push_back(static_cast<char>(message.size() & 0xff));
  return frame.append(message);
}

// The answers that `bytes` are, all of them whole.
inline std::vector<wire::token::Answer> AnswersOf(std::string_view bytes) {
  std::vector<wire::token::Answer> answers;
  while (!bytes.empty()) {
    const wire::token::Frame frame = wire::token::ReadFrame(bytes);
    if (frame.kind != wire::token::Frame::Kind::kMessage) {
      ADD_FAILURE() << bytes.size() << " bytes are no whole answer";
      return answers;
    }
    answers.push_back(wire::token::ReadAnswer(frame.message));
    bytes.remove_prefix(frame.size);
  }
  return answers;
}

class Door {
 public:
  explicit Door(std::vector<Rule> rules, TokenServerOptions options = {}, bool shared = false,
                int nodes = 0)
      : options_(std::move(options)) {
    TokenServiceOptions with;
    with.shared = shared;
    with.nodes = nodes;
    service_ = TokenService::Create(with).value();
    TokenNamespace all;
    all.rules.rules = std::move(rules);
    const auto loaded = service_->Load({std::move(all)}, clock_.Now());
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    server_ = std::make_unique<TokenServer>(*loop_, *service_, options_, connections_,
                                            shared ? &store_ : nullptr);
    address_ = server_->Listen(net::Address::Parse("127.0.0.1:0").value()).value();
  }

  TokenServer& server() { return *server_; }
  const TokenServerCounters& counters() const { return std::as_const(*server_).counters(); }
  TokenService& service() { return *service_; }
  flowguard::testing::FakeQuotaStore& store() { return store_; }
  // As the end of a process does it.
  void EndServer() { server_ = nullptr; }

  flowguard::testing::SocketClient& Connect() {
    const uint64_t before = counters().connections;
    clients_.emplace_back(address_.raw(), address_.raw_size());
    EXPECT_TRUE(Until([&] { return counters().connections > before; }));
    return clients_.back();
  }
  // Lets the server do what there is to do now.
  void Turn() {
    for (int i = 0; i < kTurns; ++i)
      TurnOnce();
  }
  void Advance(Duration by) {
    clock_.Advance(by);
    Turn();
  }
  // Turns until `condition` holds; false: it does not come to that.
  template <typename Condition>
  bool Until(Condition condition) {
    for (int i = 0; i < kTurnsMax && !condition(); ++i) {
      TurnOnce();
      if (i > kTurns) std::this_thread::yield();  // to who carries bytes from end to end
    }
    return condition();
  }
  // Whether clients take in what comes.
  void set_reads(bool reads) { reads_ = reads; }

  // Has the server take these bytes.
  void Send(flowguard::testing::SocketClient& client, std::string_view bytes) {
    const uint64_t in = counters().bytes_in + bytes.size();
    EXPECT_TRUE(Until([&] {
      bytes.remove_prefix(client.SendSome(bytes));
      return bytes.empty();
    }));
    EXPECT_TRUE(Until([&] { return counters().bytes_in == in; }));
  }
  // The same; what came back to it alone meanwhile.
  std::string Ask(flowguard::testing::SocketClient& client, std::string_view bytes) {
    client.Forget();
    const uint64_t out = counters().bytes_out;
    Send(client, bytes);
    Turn();
    EXPECT_TRUE(Until([&] { return client.Poll().size() >= counters().bytes_out - out; }));
    return client.Poll();
  }
  std::vector<wire::token::Answer> AskAll(flowguard::testing::SocketClient& client,
                                          std::string_view bytes) {
    return AnswersOf(Ask(client, bytes));
  }
  // Has it leave.
  void Close(flowguard::testing::SocketClient& client) {
    const int64_t open = counters().open;
    client.Close();
    EXPECT_TRUE(Until([&] { return counters().open < open; }));
  }
  // The server has closed this connection.
  bool Ended(flowguard::testing::SocketClient& client) {
    return Until([&] {
      client.Poll();
      return client.closed();
    });
  }

 private:
  static constexpr int kTurns = 4;
  static constexpr int kTurnsMax = 200'000;

  void TurnOnce() {
    loop_->RunOnce(Duration::zero());
    if (!reads_) return;
    for (flowguard::testing::SocketClient& client : clients_)
      client.Poll();
  }

  flowguard::testing::ManualClock clock_;
  flowguard::testing::FakeQuotaStore store_;
  std::unique_ptr<net::Loop> loop_ = net::Loop::Create(clock_).value();
  TokenServerOptions options_;
  TokenConnections connections_{0};
  std::unique_ptr<TokenService> service_;
  std::unique_ptr<TokenServer> server_;
  net::Address address_;
  std::deque<flowguard::testing::SocketClient> clients_;
  bool reads_ = true;
};

}  // namespace flowguard::serve
