// SPDX-License-Identifier: Apache-2.0
//
// One event loop on one thread, with its share of every front door.
//
// Life: Create, Open* (on the creating thread), Start, Drain, Stop.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "flowguard/clock.h"
#include "flowguard/result.h"

#include "app/settings.h"
#include "engine/engine.h"
#include "http/handler_service.h"
#include "http/server.h"
#include "net/loop.h"
#include "net/timer.h"
#include "quota/redis_store.h"
#include "quota/routed_store.h"
#include "quota/token/token_store.h"
#include "serve/decision_api.h"
#include "serve/gateway.h"
#include "serve/open_entries.h"
#include "serve/token_server.h"

namespace flowguard::app {

// What the workers of a token server share.
struct TokenDoor {
  std::unique_ptr<serve::TokenService> service;  // null: the door stays shut
  serve::TokenConnections connections{0};
};

// A Handler with the server in front of it, on a given loop.
class HandlerServer {
 public:
  HandlerServer(net::Loop& loop, const http::ServerOptions& options, http::Handler& handler);
  [[nodiscard]] http::Server& server() noexcept { return server_; }

 private:
  http::HandlerService service_;
  http::Server server_;
};

class Worker {
 public:
  // All must outlive the worker.
  static Result<std::unique_ptr<Worker>> Create(const Settings& settings, engine::Engine& engine,
                                                serve::OpenEntries& entries, TokenDoor& tokens,
                                                const Clock& clock, int number);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Opens a door; the bound address.
  Result<net::Address> OpenGateway(const net::Address& address);
  Result<net::Address> OpenDecisions(const net::Address& address);
  Result<net::Address> OpenTokenServer(const net::Address& address);

  // Starts the thread.
  void Start();
  // Lets requests in progress end within `grace`.  Threads: any.
  void Drain(Duration grace);
  // No connection is left after Drain.  Threads: any.
  [[nodiscard]] bool drained() const noexcept { return drained_.load(std::memory_order_acquire); }
  // Requests that the end of the drain broke off.  Threads: any.
  [[nodiscard]] uint64_t cut_off() const noexcept;
  // Ends the thread, whatever is in progress.
  void Stop();

  // Null for a shut door.  Threads: the counters may be read from any.
  [[nodiscard]] const serve::Gateway* gateway() const noexcept { return gateway_.get(); }
  [[nodiscard]] const http::ServerCounters* decision_counters() const noexcept;
  [[nodiscard]] const serve::TokenServerCounters* token_counters() const noexcept;
  [[nodiscard]] const quota::RedisStore* store() const noexcept { return store_.get(); }
  [[nodiscard]] const quota::token::TokenStore* token_store() const noexcept {
    return token_store_.get();
  }

 private:
  static constexpr Duration kDrainLook = std::chrono::milliseconds(5);

  Worker(const Settings& settings, engine::Engine& engine, serve::OpenEntries& entries,
         TokenDoor& tokens, std::unique_ptr<net::Loop> loop);
  void LookDrained();
  [[nodiscard]] bool StoreClosed();
  // Of the rules of all scopes; null: they need none.
  [[nodiscard]] engine::QuotaStore* QuotaStore() noexcept;
  // Of shared rules alone.
  [[nodiscard]] engine::QuotaStore* SharedStore() noexcept;
  static void OnDrainTimer(void* self) noexcept;

  const Settings& settings_;
  engine::Engine& engine_;
  serve::OpenEntries& entries_;
  TokenDoor& tokens_;
  std::unique_ptr<net::Loop> loop_;
  std::unique_ptr<quota::RedisStore> store_;
  std::unique_ptr<quota::token::TokenStore> token_store_;
  std::unique_ptr<quota::RoutedStore> routed_store_;  // where there are both
  std::unique_ptr<serve::Gateway> gateway_;
  std::unique_ptr<serve::DecisionApi> decision_api_;
  std::unique_ptr<HandlerServer> decision_server_;
  std::unique_ptr<serve::TokenServer> token_server_;
  net::Timer drain_timer_;
  bool store_closing_ = false;
  std::atomic<bool> drained_{false};
  std::thread thread_;
};

}  // namespace flowguard::app
