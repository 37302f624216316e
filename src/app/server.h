// SPDX-License-Identifier: Apache-2.0
//
// The running process: the engine, the workers with the front doors, and the control
// loop with signals, the rule file and the admin door.
//
//   main thread: control loop          worker threads: one loop each
//     signals, rule file, /metrics,      gateway, decision API
//     CPU usage and load
//   loader thread, while rules are loaded again
//
// SIGHUP reloads the rules.  SIGTERM and SIGINT drain: readiness fails first, then
// the doors accept no more, requests in progress end within the drain time-out; a
// second one ends the process at once.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/clock.h"
#include "flowguard/result.h"

#include "admin/admin_api.h"
#include "app/breaker_log.h"
#include "app/cluster_metrics.h"
#include "app/door_metrics.h"
#include "app/rule_keeper.h"
#include "app/settings.h"
#include "app/signals.h"
#include "app/store_metrics.h"
#include "app/token_metrics.h"
#include "app/worker.h"
#include "engine/engine.h"
#include "guard/system_sampler.h"
#include "net/loop.h"
#include "observe/engine_metrics.h"
#include "observe/process_metrics.h"
#include "observe/statistics_metrics.h"
#include "serve/open_entries.h"

namespace flowguard::app {

class Server final : private admin::AdminSubject {
 public:
  // Loads the rules; opens nothing yet.
  // Errors: rules that cannot be used; no memory for the cells.
  static Result<std::unique_ptr<Server>> Create(Settings settings, const Clock& clock);
  ~Server() override;

  // Binds every door: {"gateway", 127.0.0.1:8080}, ... .
  // Errors: an address that cannot be bound.
  using OpenDoors = std::vector<std::pair<std::string, net::Address>>;
  Result<OpenDoors> Open();

  // Serves until it is told to stop by a signal.  True: everything in progress ended
  // in time.
  // Requires: Open was good.
  bool Run();
  // A rule set is being loaded, which cannot be broken off: the destructor waits for it.
  [[nodiscard]] bool loading() const noexcept { return rules_.loading(); }

 private:
  static constexpr Duration kDrainLook = std::chrono::milliseconds(5);
  static constexpr Duration kDrainSlack = std::chrono::seconds(1);
  // So soon a client counts, for a limit per client, that comes after a while without one.
  static constexpr Duration kTokenLook = std::chrono::milliseconds(20);

  Server(Settings settings, const Clock& clock, std::unique_ptr<net::Loop> control,
         std::unique_ptr<BreakerLog> breaker_log, std::unique_ptr<engine::Engine> engine,
         std::unique_ptr<serve::TokenService> tokens);

  Result<void> OpenWorkers(OpenDoors& doors);
  Result<void> OpenAdmin(OpenDoors& doors);
  void LookAtTokens();
  static void OnTokenTimer(void* self) noexcept;
  void OnSignal(int number);
  void Drain();
  void LookDrained();
  static void OnDrainTimer(void* self) noexcept;
  void SampleSystem();
  static void OnSampleTimer(void* self) noexcept;

  // Told to the log; false: something was cut off.
  [[nodiscard]] bool TellDrained() const;

  [[nodiscard]] admin::Readiness CheckReadiness() override;
  [[nodiscard]] admin::ConfigReport ReportConfig() override;
  [[nodiscard]] std::string RulesAsYaml() override;
  [[nodiscard]] engine::StatisticsReport ReportStatistics(
      const engine::StatisticsQuery& query) override;

  const Settings settings_;
  const Clock& clock_;
  std::unique_ptr<net::Loop> control_;
  std::unique_ptr<BreakerLog> breaker_log_;
  std::unique_ptr<engine::Engine> engine_;
  serve::OpenEntries entries_;
  TokenDoor tokens_;
  RuleKeeper rules_;
  std::vector<std::unique_ptr<Worker>> workers_;
  guard::SystemSampler sampler_;
  net::Timer sample_timer_;
  net::Timer token_timer_;

  observe::EngineMetrics engine_metrics_;
  observe::StatisticsMetrics statistics_metrics_;
  observe::ProcessMetrics process_metrics_;
  std::unique_ptr<DoorMetrics> door_metrics_;
  std::unique_ptr<StoreMetrics> store_metrics_;
  std::unique_ptr<TokenMetrics> token_metrics_;
  std::unique_ptr<ClusterMetrics> cluster_metrics_;
  std::unique_ptr<admin::AdminApi> admin_api_;
  std::unique_ptr<HandlerServer> admin_server_;
  std::unique_ptr<SignalWatch> signals_;

  net::Timer drain_timer_;
  Instant drain_end_{};
  bool running_ = false;
  bool draining_ = false;
  bool drained_ = false;
};

}  // namespace flowguard::app
