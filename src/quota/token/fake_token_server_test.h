// SPDX-License-Identifier: Apache-2.0
//
// A token server that answers what the test says, turn by turn with the loop of the client,
// on a clock that is moved by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "net/listener.h"
#include "net/loop.h"
#include "net/socket.h"
#include "testing/manual_clock.h"
#include "wire/token_frames.h"

namespace flowguard::quota::token {

using wire::token::Status;
using wire::token::Type;

// A question that a client sent, with its own bytes.
struct Asked {
  int32_t xid = 0;
  int8_t type = 0;
  std::string name_space;
  int64_t flow_id = 0;
  int32_t count = 0;
  bool priority = false;
  std::string values;
  int64_t token_id = 0;
};

class FakeTokenServer final : public net::Acceptor {
 public:
  explicit FakeTokenServer(net::Loop& loop) : loop_(loop) { Listen(net::Address()); }

  [[nodiscard]] std::string endpoint() const { return address_.ToString(); }
  [[nodiscard]] size_t accepted() const { return accepted_; }
  [[nodiscard]] bool connected() const { return static_cast<bool>(fd_); }
  [[nodiscard]] size_t reads() const { return reads_; }
  // Pings are answered so long as this is positive, with so many clients.
  int32_t clients = 1;

  // Answers pings, by their xid, and returns the questions that came since the last call.
  std::vector<Asked> Questions() {
    std::vector<char> buffer(1 << 16);
    while (fd_) {
      const net::IoResult result = net::Receive(fd_.get(), buffer);
      if (result.status == net::IoStatus::kEnd || result.status == net::IoStatus::kError)
        fd_.Close();
      if (result.status != net::IoStatus::kOk) break;
      ++reads_;
      received_.append(buffer.data(), result.bytes);
    }
    std::vector<Asked> questions;
    for (;;) {
      const wire::token::Frame frame = wire::token::ReadFrame(received_);
      if (frame.kind != wire::token::Frame::Kind::kMessage) break;
      const wire::token::Question q = wire::token::ReadQuestion(frame.message);
      EXPECT_EQ(q.fault, wire::token::Question::Fault::kNone);
      if (q.type == static_cast<int8_t>(Type::kPing)) {
        names_.emplace_back(q.name_space);
        std::string pong;
        wire::token::AppendPong(q.xid, clients, pong);
        if (clients > 0) Send(pong);
      } else {
        questions.push_back({q.xid, q.type, "", q.flow_id, q.count, q.priority,
                             std::string(q.values.bytes()), q.token_id});
      }
      received_.erase(0, frame.size);
    }
    return questions;
  }
  // The namespaces of all pings so far.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

  void Answer(const Asked& asked, Status status, int32_t remaining = 0, int32_t wait_ms = 0) {
    std::string bytes;
    wire::token::AppendFlowAnswer(asked.xid, asked.type, status, remaining, wait_ms, bytes);
    Send(bytes);
  }
  void AnswerToken(const Asked& asked, Status status, int64_t token) {
    std::string bytes;
    wire::token::AppendTokenAnswer(asked.xid, status, token, bytes);
    Send(bytes);
  }
  void Send(std::string_view bytes) {
    ASSERT_TRUE(fd_);
    EXPECT_EQ(net::Send(fd_.get(), bytes.data(), bytes.size()).bytes, bytes.size());
  }
  void Drop() { fd_.Close(); }
  // Nobody listens any more, and on the same port again.
  void Down() {
    listener_.reset();
    fd_.Close();
  }
  void Up() { Listen(address_); }

  void OnAccept(net::Fd fd, const net::Address& /*peer*/) noexcept override {
    fd_ = std::move(fd);
    received_.clear();
    ++accepted_;
  }

 private:
  void Listen(const net::Address& at) {
    const net::Address address =
        at.valid() && at.port() != 0 ? at : *net::Address::Parse("127.0.0.1:0");
    auto listener = net::Listener::Open(loop_, address, *this);
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    listener_ = std::move(listener).value();
    address_ = listener_->address();
  }

  net::Loop& loop_;
  net::Address address_;
  std::unique_ptr<net::Listener> listener_;
  net::Fd fd_;
  std::string received_;
  std::vector<std::string> names_;
  size_t accepted_ = 0;
  size_t reads_ = 0;
};

struct TokenClientTest : ::testing::Test {
  // Enough turns for all that is under way; no time passes.
  void Turn(int turns = 8) {
    for (int i = 0; i < turns; ++i)
      loop->RunOnce(Duration::zero());
  }
  void Advance(Duration by) {
    clock.Advance(by);
    Turn();
  }

  testing::ManualClock clock;
  std::unique_ptr<net::Loop> loop = std::move(net::Loop::Create(clock)).value();
};

}  // namespace flowguard::quota::token
