// SPDX-License-Identifier: Apache-2.0
#include "app/cluster_metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

namespace flowguard::app {
namespace {

using observe::MetricType;
using quota::token::Link;
using quota::token::TokenStoreStatus;

struct Outcome {
  std::string_view word;
  uint64_t TokenStoreStatus::*count;
};
constexpr std::array<Outcome, 3> kOutcomes = {{
    {"granted", &TokenStoreStatus::granted},
    {"refused", &TokenStoreStatus::refused},
    {"failed", &TokenStoreStatus::failed},
}};

struct Question {
  std::string_view word;
  std::atomic<uint64_t> Link::Metrics::*count;
};
constexpr std::array<Question, 3> kQuestions = {{
    {"answered", &Link::Metrics::answered},
    {"missed", &Link::Metrics::missed},
    {"late", &Link::Metrics::late},
}};

}  // namespace

void ClusterMetrics::Collect(observe::MetricsWriter& out) {
  std::vector<TokenStoreStatus> all;
  for (const quota::token::TokenStore* store : stores_)
    all.push_back(store->status());
  const auto sum = [&all](uint64_t TokenStoreStatus::*count) {
    uint64_t total = 0;
    for (const TokenStoreStatus& status : all)
      total += status.*count;
    return total;
  };
  out.Family("flowguard_cluster_takes", MetricType::kCounter,
             "Takes of cluster rules by what token servers answered; failed ones follow their "
             "rule's on_store_failure.");
  for (const Outcome& outcome : kOutcomes)
    out.Sample({{"outcome", outcome.word}}, sum(outcome.count));
  out.Family("flowguard_cluster_failed_away", MetricType::kCounter,
             "Takes that failed at once, for no token server answers.");
  out.Sample({}, sum(&TokenStoreStatus::failed_away));
  out.Family("flowguard_cluster_lost", MetricType::kCounter,
             "Units granted by token servers to requests that another rule refused.");
  out.Sample({}, sum(&TokenStoreStatus::lost));
  out.Family("flowguard_cluster_moves", MetricType::kCounter,
             "Times that a worker turned to another token server, the first included.");
  out.Sample({}, sum(&TokenStoreStatus::moved));
  out.Family("flowguard_cluster_fallback_workers", MetricType::kGauge,
             "Workers that have no token server to ask.");
  out.Sample({}, static_cast<uint64_t>(std::ranges::count(all, -1, &TokenStoreStatus::server)));
  int clients = 0;
  for (const TokenStoreStatus& status : all)
    clients = std::max(clients, status.clients);
  out.Family("flowguard_cluster_clients", MetricType::kGauge,
             "Clients registered in the namespace; 0: not known.");
  out.Sample({}, static_cast<uint64_t>(clients));

  const size_t servers = stores_.front()->links().size();
  out.Family("flowguard_cluster_questions", MetricType::kCounter,
             "Questions to a token server by how they ended; late: answers behind their time.");
  for (size_t i = 0; i < servers; ++i) {
    for (const Question& question : kQuestions) {
      uint64_t total = 0;
      for (const quota::token::TokenStore* store : stores_)
        total += (store->links()[i]->metrics().*question.count).load(std::memory_order_relaxed);
      out.Sample({{"server", stores_.front()->links()[i]->endpoint()}, {"end", question.word}},
                 total);
    }
  }
}

}  // namespace flowguard::app
