// SPDX-License-Identifier: Apache-2.0
#include "app/store_metrics.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace flowguard::app {
namespace {

using observe::MetricType;
using quota::StoreStatus;
using quota::redis::Metrics;

struct Outcome {
  std::string_view word;
  uint64_t StoreStatus::*count;
};
constexpr std::array<Outcome, 3> kOutcomes = {{
    {"granted", &StoreStatus::granted},
    {"refused", &StoreStatus::refused},
    {"failed", &StoreStatus::failed},
}};

// How takes were answered without asking, or together with others.
constexpr std::array<Outcome, 4> kSaved = {{
    {"denied", &StoreStatus::denied},
    {"prefiltered", &StoreStatus::prefiltered},
    {"leased", &StoreStatus::leased},
    {"coalesced", &StoreStatus::coalesced},
}};

constexpr std::array<std::string_view, quota::redis::kFailureKinds> kReplies = {
    "ok",      "not_sent",      "timeout", "lost",        "read_only",
    "loading", "out_of_memory", "denied",  "script_error"};

}  // namespace

void StoreMetrics::Collect(observe::MetricsWriter& out) {
  CollectTakes(out);
  CollectRedis(out);
}

void StoreMetrics::CollectTakes(observe::MetricsWriter& out) const {
  std::vector<StoreStatus> all;
  for (const quota::RedisStore* store : stores_)
    all.push_back(store->status());
  const auto sum = [&all](uint64_t StoreStatus::*count) {
    uint64_t total = 0;
    for (const StoreStatus& status : all)
      total += status.*count;
    return total;
  };
  out.Family("flowguard_store_takes", MetricType::kCounter,
             "Takes of shared rules by what the store answered.");
  for (const Outcome& outcome : kOutcomes)
    out.Sample({{"outcome", outcome.word}}, sum(outcome.count));
  out.Family("flowguard_store_saved", MetricType::kCounter,
             "Takes answered without a call of their own.");
  for (const Outcome& saved : kSaved)
    out.Sample({{"by", saved.word}}, sum(saved.count));
  out.Family("flowguard_store_calls", MetricType::kCounter, "Calls on cells.");
  out.Sample({}, sum(&StoreStatus::calls));
  out.Family("flowguard_store_dues_lost", MetricType::kCounter,
             "Give-backs, charges and releases that could not be sent.");
  out.Sample({}, sum(&StoreStatus::dues_lost));
  out.Family("flowguard_store_fallbacks", MetricType::kCounter,
             "Times that a server of the store was found to be away.");
  out.Sample({}, sum(&StoreStatus::fallback_entered));
  int away = 0;
  int nodes = 0;
  for (const StoreStatus& status : all) {
    away = std::max(away, status.places_away);
    nodes = std::max(nodes, status.nodes);
  }
  out.Family("flowguard_store_away", MetricType::kGauge,
             "Servers of the store that do not answer; their rules follow on_store_failure.");
  out.Sample({}, int64_t{away});
  out.Family("flowguard_store_nodes", MetricType::kGauge,
             "Processes that share the limits; 0: not known.");
  out.Sample({}, int64_t{nodes});
}

void StoreMetrics::CollectRedis(observe::MetricsWriter& out) const {
  const auto sum = [this](auto&& count) {
    uint64_t total = 0;
    for (const quota::RedisStore* store : stores_)
      total += count(store->metrics()).value();
    return total;
  };
  out.Family("flowguard_redis_replies", MetricType::kCounter,
             "Commands to Redis by how they ended.");
  for (size_t i = 0; i < kReplies.size(); ++i) {
    out.Sample({{"reply", kReplies[i]}},
               sum([i](const Metrics& metrics) -> const auto& { return metrics.replies[i]; }));
  }
  uint64_t count = 0;
  uint64_t sum_ns = 0;
  for (const quota::RedisStore* store : stores_) {
    const quota::redis::LatencyHistogram& latency = store->metrics().latency;
    for (size_t bucket = 0; bucket < quota::redis::LatencyHistogram::kBuckets; ++bucket)
      count += latency.count(bucket);
    sum_ns += static_cast<uint64_t>(latency.sum().count());
  }
  out.Family("flowguard_redis_latency_seconds", MetricType::kSummary,
             "From a command to its reply.");
  out.SampleSummary({}, count, sum_ns);
  out.Family("flowguard_redis_connects", MetricType::kCounter, "Connections that became ready.");
  out.Sample({}, sum([](const Metrics& m) -> const auto& { return m.connects; }));
  out.Family("flowguard_redis_connect_failures", MetricType::kCounter,
             "Connections that did not become ready.");
  out.Sample({}, sum([](const Metrics& m) -> const auto& { return m.connect_failures; }));
  out.Family("flowguard_redis_script_loads", MetricType::kCounter,
             "Scripts sent whole, for the server did not have them.");
  out.Sample({}, sum([](const Metrics& m) -> const auto& { return m.script_loads; }));
}

}  // namespace flowguard::app
