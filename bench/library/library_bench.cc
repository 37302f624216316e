// SPDX-License-Identifier: Apache-2.0
//
// The library's speed through its public API, and the maps that people build keyed
// limiters from, measured on request in one process: reads a case name a line,
// answers nanoseconds per operation and thread.  bench/run.py interleaves the cases.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <boost/unordered/unordered_flat_map.hpp>
#include <sys/resource.h>
#include <x86intrin.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "flowguard/guard.h"
#include "flowguard/keyed_limiter.h"
#include "flowguard/limiter.h"

#include "measure.h"

namespace {

using namespace std::chrono_literals;
using bench::Keep;
using bench::Measure;
using flowguard::Instant;

constexpr size_t kKeys = 10'000'000;
constexpr size_t kKeyBytes = 16;

// Keys as fixed-width text, in a random order, read one after the other: the
// stream is prefetched, so that only the tables miss.
class KeyStream {
 public:
  explicit KeyStream(size_t keys) : bytes_(keys * kKeyBytes), keys_(keys) {
    std::vector<uint32_t> order(keys);
    for (size_t i = 0; i < keys; ++i)
      order[i] = static_cast<uint32_t>(i);
    uint64_t random = 88172645463325252ULL;
    for (size_t i = keys - 1; i > 0; --i) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      std::swap(order[i], order[random % (i + 1)]);
    }
    for (size_t i = 0; i < keys; ++i) {
      std::snprintf(&bytes_[i * kKeyBytes], kKeyBytes, "10.%03u.%03u.%03u", order[i] >> 16 & 255U,
                    order[i] >> 8 & 255U, order[i] & 255U);
    }
  }
  [[nodiscard]] std::string_view operator[](size_t i) const {
    return {&bytes_[i % keys_ * kKeyBytes], kKeyBytes - 1};
  }
  [[nodiscard]] size_t size() const { return keys_; }

 private:
  std::vector<char> bytes_;
  size_t keys_;
};

const KeyStream& Stream() {
  static const KeyStream stream(kKeys);
  return stream;
}

// --- our side

