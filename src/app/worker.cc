// SPDX-License-Identifier: Apache-2.0
#include "app/worker.h"

#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"
#include "base/try.h"

namespace flowguard::app {
namespace {

quota::RedisStoreOptions StoreOf(const Settings& settings, engine::Engine& engine,
                                 serve::TokenService* tokens, int worker) {
  quota::RedisStoreOptions options;
  options.redis = settings.store->redis;
  options.owner = settings.store->node_name + "-" + std::to_string(worker);
  options.deadline = settings.store->deadline;
  options.nodes = settings.store->nodes;
  if (worker != 0) return options;
  options.on_nodes = [&engine, tokens](int nodes) {
    engine.SetFallbackNodes(nodes);
    if (tokens != nullptr) tokens->engine().SetFallbackNodes(nodes);
  };
  return options;
}

quota::token::TokenStoreOptions TokenStoreOf(const Settings& settings, engine::Engine& engine,
                                             int worker) {
  quota::token::TokenStoreOptions options;
  options.servers = settings.cluster->servers;
  options.name_space = settings.cluster->name_space;
  options.timeout = settings.cluster->timeout;
  options.registers = worker == 0;
  options.seed = base::RandomSeed();
  options.nodes = settings.cluster->nodes;
  if (worker == 0) options.on_nodes = [&engine](int nodes) { engine.SetClusterNodes(nodes); };
  return options;
}

}  // namespace

HandlerServer::HandlerServer(net::Loop& loop, const http::ServerOptions& options,
                             http::Handler& handler)
    : service_(handler, base::kDecisionBodyBytesMax), server_(loop, options, service_) {}

Result<std::unique_ptr<Worker>> Worker::Create(const Settings& settings, engine::Engine& engine,
                                               serve::OpenEntries& entries, TokenDoor& tokens,
                                               const Clock& clock, int number) {
  FG_ASSIGN_OR_RETURN(std::unique_ptr<net::Loop> loop, net::Loop::Create(clock));
  std::unique_ptr<Worker> worker(new Worker(settings, engine, entries, tokens, std::move(loop)));
  if (settings.store) {
    FG_ASSIGN_OR_RETURN(worker->store_, quota::RedisStore::Create(
                                            *worker->loop_, StoreOf(settings, engine,
                                                                    tokens.service.get(), number)));
  }
  if (settings.cluster) {
    worker->token_store_ = std::make_unique<quota::token::TokenStore>(
        *worker->loop_, TokenStoreOf(settings, engine, number));
  }
  if (settings.store && settings.cluster) {
    worker->routed_store_ = std::make_unique<quota::RoutedStore>(
        *worker->loop_, worker->store_->store(), settings.store->deadline, *worker->token_store_);
  }
  return worker;
}

Worker::Worker(const Settings& settings, engine::Engine& engine, serve::OpenEntries& entries,
               TokenDoor& tokens, std::unique_ptr<net::Loop> loop)
    : settings_(settings),
      engine_(engine),
      entries_(entries),
      tokens_(tokens),
      loop_(std::move(loop)),
      drain_timer_(&Worker::OnDrainTimer, this) {}

// The doors end before the store that they give back to.
Worker::~Worker() {
  Stop();
  token_server_ = nullptr;
  decision_server_ = nullptr;
  decision_api_ = nullptr;
  gateway_ = nullptr;
  routed_store_ = nullptr;
  token_store_ = nullptr;
  store_ = nullptr;
}

Result<net::Address> Worker::OpenGateway(const net::Address& address) {
  gateway_ =
      std::make_unique<serve::Gateway>(*loop_, engine_, settings_.gateway_options, QuotaStore());
  return gateway_->Listen(address);
}

Result<net::Address> Worker::OpenDecisions(const net::Address& address) {
  decision_api_ = std::make_unique<serve::DecisionApi>(*loop_, engine_, entries_,
                                                       settings_.decision_options, QuotaStore());
  decision_server_ =
      std::make_unique<HandlerServer>(*loop_, settings_.gateway_options.server, *decision_api_);
  return decision_server_->server().Listen(address);
}

Result<net::Address> Worker::OpenTokenServer(const net::Address& address) {
  token_server_ = std::make_unique<serve::TokenServer>(
      *loop_, *tokens_.service, settings_.token_options, tokens_.connections, SharedStore());
  return token_server_->Listen(address);
}

engine::QuotaStore* Worker::QuotaStore() noexcept {
  if (routed_store_ != nullptr) return routed_store_.get();
  return token_store_ != nullptr ? token_store_.get() : SharedStore();
}

engine::QuotaStore* Worker::SharedStore() noexcept {
  return store_ == nullptr ? nullptr : &store_->store();
}

const http::ServerCounters* Worker::decision_counters() const noexcept {
  return decision_server_ == nullptr ? nullptr : &decision_server_->server().counters();
}

const serve::TokenServerCounters* Worker::token_counters() const noexcept {
  return token_server_ == nullptr ? nullptr : &std::as_const(*token_server_).counters();
}

uint64_t Worker::cut_off() const noexcept {
  uint64_t sum = 0;
  if (gateway_ != nullptr) {
    sum += gateway_->server_counters().cut_off.load(std::memory_order_relaxed);
  }
  if (const auto* counters = decision_counters(); counters != nullptr) {
    sum += counters->cut_off.load(std::memory_order_relaxed);
  }
  if (const auto* counters = token_counters(); counters != nullptr) {
    sum += counters->cut_off.load(std::memory_order_relaxed);
  }
  return sum;
}

void Worker::Start() {
  if (store_ != nullptr) {
    loop_->Post([this] { store_->Open(); });
  }
  thread_ = std::thread([this] { loop_->Run(); });
}

void Worker::Drain(Duration grace) {
  loop_->Post([this, grace] {
    if (gateway_ != nullptr) gateway_->Drain(grace);
    if (decision_server_ != nullptr) {
      decision_server_->server().Drain(grace);
      decision_api_->Drain();
    }
    if (token_server_ != nullptr) token_server_->Drain(grace);
    LookDrained();
  });
}

void Worker::LookDrained() {
  const bool done = (gateway_ == nullptr || gateway_->drained()) &&
                    (decision_server_ == nullptr || decision_server_->server().drained()) &&
                    (token_server_ == nullptr || token_server_->drained());
  if (done && StoreClosed()) {
    drained_.store(true, std::memory_order_release);
  } else {
    loop_->ArmAfter(drain_timer_, kDrainLook);
  }
}

// The store goes last: it takes what requests give back.
bool Worker::StoreClosed() {
  if (QuotaStore() == nullptr) return true;
  if (!store_closing_) {
    if (decision_api_ != nullptr) decision_api_->EndEntries();
    if (token_server_ != nullptr) token_server_->EndTokens();
    if (store_ != nullptr) store_->Close();
    store_closing_ = true;
    return false;  // what goes back to token servers leaves with this turn
  }
  return store_ == nullptr || store_->quiet();
}

void Worker::OnDrainTimer(void* self) noexcept {
  static_cast<Worker*>(self)->LookDrained();
}

void Worker::Stop() {
  if (!thread_.joinable()) return;
  loop_->Stop();
  thread_.join();
}

}  // namespace flowguard::app
