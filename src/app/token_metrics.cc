// SPDX-License-Identifier: Apache-2.0
#include "app/token_metrics.h"

#include <array>
#include <atomic>
#include <string_view>

namespace flowguard::app {
namespace {

using observe::MetricsWriter;
using observe::MetricType;
using serve::TokenServerCounters;

// By the status + kTokenStatusOffset; empty: no such status.
constexpr std::array<std::string_view, serve::kTokenStatuses> kStatuses = {
    "bad_request",   "",           "too_many_requests",
    "fail",          "ok",         "blocked",
    "should_wait",   "no_rule",    "no_ref_rule",
    "not_available", "release_ok", "already_released"};

struct Labelled {
  std::string_view label;
  std::atomic<uint64_t> TokenServerCounters::*count;
};

constexpr Labelled kRefused[] = {
    {"network", &TokenServerCounters::refused_network},
    {"full", &TokenServerCounters::refused_full},
    {"descriptors", &TokenServerCounters::shed},
};

constexpr Labelled kBadFrames[] = {
    {"too_long", &TokenServerCounters::too_long},
    {"no_head", &TokenServerCounters::no_head},
    {"unknown_type", &TokenServerCounters::unknown_type},
    {"bad_body", &TokenServerCounters::bad_body},
};

template <typename T>
T Sum(const std::vector<const TokenServerCounters*>& workers,
      std::atomic<T> TokenServerCounters::*member) noexcept {
  T sum = 0;
  for (const TokenServerCounters* worker : workers)
    sum += (worker->*member).load(std::memory_order_relaxed);
  return sum;
}

}  // namespace

void TokenMetrics::Collect(MetricsWriter& out) {
  CollectDecisions(out);
  CollectConnections(out);
  CollectFrames(out);
  CollectStore(out);
}

void TokenMetrics::CollectDecisions(MetricsWriter& out) const {
  const std::vector<serve::TokenCounts> namespaces = service_.Counted();
  out.Family("flowguard_token_decisions", MetricType::kCounter,
             "Questions for tokens answered, by namespace and status.");
  for (const serve::TokenCounts& counts : namespaces) {
    for (size_t i = 0; i < kStatuses.size(); ++i) {
      if (kStatuses[i].empty() || counts.answered[i] == 0) continue;
      out.Sample({{"namespace", counts.name_space}, {"status", kStatuses[i]}}, counts.answered[i]);
    }
  }
  out.Family("flowguard_token_clients", MetricType::kGauge,
             "Token clients that are registered now, by namespace.");
  for (const serve::TokenCounts& counts : namespaces) {
    out.Sample({{"namespace", counts.name_space}}, uint64_t{counts.clients});
  }
  const serve::OpenEntriesCounters tokens = service_.Tokens();
  out.Family("flowguard_token_held", MetricType::kGauge,
             "Tokens of concurrency that are held now.");
  out.Sample({}, uint64_t{tokens.open});
  out.Family("flowguard_token_ended", MetricType::kCounter,
             "Tokens of concurrency that ended, by way.");
  out.Sample({{"way", "release"}}, tokens.settled);
  out.Sample({{"way", "expired"}}, tokens.expired);
}

void TokenMetrics::CollectConnections(MetricsWriter& out) const {
  out.Family("flowguard_token_connections_open", MetricType::kGauge,
             "Connections of token clients open now.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::open));
  out.Family("flowguard_token_connections", MetricType::kCounter,
             "Connections of token clients accepted, those too that were closed at once.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::connections));
  out.Family("flowguard_token_connections_refused", MetricType::kCounter,
             "Connections of token clients closed at once, by reason.");
  for (const Labelled& refused : kRefused)
    out.Sample({{"reason", refused.label}}, Sum(workers_, refused.count));
  out.Family("flowguard_token_connections_stalled", MetricType::kCounter,
             "Connections closed, for their clients took no answer.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::stalled));
  out.Family("flowguard_token_pauses", MetricType::kCounter,
             "Times that a connection was read no more, until its client took its answers or the "
             "store had answered.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::paused));
}

void TokenMetrics::CollectFrames(MetricsWriter& out) const {
  out.Family("flowguard_token_questions", MetricType::kCounter,
             "Messages of token clients, pings and those at fault too.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::questions));
  out.Family("flowguard_token_bad_frames", MetricType::kCounter,
             "Messages that are no questions, by fault.");
  for (const Labelled& bad : kBadFrames)
    out.Sample({{"fault", bad.label}}, Sum(workers_, bad.count));
  out.Family("flowguard_token_received_bytes", MetricType::kCounter,
             "Bytes received from token clients.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::bytes_in));
  out.Family("flowguard_token_sent_bytes", MetricType::kCounter, "Bytes sent to token clients.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::bytes_out));
}

void TokenMetrics::CollectStore(MetricsWriter& out) const {
  out.Family("flowguard_token_store_waiting", MetricType::kGauge,
             "Questions for tokens that wait for the store now.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::waiting));
  out.Family("flowguard_token_store_wait_seconds", MetricType::kSummary,
             "How long questions for tokens waited for the store.");
  out.SampleSummary({}, Sum(workers_, &TokenServerCounters::waited),
                    Sum(workers_, &TokenServerCounters::wait_ns));
  out.Family("flowguard_token_store_failures", MetricType::kCounter,
             "Questions for tokens that the store did not answer in time, so that this node's "
             "share of the limit did.");
  out.Sample({}, Sum(workers_, &TokenServerCounters::store_failed));
}

}  // namespace flowguard::app