flowguard::Limiter& OneLimiter() {
  static flowguard::Limiter limiter = [] {
    return flowguard::Limiter::Create({.rate = {1'000'000'000, 1s}}).value();
  }();
  return limiter;
}

flowguard::KeyedLimiter& Keyed() {
  static std::unique_ptr<flowguard::KeyedLimiter> limiter = [] {
    auto made = flowguard::KeyedLimiter::Create(
        {.rate = {1'000'000, 1s}, .burst = 1'000'000'000, .capacity = kKeys, .hash_seed = 7});
    // Every key holds debt for hours, so that it stays live for the whole run.
    for (size_t i = 0; i < kKeys; ++i) {
      Keep(made.value()->TryAcquireAt(flowguard::SystemClock().Now(), Stream()[i], 500'000'000));
    }
    return std::move(made).value();
  }();
  return *limiter;
}

std::unique_ptr<flowguard::Guard> GuardOf(int rules) {
  flowguard::RuleSet set;
  for (int i = 0; i < rules; ++i) {
    flowguard::Rule rule;
    rule.name = "rule-" + std::to_string(i);
    rule.on.route = "GET /service" + std::to_string(i) + "/items/{id}";
    rule.rate = {1'000'000'000, 1s};
    rule.by = {"ip"};
    set.rules.push_back(rule);
  }
  auto made = flowguard::Guard::Create(set);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    std::exit(1);
  }
  return std::move(made).value();
}

double GuardCase(int rules) {
  static std::map<int, std::unique_ptr<flowguard::Guard>> guards;
  auto& guard = guards[rules];
  if (!guard) guard = GuardOf(rules);
  return Measure(1, [&](size_t, size_t count) {
    const flowguard::DimensionValue dimensions[] = {{"ip", "192.0.2.77"}};
    flowguard::Request request;
    request.method = "GET";
    request.path = "/service42/items/1001";
    request.dimensions = dimensions;
    for (size_t i = 0; i < count; ++i)
      Keep(guard->Check(request).allowed());
  });
}

// --- the maps

// 64 shards, each under a mutex; the shard is chosen by other hash bits than the map
// uses, and the value is the same one-word state.
template <typename Map>
class ShardedMap {
 public:
  explicit ShardedMap(size_t keys) {
    for (Shard& shard : shards_)
      shard.map.reserve(keys / kShards + keys / kShards / 8);
  }
  bool TryAcquire(std::string_view key) {
    const uint64_t hash = XXH3_64bits(key.data(), key.size());
    const int64_t now = flowguard::SystemClock().Now().time_since_epoch().count();
    Shard& shard = shards_[hash >> 58];
    const std::scoped_lock lock(shard.mutex);
    int64_t& tat = shard.map[hash * 0x9E3779B97F4A7C15ULL];
    const int64_t next = std::max(tat, now) + 1000;
    if (next - now > 1'000'000'000'000LL) return false;
    tat = next;
    return true;
  }

 private:
  static constexpr size_t kShards = 64;
  struct alignas(128) Shard {
    std::mutex mutex;
    Map map;
  };
  std::vector<Shard> shards_ = std::vector<Shard>(kShards);
};

using AbslMap = ShardedMap<absl::flat_hash_map<uint64_t, int64_t>>;
using BoostMap = ShardedMap<boost::unordered_flat_map<uint64_t, int64_t>>;

template <typename Map>
double MapCase(int threads) {
  static Map map = [] {
    Map filled(kKeys);
    for (size_t i = 0; i < kKeys; ++i)
      Keep(filled.TryAcquire(Stream()[i]));
    return filled;
  }();
  return Measure(threads, [&](size_t begin, size_t count) {
    for (size_t i = begin; i < begin + count; ++i)
      Keep(map.TryAcquire(Stream()[i]));
  });
}

double KeyedCase(int threads) {
  flowguard::KeyedLimiter& limiter = Keyed();
  return Measure(threads, [&](size_t begin, size_t count) {
    for (size_t i = begin; i < begin + count; ++i)
      Keep(limiter.TryAcquire(Stream()[i]));
  });
}

double BatchCase(int threads) {
  flowguard::KeyedLimiter& limiter = Keyed();
  return Measure(threads, [&](size_t begin, size_t count) {
    std::string_view keys[32];
    bool allowed[32];
    for (size_t i = begin; i < begin + count; i += 32) {
      for (size_t k = 0; k < 32; ++k)
        keys[k] = Stream()[i + k];
      limiter.TryAcquireBatch(flowguard::SystemClock().Now(), keys, allowed);
      Keep(allowed[0]);
    }
  });
}

double ClockAndSwap() {
  static std::atomic<int64_t> word{0};
  return Measure(1, [](size_t, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const int64_t now = flowguard::SystemClock().Now().time_since_epoch().count();
      int64_t old = word.load(std::memory_order_relaxed);
      while (!word.compare_exchange_weak(old, now, std::memory_order_relaxed)) {
      }
    }
  });
}

double LimiterCase(int threads) {
  return Measure(threads, [](size_t, size_t count) {
    for (size_t i = 0; i < count; ++i)
      Keep(OneLimiter().TryAcquire());
  });
}

double LimiterGivenNow() {
  return Measure(1, [](size_t, size_t count) {
    Instant now = flowguard::SystemClock().Now();
    for (size_t i = 0; i < count; ++i) {
      now += flowguard::Duration(2);
      Keep(OneLimiter().TryAcquireAt(now));
    }
  });
}

// Bytes a key at ten million live keys, and how many of them are forgotten: each
// key spends its whole burst, and a forgotten one would be let through again.
void Forgotten(uint64_t seed) {
  auto limiter =
      flowguard::KeyedLimiter::Create(
          {.rate = {1, std::chrono::hours(24)}, .burst = 1, .capacity = kKeys, .hash_seed = seed})
          .value();
  const Instant now = flowguard::SystemClock().Now();
  size_t refused_first = 0;
  size_t again = 0;
  for (size_t i = 0; i < kKeys; ++i)
    refused_first += !limiter->TryAcquireAt(now, Stream()[i]);
  for (size_t i = 0; i < kKeys; ++i)
    again += limiter->TryAcquireAt(now, Stream()[i]);
  std::printf("%.3f %zu %zu\n", static_cast<double>(limiter->bytes()) / static_cast<double>(kKeys),
              again, refused_first);
}

}  // namespace

int main() {
  const std::map<std::string, std::function<double()>> cases = {
      {"clock+cas", ClockAndSwap},
      {"limiter-1", [] { return LimiterCase(1); }},
      {"limiter-2", [] { return LimiterCase(2); }},
      {"limiter-now", LimiterGivenNow},
      {"keyed-1", [] { return KeyedCase(1); }},
      {"keyed-2", [] { return KeyedCase(2); }},
      {"batch-1", [] { return BatchCase(1); }},
      {"absl-1", [] { return MapCase<AbslMap>(1); }},
      {"absl-2", [] { return MapCase<AbslMap>(2); }},
      {"boost-1", [] { return MapCase<BoostMap>(1); }},
      {"boost-2", [] { return MapCase<BoostMap>(2); }},
      {"guard-100", [] { return GuardCase(100); }},
      {"guard-10000", [] { return GuardCase(10'000); }},
  };
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.starts_with("forgotten ")) {
      Forgotten(std::strtoull(line.c_str() + 10, nullptr, 10));
    } else if (const auto found = cases.find(line); found != cases.end()) {
      std::printf("%.3f\n", found->second());
    } else {
      std::printf("unknown case %s\n", line.c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}
