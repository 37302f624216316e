// SPDX-License-Identifier: Apache-2.0
#include "app/door_metrics.h"

#include <atomic>

namespace flowguard::app {
namespace {

using observe::MetricsWriter;
using observe::MetricType;

template <typename Counters, typename T>
T Sum(const std::vector<const Counters*>& workers, std::atomic<T> Counters::*member) noexcept {
  T sum = 0;
  for (const Counters* worker : workers)
    sum += (worker->*member).load(std::memory_order_relaxed);
  return sum;
}

struct DoorCounter {
  std::string_view name;
  std::string_view help;
  std::atomic<uint64_t> http::ServerCounters::*member;
};

constexpr DoorCounter kDoorCounters[] = {
    {"flowguard_connections", "Connections accepted.", &http::ServerCounters::connections},
    {"flowguard_connections_shed",
     "Connections refused, as there were too many or no descriptor was left.",
     &http::ServerCounters::shed},
    {"flowguard_http_requests", "Request heads read.", &http::ServerCounters::requests},
    {"flowguard_http_bad_requests", "Requests that were no usable HTTP.",
     &http::ServerCounters::bad_requests},
    {"flowguard_client_timeouts", "Clients that were too slow.", &http::ServerCounters::timeouts},
    {"flowguard_client_aborts", "Clients that left before their answer's end.",
     &http::ServerCounters::aborted},
    {"flowguard_received_bytes", "Bytes received from clients.", &http::ServerCounters::bytes_in},
    {"flowguard_sent_bytes", "Bytes sent to clients.", &http::ServerCounters::bytes_out},
};

struct UpstreamCounter {
  std::string_view reason;
  std::atomic<uint64_t> serve::GatewayCounters::*member;
};

constexpr UpstreamCounter kUpstreamFailures[] = {
    {"connect", &serve::GatewayCounters::upstream_connect_failures},
    {"timeout", &serve::GatewayCounters::upstream_timeouts},
    {"reset", &serve::GatewayCounters::upstream_resets},
    {"garbage", &serve::GatewayCounters::upstream_garbage},
};

}  // namespace

void DoorMetrics::Collect(MetricsWriter& out) {
  CollectDoors(out);
  if (!gateways_.empty()) CollectGateways(out);
  if (entries_ != nullptr) CollectEntries(out);
}

void DoorMetrics::CollectDoors(MetricsWriter& out) const {
  for (const DoorCounter& counter : kDoorCounters) {
    out.Family(counter.name, MetricType::kCounter, counter.help);
    for (const Door& door : doors_) {
      out.Sample({{"door", door.name}}, Sum(door.workers, counter.member));
    }
  }
  out.Family("flowguard_connections_open", MetricType::kGauge, "Connections open now.");
  for (const Door& door : doors_) {
    out.Sample({{"door", door.name}}, Sum(door.workers, &http::ServerCounters::open));
  }
}

void DoorMetrics::CollectGateways(MetricsWriter& out) const {
  using Counters = serve::GatewayCounters;
  const auto counter = [&](std::string_view name, std::string_view help,
                           std::atomic<uint64_t> Counters::*member) {
    out.Family(name, MetricType::kCounter, help);
    out.Sample(std::span<const observe::Label>(), Sum(gateways_, member));
  };
  const auto gauge = [&](std::string_view name, std::string_view help,
                         std::atomic<int64_t> Counters::*member) {
    out.Family(name, MetricType::kGauge, help);
    out.Sample(std::span<const observe::Label>(), Sum(gateways_, member));
  };
  out.Family("flowguard_gateway_responses", MetricType::kCounter,
             "Answers to clients by class, the gateway's own and the upstream's.");
  constexpr std::string_view kClasses[] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};
  for (size_t i = 1; i < std::size(kClasses); ++i) {
    uint64_t sum = 0;
    for (const Counters* worker : gateways_) {
      sum += worker->responses[i].load(std::memory_order_relaxed);
    }
    out.Sample({{"code", kClasses[i]}}, sum);
  }
  counter("flowguard_gateway_refused", "Requests refused by a rule.", &Counters::refused);
  counter("flowguard_gateway_waited", "Requests that waited for their turn.", &Counters::waited);
  gauge("flowguard_gateway_waiting", "Requests that wait now.", &Counters::parked);
  counter("flowguard_gateway_overload", "Requests refused, as too many waited already.",
          &Counters::overload);
  gauge("flowguard_gateway_in_flight", "Requests admitted and not ended.", &Counters::in_flight);
  counter("flowguard_gateway_cost_unknown",
          "Answers without the cost that a rule settles by; what was reserved counts.",
          &Counters::cost_unknown);
  counter("flowguard_upstream_requests", "Requests sent upstream, retries included.",
          &Counters::upstream_requests);
  counter("flowguard_upstream_connects", "Connections opened upstream.",
          &Counters::upstream_connects);
  counter("flowguard_upstream_retries", "Requests sent again to another connection.",
          &Counters::upstream_retries);
  out.Family("flowguard_upstream_failures", MetricType::kCounter,
             "Requests that failed upstream after admission, by reason.");
  for (const UpstreamCounter& failure : kUpstreamFailures) {
    out.Sample({{"reason", failure.reason}}, Sum(gateways_, failure.member));
  }
  counter("flowguard_tunnels", "Upgraded connections.", &Counters::tunnels);
}

void DoorMetrics::CollectEntries(MetricsWriter& out) const {
  const serve::OpenEntriesCounters counters = entries_->Counters();
  out.Family("flowguard_entries_open", MetricType::kGauge, "Calls between /v1/enter and /v1/exit.");
  out.Sample(std::span<const observe::Label>(), uint64_t{counters.open});
  out.Family("flowguard_entries_ended", MetricType::kCounter, "Calls that ended, by way.");
  out.Sample({{"way", "exit"}}, counters.settled);
  out.Sample({{"way", "expired"}}, counters.expired);
  out.Family("flowguard_entries_refused", MetricType::kCounter,
             "Calls refused, as too many were open.");
  out.Sample(std::span<const observe::Label>(), counters.refused);
}

}  // namespace flowguard::app
