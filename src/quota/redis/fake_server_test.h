// SPDX-License-Identifier: Apache-2.0
//
// A server that answers what the test says, turn by turn with the loop of the client,
// on a clock that is moved by hand.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "net/listener.h"
#include "net/loop.h"
#include "net/socket.h"
#include "quota/redis/client.h"
#include "quota/redis/reply_log_test.h"
#include "testing/manual_clock.h"
#include "wire/resp.h"

namespace flowguard::quota::redis {

using Words = std::vector<std::string>;

class FakeServer final : public net::Acceptor {
 public:
  explicit FakeServer(net::Loop& loop) : loop_(loop) { Listen(net::Address()); }

  [[nodiscard]] std::string endpoint() const { return address_.ToString(); }
  // Every connection so far, the newest last.
  [[nodiscard]] size_t accepted() const { return accepted_; }
  [[nodiscard]] bool connected() const { return static_cast<bool>(fd_); }

  // Takes in what came; the commands that were not returned yet.
  std::vector<Words> Commands() {
    std::vector<char> buffer(1 << 20);
    while (fd_) {
      const net::IoResult result = net::Receive(fd_.get(), buffer);
      if (result.status == net::IoStatus::kEnd || result.status == net::IoStatus::kError)
        fd_.Close();
      if (result.status != net::IoStatus::kOk) break;
      ++reads_;
      received_.append(buffer.data(), result.bytes);
    }
    std::vector<Words> commands;
    wire::resp::Reader reader;
    while (reader.Read(received_) == wire::resp::Reader::Status::kDone) {
      commands.emplace_back();
      for (const wire::resp::Value& word : reader.value().items)
        commands.back().emplace_back(word.text);
      received_.erase(0, reader.consumed());
    }
    return commands;
  }
  // Reads that found something: one for each write of the client's.
  [[nodiscard]] size_t reads() const { return reads_; }

  void Send(std::string_view bytes) {
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
  size_t accepted_ = 0;
  size_t reads_ = 0;
};

struct FakeServerTest : ::testing::Test {
  // Enough turns for all that is under way; no time passes.
  void Turn(int turns = 8) {
    for (int i = 0; i < turns; ++i)
      loop->RunOnce(Duration::zero());
  }
  void Advance(Duration by) {
    clock.Advance(by);
    Turn();
  }
  void Make(const std::string& more = "") {
    Options options = *ParseUrl("redis://" + server.endpoint() + more);
    client = std::move(MakeCommander(*loop, options, metrics, 1)).value();
    Turn();
  }
  // Connects and greets in RESP2 without a name, so that the commands are all that comes.
  void MakeReady(const std::string& more = "") {
    Make("?protocol=2" + more);
    Greet();
  }
  void Greet() {
    Turn();
    ASSERT_EQ(server.Commands(), (std::vector<Words>{{"CLIENT", "SETNAME", "flowguard"}}));
    server.Send("+OK\r\n");
    Turn();
  }
  void Run(uint64_t ticket, Duration within = std::chrono::milliseconds(20),
           std::string_view key = "k") {
    client->Run(script, {&key, 1}, {1, "$1\r\n7\r\n"}, loop->Now() + within, ticket, &log);
  }
  // The bytes as words of EVALSHA for `key`.
  [[nodiscard]] Words Evalsha(const std::string& key = "k") const {
    return {"EVALSHA", std::string(script.sha1), "1", key, "7"};
  }
  [[nodiscard]] Words Eval(const std::string& key = "k") const {
    return {"EVAL", std::string(script.source), "1", key, "7"};
  }

  testing::ManualClock clock;
  std::unique_ptr<net::Loop> loop = std::move(net::Loop::Create(clock)).value();
  FakeServer server{*loop};
  Script script{"test", "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"};
  Metrics metrics;
  ReplyLog log;
  std::unique_ptr<Commander> client;
};

}  // namespace flowguard::quota::redis
