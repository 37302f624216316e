// SPDX-License-Identifier: Apache-2.0
#include "app/server.h"

#include <algorithm>
#include <csignal>

#include "app/descriptors.h"
#include "app/version.h"
#include "base/bounds.h"
#include "base/log.h"
#include "base/try.h"
#include "dialects/rules_writer.h"
#include "net/listener.h"

namespace flowguard::app {
namespace {

using base::Log;
using base::LogLevel;

// What the other doors may have of the process's descriptors.
size_t DescriptorsBesideTokens(const Settings& settings, size_t descriptors) {
  if (!settings.token_server) return descriptors;
  const size_t wanted = settings.token_options.connections_max;
  if (wanted > descriptors) {
    Log(LogLevel::kWarn, "token_server: connections: " + std::to_string(wanted) +
                             " may be open, but the process has " + std::to_string(descriptors) +
                             " descriptors (ulimit -n)");
  }
  return descriptors - std::min(wanted, descriptors / 2);
}

Result<std::unique_ptr<serve::TokenService>> CreateTokens(const Settings& settings) {
  if (!settings.token_server) return std::unique_ptr<serve::TokenService>();
  serve::TokenServiceOptions options;
  options.shared = settings.store.has_value();
  options.nodes = settings.store ? settings.store->nodes : 0;
  options.cells = settings.cells;
  options.state_bytes = settings.state_bytes;
  options.statistics = false;  // of its resources nobody is told
  return serve::TokenService::Create(options);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Create(Settings settings, const Clock& clock) {
  const size_t shares = (settings.gateway ? 2U : 0U) + (settings.decisions ? 1U : 0U);
  settings.gateway_options.server.connections_max =
      ConnectionsFor(DescriptorsBesideTokens(settings, RaiseDescriptorLimit()),
                     static_cast<size_t>(settings.workers), std::max<size_t>(shares, 1));
  FG_ASSIGN_OR_RETURN(std::unique_ptr<net::Loop> control, net::Loop::Create(clock));
  engine::EngineOptions options;
  options.cell_capacity = settings.cells;
  options.remote_allowed = settings.store.has_value();
  options.cluster_allowed = settings.cluster.has_value();
  options.cluster_nodes = settings.cluster ? settings.cluster->nodes : 0;
  options.fallback_nodes = settings.store ? settings.store->nodes : 0;
  options.state_bytes = settings.state_bytes;
  options.statistics = settings.statistics;
  auto breaker_log = std::make_unique<BreakerLog>();
  options.breaker_listener = breaker_log.get();
  FG_ASSIGN_OR_RETURN(std::unique_ptr<engine::Engine> engine, engine::Engine::Create(options));
  FG_ASSIGN_OR_RETURN(std::unique_ptr<serve::TokenService> tokens, CreateTokens(settings));
  std::unique_ptr<Server> server(new Server(std::move(settings), clock, std::move(control),
                                            std::move(breaker_log), std::move(engine),
                                            std::move(tokens)));
  FG_RETURN_IF_ERROR(server->rules_.Start());
  return server;
}

Server::Server(Settings settings, const Clock& clock, std::unique_ptr<net::Loop> control,
               std::unique_ptr<BreakerLog> breaker_log, std::unique_ptr<engine::Engine> engine,
               std::unique_ptr<serve::TokenService> tokens)
    : settings_(std::move(settings)),
      clock_(clock),
      control_(std::move(control)),
      breaker_log_(std::move(breaker_log)),
      engine_(std::move(engine)),
      entries_(*engine_, base::kOpenEntriesMax, serve::kOpenEntriesPerPeerMax),
      tokens_{.service = std::move(tokens)},
      rules_(*control_, *engine_, clock, settings_.rules,
             {.decision_api = settings_.decisions.has_value(),
              .tokens = tokens_.service.get(),
              .asks_tokens = settings_.cluster.has_value(),
              .tokens_alone = !settings_.gateway && !settings_.decisions,
              .token_questions_per_second = settings_.token_questions_per_second}),
      sampler_(*engine_, ""),
      sample_timer_(&Server::OnSampleTimer, this),
      token_timer_(&Server::OnTokenTimer, this),
      engine_metrics_(*engine_, clock),
      statistics_metrics_(*engine_, clock),
      process_metrics_(kVersion),
      drain_timer_(&Server::OnDrainTimer, this) {}

// Workers end before the engine and the entries that they use.
Server::~Server() {
  workers_.clear();
}

Result<Server::OpenDoors> Server::Open() {
  OpenDoors doors;
  FG_RETURN_IF_ERROR(OpenWorkers(doors));
  FG_RETURN_IF_ERROR(OpenAdmin(doors));
  FG_ASSIGN_OR_RETURN(signals_,
                      SignalWatch::Create(*control_, [this](int number) { OnSignal(number); }));
  rules_.Watch();
  SampleSystem();
  if (tokens_.service != nullptr) LookAtTokens();
  return doors;
}

// Every worker binds the address that the first one got, so port 0 is one port.  Before
// the first one nobody may listen there, be it this process with another door.
Result<void> Server::OpenWorkers(OpenDoors& doors) {
  std::optional<net::Address> gateway = settings_.gateway;
  std::optional<net::Address> decisions = settings_.decisions;
  std::optional<net::Address> tokens = settings_.token_server;
  for (int i = 0; i < settings_.workers; ++i) {
    FG_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker,
                        Worker::Create(settings_, *engine_, entries_, tokens_, clock_, i));
    const bool first = i == 0;
    if (gateway) {
      if (first) {
        FG_RETURN_IF_ERROR(net::Listener::CheckFree(*gateway));
      }
      FG_ASSIGN_OR_RETURN(gateway, worker->OpenGateway(*gateway));
    }
    if (decisions) {
      if (first) {
        FG_RETURN_IF_ERROR(net::Listener::CheckFree(*decisions));
      }
      FG_ASSIGN_OR_RETURN(decisions, worker->OpenDecisions(*decisions));
    }
    if (tokens) {
      if (first) {
        FG_RETURN_IF_ERROR(net::Listener::CheckFree(*tokens));
      }
      FG_ASSIGN_OR_RETURN(tokens, worker->OpenTokenServer(*tokens));
    }
    workers_.push_back(std::move(worker));
  }
  if (gateway) doors.emplace_back("gateway", *gateway);
  if (decisions) doors.emplace_back("decisions", *decisions);
  if (tokens) doors.emplace_back("token server", *tokens);
  return {};
}

Result<void> Server::OpenAdmin(OpenDoors& doors) {
  if (!settings_.admin) return {};
  DoorMetrics::Door gateway{"gateway", {}};
  DoorMetrics::Door decisions{"decisions", {}};
  std::vector<const serve::GatewayCounters*> gateways;
  for (const auto& worker : workers_) {
    if (const serve::Gateway* open = worker->gateway(); open != nullptr) {
      gateway.workers.push_back(&open->server_counters());
      gateways.push_back(&open->counters());
    }
    if (const auto* counters = worker->decision_counters(); counters != nullptr) {
      decisions.workers.push_back(counters);
    }
  }
  std::vector<DoorMetrics::Door> doors_shown;
  for (DoorMetrics::Door* door : {&gateway, &decisions}) {
    if (!door->workers.empty()) doors_shown.push_back(std::move(*door));
  }
  door_metrics_ = std::make_unique<DoorMetrics>(std::move(doors_shown), std::move(gateways),
                                                settings_.decisions ? &entries_ : nullptr);
  admin::AdminSubject& subject = *this;
  std::vector<observe::MetricsSource*> sources{&engine_metrics_, &statistics_metrics_, &rules_,
                                               door_metrics_.get(), &process_metrics_};
  if (settings_.store) {
    std::vector<const quota::RedisStore*> stores;
    for (const auto& worker : workers_)
      stores.push_back(worker->store());
    store_metrics_ = std::make_unique<StoreMetrics>(std::move(stores));
    sources.push_back(store_metrics_.get());
  }
  if (settings_.cluster) {
    std::vector<const quota::token::TokenStore*> stores;
    for (const auto& worker : workers_)
      stores.push_back(worker->token_store());
    cluster_metrics_ = std::make_unique<ClusterMetrics>(std::move(stores));
    sources.push_back(cluster_metrics_.get());
  }
  if (tokens_.service != nullptr) {
    std::vector<const serve::TokenServerCounters*> counters;
    for (const auto& worker : workers_)
      counters.push_back(worker->token_counters());
    token_metrics_ = std::make_unique<TokenMetrics>(*tokens_.service, std::move(counters));
    sources.push_back(token_metrics_.get());
  }
  admin_api_ = std::make_unique<admin::AdminApi>(subject, std::move(sources));
  admin_server_ = std::make_unique<HandlerServer>(*control_, http::ServerOptions{}, *admin_api_);
  FG_RETURN_IF_ERROR(net::Listener::CheckFree(*settings_.admin));
  FG_ASSIGN_OR_RETURN(const net::Address bound, admin_server_->server().Listen(*settings_.admin));
  doors.emplace_back("admin", bound);
  return {};
}

bool Server::Run() {
  running_ = true;
  for (const auto& worker : workers_)
    worker->Start();
  control_->Run();
  for (const auto& worker : workers_)
    worker->Stop();
  running_ = false;
  return drained_;
}

void Server::OnSignal(int number) {
  if (number == SIGHUP) return rules_.Reload();
  if (draining_) {
    Log(LogLevel::kWarn, "told to stop twice: requests in progress are cut off");
    return control_->Stop();
  }
  Drain();
}

void Server::Drain() {
  draining_ = true;  // readiness fails from here on
  Log(LogLevel::kInfo, "draining: requests in progress may end");
  drain_end_ = control_->Now() + settings_.drain_timeout + kDrainSlack;
  for (const auto& worker : workers_)
    worker->Drain(settings_.drain_timeout);
  control_->ArmAfter(drain_timer_, kDrainLook);
}

void Server::LookDrained() {
  const bool ended = std::all_of(workers_.begin(), workers_.end(),
                                 [](const auto& worker) { return worker->drained(); });
  if (ended) {
    drained_ = TellDrained();
  } else if (control_->Now() >= drain_end_) {
    Log(LogLevel::kWarn, "requests were still in progress when the drain time-out ended");
  } else {
    return control_->ArmAfter(drain_timer_, kDrainLook);
  }
  control_->Stop();
}

bool Server::TellDrained() const {
  uint64_t cut_off = 0;
  for (const auto& worker : workers_)
    cut_off += worker->cut_off();
  if (cut_off == 0) {
    Log(LogLevel::kInfo, "drained");
    return true;
  }
  Log(LogLevel::kWarn, std::to_string(cut_off) +
                           (cut_off == 1 ? " request was" : " requests were") +
                           " cut off when the drain time-out ended");
  return false;
}

void Server::OnDrainTimer(void* self) noexcept {
  static_cast<Server*>(self)->LookDrained();
}

void Server::SampleSystem() {
  sampler_.Sample(control_->Now());
  control_->ArmAfter(sample_timer_, guard::kSampleEvery);
}

void Server::LookAtTokens() {
  tokens_.service->Look(control_->Now());
  tokens_.service->Expire(control_->Now());
  control_->ArmAfter(token_timer_, kTokenLook);
}

void Server::OnTokenTimer(void* self) noexcept {
  static_cast<Server*>(self)->LookAtTokens();
}

void Server::OnSampleTimer(void* self) noexcept {
  static_cast<Server*>(self)->SampleSystem();
}

admin::Readiness Server::CheckReadiness() {
  admin::Readiness readiness;
  readiness.ready = running_ && !draining_;
  readiness.checks.emplace_back("workers", running_ ? "running" : "starting");
  readiness.checks.emplace_back("drain", draining_ ? "draining" : "no");
  readiness.checks.emplace_back(
      "rules", rules_.last_error().empty() ? "loaded" : "loaded; the last reload failed");
  if (settings_.store) {
    const bool away = std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
      const quota::RedisStore& store = *worker->store();
      return store.status().places_away > 0 || store.metrics().connected.value() == 0;
    });
    readiness.checks.emplace_back("store",
                                  away ? "away; rules follow on_store_failure" : "answers");
  }
  return readiness;
}

admin::ConfigReport Server::ReportConfig() {
  return {.version = kVersion,
          .generation = engine_->Counters().generation,
          .source = rules_.SourceName(),
          .loaded_at = rules_.loaded_at(),
          .last_error = rules_.last_error()};
}

std::string Server::RulesAsYaml() {
  RuleSet rules = engine_->Rules();
  if (settings_.cluster) return dialects::WriteRules(rules);  // all are among them
  const std::vector<Rule>& tokens = rules_.token_rules().rules;
  rules.rules.insert(rules.rules.end(), tokens.begin(), tokens.end());
  return dialects::WriteRules(rules);
}

engine::StatisticsReport Server::ReportStatistics(const engine::StatisticsQuery& query) {
  return engine_->ReportStatistics(query, control_->Now());
}

}  // namespace flowguard::app
