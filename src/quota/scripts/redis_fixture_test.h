// SPDX-License-Identifier: Apache-2.0
//
// A redis-server of the test's own, and a Commander on it that asks at once and answers
// when it is told to.  The clock that scripts see can be set.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quota/redis/commander.h"
#include "testing/socket_client.h"
#include "wire/resp_text_test.h"

namespace flowguard::quota {

// Listens on a socket in a folder of its own; gone with it.
class RedisProcess {
 public:
  RedisProcess() {
    char folder[] = "/tmp/fg_redis_XXXXXX";
    folder_ = mkdtemp(folder);
    socket_ = folder_ + "/s";
    pid_ = fork();
    if (pid_ == 0) {
      const std::string log = folder_ + "/log";
      execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket_.c_str(),
             "--save", "", "--appendonly", "no", "--dir", folder_.c_str(), "--logfile", log.c_str(),
             static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  RedisProcess(const RedisProcess&) = delete;
  RedisProcess& operator=(const RedisProcess&) = delete;
  ~RedisProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }

  // Waits until the server takes connections.
  [[nodiscard]] testing::SocketClient Connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket_.c_str(), sizeof address.sun_path - 1);
    for (int tries = 0;; ++tries) {
      testing::SocketClient client(reinterpret_cast<const sockaddr*>(&address), sizeof address);
      if (!client.reset() || tries == 2000) return client;
      poll(nullptr, 0, 5);
    }
  }

 private:
  std::string folder_;
  std::string socket_;
  pid_t pid_ = -1;
};

// A reply that owns what it says.
struct OwnReply {
  wire::resp::Value value;
  std::string text;
  std::vector<OwnReply> items;
  std::vector<wire::resp::Value> values;

  // To be called when it has its place.
  void Link() {
    value.text = text;
    values.clear();
    for (OwnReply& item : items) {
      item.Link();
      values.push_back(item.value);
    }
    value.items = values;
  }
};

class RedisConnection {
 public:
  explicit RedisConnection(const RedisProcess& process) : client_(process.Connect()) {}

  OwnReply Ask(const std::vector<std::string>& words) {
    std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words)
      bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    client_.Forget();
    client_.Send(bytes);
    OwnReply reply;
    while (true) {
      size_t at = 0;
      reply = {};
      if (Read(client_.Poll(), at, reply) || client_.closed()) break;
      pollfd waits{.fd = client_.fd(), .events = POLLIN, .revents = 0};
      poll(&waits, 1, 10'000);
    }
    EXPECT_FALSE(client_.closed());
    reply.Link();
    return reply;
  }
  int64_t AskNumber(const std::vector<std::string>& words) { return Ask(words).value.integer; }
  std::string AskText(const std::vector<std::string>& words) { return Ask(words).text; }

 private:
  static bool Read(const std::string& bytes, size_t& at, OwnReply& reply) {
    using Type = wire::resp::Value::Type;
    const size_t end = bytes.find("\r\n", at);
    if (end == std::string::npos) return false;
    const char kind = bytes[at];
    const std::string line = bytes.substr(at + 1, end - at - 1);
    at = end + 2;
    if (kind == '+' || kind == '-') {
      reply.value.type = kind == '+' ? Type::kString : Type::kError;
      reply.text = line;
      return true;
    }
    const int64_t number = std::strtoll(line.c_str(), nullptr, 10);
    if (kind == ':') {
      reply.value.type = Type::kInteger;
      reply.value.integer = number;
      return true;
    }
    if (number < 0) return true;
    if (kind == '$') {
      const auto size = static_cast<size_t>(number);
      if (bytes.size() < at + size + 2) return false;
      reply.value.type = Type::kString;
      reply.text = bytes.substr(at, size);
      at += size + 2;
      return true;
    }
    reply.value.type = Type::kArray;
    reply.items.resize(static_cast<size_t>(number));
    for (OwnReply& item : reply.items) {
      if (!Read(bytes, at, item)) return false;
    }
    return true;
  }

  testing::SocketClient client_;
};

// Runs each command when it is asked, and tells the replies in Flush.
class BlockingCommander final : public redis::Commander {
 public:
  explicit BlockingCommander(const RedisProcess& process) : connection(process) {}

  // The clock of the scripts, in us; else the server's.
  std::optional<int64_t> now_us;
  std::optional<redis::Failure> fail_with;  // instead of asking
  uint32_t place = 0;
  int scripts_run = 0;
  std::string last_error;
  RedisConnection connection;

  void Run(const redis::Script& script, std::span<const std::string_view> keys,
           const wire::resp::EncodedWords& args, Instant, uint64_t ticket,
           redis::ReplySink* sink) noexcept override {
    ++scripts_run;
    std::string source(script.source);
    std::vector<std::string> words{"EVAL", source, std::to_string(keys.size())};
    words.insert(words.end(), keys.begin(), keys.end());
    for (std::string& word : WordsOf(args))
      words.push_back(std::move(word));
    if (now_us.has_value()) {
      words[1] = std::string(kSetClock) + source;
      words.push_back(std::to_string(*now_us / 1'000'000));
      words.push_back(std::to_string(*now_us % 1'000'000));
    }
    waiting_.push_back({ticket, sink, fail_with ? OwnReply{} : connection.Ask(words),
                        fail_with.value_or(redis::Failure::kNone)});
  }
  void Command(std::string_view, std::span<const std::string_view> words, Instant, uint64_t ticket,
               redis::ReplySink* sink) noexcept override {
    waiting_.push_back(
        {ticket, sink, connection.Ask({words.begin(), words.end()}), redis::Failure::kNone});
  }
  [[nodiscard]] uint32_t PlaceOf(std::string_view) const noexcept override { return place; }

  void Flush() {
    std::vector<Waiting> told = std::exchange(waiting_, {});
    for (Waiting& one : told) {
      one.reply.Link();
      redis::CommandReply reply{.failure = one.failure, .error = {}, .value = &one.reply.value};
      if (one.reply.value.type == wire::resp::Value::Type::kError) {
        reply.failure = redis::Failure::kScriptError;
        last_error = one.reply.text;
      }
      one.sink->OnReply(one.ticket, reply);
    }
  }

 private:
  // In front of a script, it makes TIME answer the last two arguments.
  static constexpr std::string_view kSetClock =
      "local fg_usec, fg_sec = table.remove(ARGV), table.remove(ARGV)\n"
      "local fg_redis = redis\n"
      "local redis = {call = function(name, ...)\n"
      "  if name == 'TIME' then return {fg_sec, fg_usec} end\n"
      "  return fg_redis.call(name, ...)\n"
      "end}\n";

  struct Waiting {
    uint64_t ticket;
    redis::ReplySink* sink;
    OwnReply reply;
    redis::Failure failure;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace flowguard::quota
