// SPDX-License-Identifier: Apache-2.0
//
// Shared decisions of one node against one Redis, in a closed loop: a line of input
// `CASE SECONDS WINDOW` is answered by a line of JSON.
//
//   fg_redis_bench redis://127.0.0.1:6379
//
// single         takes of random keys, one call for each, straight to the cells
// keys           takes of random keys, as the store sends them
//                (these two for their rate and CPU: no take is timed, as in the peers' programs)
// hot, hot-short takes of one key; short: of a limit below what is asked
// lease, lease-short  the same with leases
// take           no load: the script of a take, and the words of one call of it
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>
#include <time.h>

#include "quota/cell_key.h"
#include "quota/cell_shape.h"
#include "quota/known_cells.h"
#include "quota/scripts/scripts.h"
#include "redis/admissions.h"
#include "redis/node.h"

namespace flowguard::bench {
namespace {

using engine::TakeOutcome;

constexpr uint64_t kKeys = 10'000;
constexpr size_t kLatenciesMax = size_t{1} << 22;
constexpr size_t kAdmissionsUsual = size_t{1} << 20;
// Of one turn of the loop: what else would run then.
constexpr size_t kTakesPerTurn = 256;
constexpr Duration kPatience = std::chrono::seconds(1);
constexpr Duration kSettle = std::chrono::milliseconds(200);

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t WallMicros() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

// Keeps a window of takes under way, and notes what becomes of them.
class Load : public engine::TakeSink, public quota::CellSink {
 public:
  explicit Load(Node& node) : node_(node), admissions_(kAdmissionsUsual) {
    latencies_.reserve(kLatenciesMax);
  }

  // Keys of one bucket, or of many; `straight` to the cells.
  void Prepare(const Bucket& bucket, uint64_t keys, bool straight) {
    bucket_ = &bucket;
    straight_ = straight;
    timed_ = keys == 1;
    take_ = bucket.Take({});
    shape_ = quota::ShapeOf(take_, 0);
    keys_ = keys;
    key_ = bucket.KeyOf(0);
    if (straight) key_ = quota::CellKey(bucket.Take(key_), shape_, {}).text();
    digits_end_ = key_.rfind('0') + 1;
  }

