// SPDX-License-Identifier: Apache-2.0
//
// What a command costs the client: one connection, a window of commands under way.
//   fg_redis_bench redis://127.0.0.1:6379 [window [commands]]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <sys/resource.h>

#include "flowguard/clock.h"

#include "net/loop.h"
#include "quota/redis/client.h"

namespace {

using flowguard::Duration;
using flowguard::SystemClock;
using flowguard::quota::redis::Commander;
using flowguard::quota::redis::CommandReply;
using flowguard::quota::redis::Failure;
using flowguard::quota::redis::Script;

const Script kScript{"take", "return {1, 2, 3, 4, 5}", "0d511e46704609ec2192810d25ce516abb5e8939"};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Load final : public flowguard::quota::redis::ReplySink {
 public:
  Load(flowguard::net::Loop& loop, Commander& client, bool script)
      : loop_(loop), client_(client), script_(script) {}

  void OnReply(uint64_t /*ticket*/, const CommandReply& reply) noexcept override {
    ++done;
    if (reply.failure != Failure::kNone) ++failed;
    Send();
  }
  void Send() noexcept {
    if (left == 0) return;
    --left;
    const auto deadline = loop_.Now() + std::chrono::seconds(5);
    if (!script_) {
      static constexpr std::array<std::string_view, 1> kPing{"PING"};
      return client_.Command("", kPing, deadline, left, this);
    }
    static constexpr std::array<std::string_view, 1> kKeys{
        "fg:{0123456789abcdef0123456789abcdef}:1"};
    static constexpr std::array<std::string_view, 5> kArgs{"1", "1000000", "50", "1", "0"};
    client_.Run(kScript, kKeys, kArgs, deadline, left, this);
  }
  uint64_t left = 0;
  uint64_t done = 0;
  uint64_t failed = 0;

 private:
  flowguard::net::Loop& loop_;
  Commander& client_;
  bool script_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto options = flowguard::quota::redis::ParseUrl(argc > 1 ? argv[1] : "");
  if (!options.ok()) {
    std::fprintf(stderr, "%s\n", options.error().message.c_str());
    return 2;
  }
  const uint64_t window = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 128;
  const uint64_t commands = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1'000'000;
  const auto loop = std::move(flowguard::net::Loop::Create(SystemClock())).value();
  flowguard::quota::redis::Metrics metrics;
  const auto client =
      std::move(flowguard::quota::redis::MakeCommander(*loop, *options, metrics, 1)).value();
  while (metrics.connected.value() == 0)
    loop->RunOnce(std::chrono::seconds(1));
  for (const bool script : {false, true}) {
    Load load(*loop, *client, script);
    load.left = commands;
    const double cpu = CpuSeconds();
    const auto begin = SystemClock().Now();
    for (uint64_t i = 0; i < window; ++i)
      load.Send();
    while (load.done < commands)
      loop->RunOnce(std::chrono::seconds(1));
    const double wall = std::chrono::duration<double>(SystemClock().Now() - begin).count();
    const auto count = static_cast<double>(commands);
    std::printf("%-8s window %llu: %.0f ops/s, client CPU %.0f ns/op, failed %llu\n",
                script ? "EVALSHA" : "PING", static_cast<unsigned long long>(window), count / wall,
                (CpuSeconds() - cpu) / count * 1e9, static_cast<unsigned long long>(load.failed));
  }
  return 0;
}
