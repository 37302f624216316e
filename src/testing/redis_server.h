// SPDX-License-Identifier: Apache-2.0
//
// A real redis-server of the test's own: on a free port of 127.0.0.1 and on a Unix
// socket, in a directory that goes with it.
#pragma once

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/socket_client.h"

namespace flowguard::testing {

// A port of 127.0.0.1 that nobody listens on now.
inline uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd, raw, size), 0);
  EXPECT_EQ(getsockname(fd, raw, &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

// Turns until `condition`, at most about `seconds`; whether it came.
template <typename Condition>
bool WaitFor(Condition condition, int seconds = 20) {
  for (int i = 0; i < seconds * 500; ++i) {
    if (condition()) return true;
    poll(nullptr, 0, 2);
  }
  return condition();
}

// Threads: one owner.
class RedisServer {
 public:
  struct Setup {
    std::vector<std::string> arguments;  // more of redis-server's, as {"--requirepass", "x"}
    std::string config;                  // lines of a file that the server may rewrite
    std::vector<std::string> greeting;   // what Ask sends first, as {"AUTH", "x"}
    bool plain = true;                   // listens without TLS; else `arguments` say where
    bool sentinel = false;
  };

  RedisServer() : RedisServer(Setup()) {}
  // Starts it and waits until it answers.
  explicit RedisServer(Setup setup) : setup_(std::move(setup)), port_(FreePort()) {
    std::string name = (std::filesystem::temp_directory_path() / "fg-redis-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no directory " << name;
    directory_ = name;
    std::ofstream(directory_ + "/redis.conf") << setup_.config;
    Start();
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;
  ~RedisServer() {
    Kill();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] std::string url() const { return "redis://" + endpoint(); }
  [[nodiscard]] std::string socket_path() const { return directory_ + "/redis.sock"; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  // On the same port, with the memory empty.
  void Start() {
    Spawn();
    const bool up = WaitFor([this] {
      const std::string answer = Ask({"PING"});
      return answer.substr(0, 5) == "+PONG" || answer.substr(0, 7) == "-NOAUTH";
    });
    if (!up) {
      std::ifstream log(directory_ + "/log");
      ADD_FAILURE() << "redis-server does not answer: "
                    << std::string(std::istreambuf_iterator<char>(log), {});
    }
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  // SIGSTOP: connections stand, nothing is answered.
  void Pause() const {
    kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
  }
  void Resume() const { kill(pid_, SIGCONT); }

  // The reply to one command as it came, RESP2; empty: none.
  std::string Ask(const std::vector<std::string>& words) const {
    // The Unix socket, because it is there with TLS, too.
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
    SocketClient client(reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (!setup_.greeting.empty()) {
      client.Send(Encode(setup_.greeting));
      WaitFor([&] { return client.Poll().find("\r\n") != std::string::npos || client.closed(); });
      client.Forget();
    }
    client.Send(Encode(words));
    client.ShutdownWrites();
    WaitFor([&] {
      client.Poll();
      return client.closed();
    });
    return client.received();
  }

 private:
  static std::string Encode(const std::vector<std::string>& words) {
    std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words)
      bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    return bytes;
  }

  void Spawn() {
    std::vector<std::string> words{"redis-server", directory_ + "/redis.conf",
                                   "--bind",       "127.0.0.1",
                                   "--port",       std::to_string(setup_.plain ? port_ : 0),
                                   "--unixsocket", socket_path(),
                                   "--dir",        directory_,
                                   "--logfile",    directory_ + "/log",
                                   "--daemonize",  "no"};
    if (!setup_.sentinel) words.insert(words.end(), {"--save", "", "--appendonly", "no"});
    words.insert(words.end(), setup_.arguments.begin(), setup_.arguments.end());
    if (setup_.sentinel) words.emplace_back("--sentinel");
    std::vector<char*> argv;
    for (std::string& word : words)
      argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it goes when the test goes, whatever the reason
    const int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    execvp(argv.front(), argv.data());
    _exit(127);
  }

  Setup setup_;
  uint16_t port_;
  std::string directory_;
  pid_t pid_ = -1;
};

}  // namespace flowguard::testing