  void Run(double seconds, size_t window) {
    issued_.assign(window, {});
    free_.clear();
    for (size_t slot = 0; slot < window; ++slot)
      free_.push_back(slot);
    RunUntil(SystemClock().Now() + kSettle);
    Forget();
    const quota::StoreStatus before = node_.store.status();
    const double cpu = CpuSeconds();
    const Instant begin = SystemClock().Now();
    RunUntil(begin + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
    cpu_ = CpuSeconds() - cpu;
    wall_ = std::chrono::duration<double>(SystemClock().Now() - begin).count();
    const uint64_t measured = granted_ + refused_ + failed_;
    const quota::StoreStatus after = node_.store.status();
    stop_ = true;
    while (free_.size() < window)
      node_.loop->RunOnce(kPatience);
    stop_ = false;
    Print(measured, before, after);
  }

  void OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept override {
    const TakeOutcome& outcome = outcomes.front();
    if (outcome.status == TakeOutcome::Status::kTaken) {
      ++granted_;
      // By the clock of who decided: units taken ahead are spent here.
      const bool decided = outcome.store_time_us != 0;
      if (!decided) ++ahead_;
      if (timed_) {
        admissions_.Add(decided ? outcome.store_time_us : WallMicros(), 1);
      }
    } else if (outcome.status == TakeOutcome::Status::kRefused) {
      ++refused_;
    } else {
      ++failed_;
    }
    Ended(ticket);
  }
  void OnReplies(uint64_t ticket, std::span<const quota::CellReply> replies) noexcept override {
    const quota::CellReply& reply = replies.front();
    if (reply.status != quota::CellReply::Status::kDone) {
      ++failed_;
    } else {
      ++(reply.granted > 0 ? granted_ : refused_);
    }
    Ended(ticket);
  }

 private:
  void Forget() {
    granted_ = refused_ = failed_ = ahead_ = 0;
    admissions_.Clear();
    latencies_.clear();
  }
  void RunUntil(Instant end) {
    while (SystemClock().Now() < end) {
      left_in_turn_ = std::max(kTakesPerTurn, issued_.size());
      Fill();
      // Those that are answered at once leave nothing to wait for.
      node_.loop->RunOnce(free_.empty() ? kPatience : Duration::zero());
    }
  }
  // From inside an answer too, but not from inside Take.
  void Fill() noexcept {
    if (filling_ || stop_) return;
    filling_ = true;
    const Instant now = timed_ ? SystemClock().Now() : Instant();
    while (!free_.empty() && left_in_turn_ > 0) {
      --left_in_turn_;
      const size_t slot = free_.back();
      free_.pop_back();
      if (timed_) issued_[slot] = now;
      if (keys_ > 1) DrawKey();
      const Instant turn = node_.loop->Now();
      if (straight_) {
        quota::CellCall call;
        call.key = key_;
        call.shape = &shape_;
        node_.cells.Call({&call, 1}, false, turn + kPatience, slot, this);
      } else {
        take_.key = key_;
        node_.store.Take({&take_, 1}, turn, turn + kPatience, slot, this);
      }
    }
    filling_ = false;
  }
  void Ended(uint64_t slot) noexcept {
    if (timed_ && latencies_.size() < kLatenciesMax && !filling_) {
      latencies_.push_back(static_cast<float>((SystemClock().Now() - issued_[slot]).count()));
    }
    free_.push_back(slot);
    Fill();
  }
  // Writes the number of a user into the key, as who asks has it from a request: reading it from
  // a table of thousands would cost more than the client does.
  void DrawKey() noexcept {
    uint64_t number = Random() % keys_;
    size_t at = digits_end_;
    for (uint64_t most = keys_ - 1; most > 0; most /= 10) {
      key_[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    }
  }
  uint64_t Random() noexcept {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }
  double QuantileUs(double q) {
    if (latencies_.empty()) return 0;
    const auto at = latencies_.begin() +
                    static_cast<std::ptrdiff_t>(q * static_cast<double>(latencies_.size() - 1));
    std::nth_element(latencies_.begin(), at, latencies_.end());
    return static_cast<double>(*at) / 1e3;
  }
  void Print(uint64_t measured, const quota::StoreStatus& before, const quota::StoreStatus& after) {
    const auto count = static_cast<double>(std::max<uint64_t>(measured, 1));
    const auto per = [&](uint64_t x, uint64_t y) {
      return y == 0 ? 0.0 : static_cast<double>(x) / static_cast<double>(y);
    };
    std::printf(
        "{\"rate\": %.0f, \"cpu_ns\": %.1f, \"granted\": %llu, \"refused\": %llu, "
        "\"failed\": %llu, \"ahead\": %llu, \"overshoot\": %lld, \"excess\": %.3f, \"seconds\": "
        "%.3f, \"p50_us\": %.1f, "
        "\"p99_us\": %.1f, \"takes_a_flight\": %.2f, \"leases\": %llu}\n",
        count / wall_, cpu_ / count * 1e9, static_cast<unsigned long long>(granted_),
        static_cast<unsigned long long>(refused_), static_cast<unsigned long long>(failed_),
        static_cast<unsigned long long>(ahead_), static_cast<long long>(bucket_->overshoot()),
        admissions_.Excess(bucket_->rate(), bucket_->burst()), wall_, QuantileUs(0.5),
        QuantileUs(0.99), per(measured, after.flights - before.flights),
        static_cast<unsigned long long>(after.leases - before.leases));
    std::fflush(stdout);
  }

  Node& node_;
  const Bucket* bucket_ = nullptr;
  bool straight_ = false;
  bool timed_ = false;
  engine::RemoteTake take_;
  quota::CellShape shape_;
  uint64_t keys_ = 1;
  std::string key_;        // as the engine writes it; straight: as Redis has it
  size_t digits_end_ = 0;  // of the user's number in it
  std::vector<Instant> issued_;
  std::vector<size_t> free_;
  size_t left_in_turn_ = 0;
  bool filling_ = false;
  bool stop_ = false;
  uint64_t random_ = 88172645463325252;
  uint64_t granted_ = 0;
  uint64_t refused_ = 0;
  uint64_t failed_ = 0;
  uint64_t ahead_ = 0;
  Admissions admissions_;
  std::vector<float> latencies_;  // ns
  double cpu_ = 0;
  double wall_ = 0;
};

// The digest, and what follows the key in one call.
void PrintTake(const Bucket& bucket) {
  const std::string key = bucket.KeyOf(0);
  const engine::RemoteTake take = bucket.Take(key);
  const quota::CellShape shape = quota::ShapeOf(take, 0);
  const quota::ScriptShape script = quota::ScriptShapeOf(shape);
  const quota::CellKey text(take, shape, {});
  std::printf("{\"sha1\": \"%s\", \"key\": \"%s\", \"words\": [\"%lld\", \"%lld\", \"%lld\"]}\n",
              std::string(quota::scripts::kTokenBucketTake.sha1).c_str(),
              std::string(text.text()).c_str(), static_cast<long long>(script.numbers[0]),
              static_cast<long long>(script.numbers[1]), static_cast<long long>(script.numbers[2]));
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  Node node(argc > 1 ? argv[1] : "");
  constexpr Duration kSecond = std::chrono::seconds(1);
  const Bucket many("keys", {1'000, kSecond}, 1'000);
  const Bucket hot("hot", {50'000'000, kSecond}, 1'000);
  const Bucket hot_short("hot-short", {200'000, kSecond}, 1'000);
  const Bucket lease("lease", {100'000'000, kSecond}, 1'000'000, 1'000'000);
  const Bucket lease_short("lease-short", {200'000, kSecond}, 1'000, 5'000);
  Load load(node);
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string name;
    double seconds = 1;
    size_t window = 128;
    words >> name >> seconds >> window;
    if (name == "take") {
      PrintTake(many);
      continue;
    }
    const bool straight = name == "single";
    const bool spread = straight || name == "keys";
    const Bucket* const bucket = spread                  ? &many
                                 : name == "hot"         ? &hot
                                 : name == "hot-short"   ? &hot_short
                                 : name == "lease"       ? &lease
                                 : name == "lease-short" ? &lease_short
                                                         : nullptr;
    if (bucket == nullptr) {
      std::fprintf(stderr, "unknown case \"%s\"\n", name.c_str());
      return 2;
    }
    load.Prepare(*bucket, spread ? kKeys : 1, straight);
    load.Run(seconds, window);
  }
  return 0;
}

}  // namespace
}  // namespace flowguard::bench

int main(int argc, char** argv) {
  return flowguard::bench::Main(argc, argv);
}
