// SPDX-License-Identifier: Apache-2.0
//
// For tests: a Handler behind a real server on a loopback port, and a client for it,
// all on the test's own thread; the clock moves by hand, nothing sleeps.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/bounds.h"
#include "http/handler_service.h"
#include "http/server.h"
#include "net/address.h"
#include "net/loop.h"
#include "testing/socket_client.h"

namespace flowguard::serve {

class HandlerClient {
 public:
  HandlerClient(net::Loop& loop, http::Handler& handler)
      : loop_(loop), service_(handler, base::kDecisionBodyBytesMax), server_(loop, {}, service_) {
    const auto bound = server_.Listen(net::Address::Parse("127.0.0.1:0").value());
    EXPECT_TRUE(bound.ok());
    address_ = *bound;
    Connect();
  }

  // Opens a connection of its own for what follows.
  void Connect() {
    socket_ =
        std::make_unique<flowguard::testing::SocketClient>(address_.raw(), address_.raw_size());
    taken_ = 0;
  }
  void Close() { socket_->Close(); }
  [[nodiscard]] http::Server& server() noexcept { return server_; }
  void Send(std::string_view request) { socket_->Send(request); }

  // Lets the server work until it has nothing to do, and takes what it sent.
  std::string Receive() {
    for (int idle = 0; idle < kIdleTurns;) {
      const size_t before = socket_->Poll().size();
      const bool worked = loop_.RunOnce(Duration::zero()) > 0;
      idle = worked || socket_->Poll().size() > before ? 0 : idle + 1;
    }
    std::string received = socket_->Poll().substr(taken_);
    taken_ += received.size();
    return received;
  }

  std::string Ask(std::string_view request) {
    Send(request);
    std::string answer;
    for (int turn = 0; turn < kTurnsMax && answer.empty(); ++turn)
      answer = Receive();
    return answer;
  }

  std::string Get(std::string_view target, std::string_view lines = "") {
    return Ask("GET " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n" + std::string(lines) +
               "\r\n");
  }

  std::string Post(std::string_view target, std::string_view body) {
    return Ask("POST " + std::string(target) + " HTTP/1.1\r\nHost: x\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
  }

 private:
  static constexpr int kIdleTurns = 5;
  static constexpr int kTurnsMax = 2'000;  // before a test gives up

  net::Loop& loop_;
  http::HandlerService service_;
  http::Server server_;
  net::Address address_;
  std::unique_ptr<flowguard::testing::SocketClient> socket_;
  size_t taken_ = 0;
};

// "200" of an answer.
inline std::string StatusOf(const std::string& answer) {
  return answer.size() < 12 ? "" : answer.substr(9, 3);
}

inline std::string BodyOf(const std::string& answer) {
  const size_t at = answer.find("\r\n\r\n");
  return at == std::string::npos ? "" : answer.substr(at + 4);
}

}  // namespace flowguard::serve
