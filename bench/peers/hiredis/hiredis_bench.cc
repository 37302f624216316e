// SPDX-License-Identifier: Apache-2.0
//
// hiredis' asynchronous client with libev: one connection, a window of EVALSHA commands
// under way on random keys.  A line of input `SHA1 SECONDS WINDOW KEYS PREFIX SUFFIX
// WORD...` is answered by a line of JSON; a key is PREFIX, twelve digits, SUFFIX.
//
//   fg_hiredis_bench 127.0.0.1 6379
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <hiredis/adapters/libev.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <sys/resource.h>
#include <time.h>

namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double WallSeconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

struct Load {
  redisAsyncContext* context = nullptr;
  std::string key;
  size_t digits_end = 0;  // of the number in it
  uint64_t keys = 1;
  std::vector<const char*> argv;  // argv[3] is the key
  std::vector<size_t> lengths;
  uint64_t random = 88172645463325252;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t out = 0;
  bool stop = false;

  void Send();
};

void OnReply(redisAsyncContext* /*context*/, void* reply, void* data) {
  Load& load = *static_cast<Load*>(data);
  const auto* const answer = static_cast<const redisReply*>(reply);
  ++load.done;
  --load.out;
  if (answer == nullptr || answer->type != REDIS_REPLY_ARRAY) ++load.failed;
  if (!load.stop) load.Send();
  if (load.out == 0) ev_break(EV_DEFAULT, EVBREAK_ALL);
}

void Load::Send() {
  random ^= random << 13;
  random ^= random >> 7;
  random ^= random << 17;
  // As our own program does it.
  uint64_t number = random % keys;
  size_t at = digits_end;
  for (uint64_t most = keys - 1; most > 0; most /= 10) {
    key[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  }
  argv[3] = key.data();
  lengths[3] = key.size();
  ++out;
  redisAsyncCommandArgv(context, OnReply, this, static_cast<int>(argv.size()), argv.data(),
                        lengths.data());
}

void OnTimer(struct ev_loop* /*loop*/, ev_timer* timer, int /*events*/) {
  static_cast<Load*>(timer->data)->stop = true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  Load load;
  load.context = redisAsyncConnect(argv[1], std::atoi(argv[2]));
  if (load.context == nullptr || load.context->err != 0) return 2;
  redisLibevAttach(EV_DEFAULT_ load.context);
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string sha1, prefix, suffix;
    double seconds = 1;
    uint64_t window = 128;
    in >> sha1 >> seconds >> window >> load.keys >> prefix >> suffix;
    std::vector<std::string> words{"EVALSHA", sha1, "1", ""};
    for (std::string word; in >> word;)
      words.push_back(word);
    load.argv.clear();
    load.lengths.clear();
    for (const std::string& word : words) {
      load.argv.push_back(word.data());
      load.lengths.push_back(word.size());
    }
    load.key = prefix + std::string(12, '0');
    load.digits_end = load.key.size();
    load.key += suffix;
    load.done = load.failed = 0;
    load.stop = false;
    ev_timer timer;
    ev_timer_init(&timer, OnTimer, seconds, 0.);
    timer.data = &load;
    ev_timer_start(EV_DEFAULT_ & timer);
    const double cpu = CpuSeconds();
    const double begin = WallSeconds();
    for (uint64_t i = 0; i < window; ++i)
      load.Send();
    ev_run(EV_DEFAULT_ 0);
    const double wall = WallSeconds() - begin;
    const auto done = static_cast<double>(load.done);
    std::printf("{\"rate\": %.0f, \"cpu_ns\": %.1f, \"failed\": %llu}\n", done / wall,
                (CpuSeconds() - cpu) / done * 1e9, static_cast<unsigned long long>(load.failed));
    std::fflush(stdout);
  }
  return 0;
}
