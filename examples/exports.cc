// SPDX-License-Identifier: Apache-2.0
//
// Heavy jobs through a queue: what is over the limit is not refused but done later, at the
// rate that the rules allow.  Exits 0 if what it saw was right.
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "flowguard/executor.h"
#include "flowguard/guard.h"

namespace {

using namespace std::chrono_literals;

// Two exports of a tenant at once, then twenty a second; at most three in this process.
flowguard::RuleSet Rules() {
  flowguard::RuleSet set;
  flowguard::Rule rate;
  rate.name = "exports-per-tenant";
  rate.on.resource = "report:export";
  rate.rate = {20, 1s};
  rate.burst = 2;
  rate.by = {"tenant"};
  set.rules.push_back(rate);

  flowguard::Rule slots;
  slots.name = "exports-at-once";
  slots.kind = flowguard::RuleKind::kConcurrency;
  slots.on.resource = "report:export";
  slots.concurrency = 3;
  set.rules.push_back(slots);
  return set;
}

// What an order form would keep of its exports.
class Exports {
 public:
  explicit Exports(flowguard::Executor& executor) : executor_(executor) {}

  // False: too many are queued already; the user is told to come again.
  bool Order(const std::string& tenant, int64_t cost = 0) {
    const auto queued = executor_.Submit({
        .resource = "report:export",
        .dimensions = {{"tenant", tenant}},
        .cost = cost,
        .start_within = 30s,
        .run = [] { /* ... read, format, store ... */ },
        .done = [this, tenant](const flowguard::JobReport& report) { Note(tenant, report); },
    });
    if (!queued.ok()) std::printf("not queued: %s\n", queued.error().message.c_str());
    return queued.ok();
  }
  // In the order in which they ended.
  [[nodiscard]] std::vector<std::string> ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  void Note(const std::string& tenant, const flowguard::JobReport& report) {
    const std::lock_guard lock(mutex_);
    const bool ran = report.end == flowguard::JobEnd::kRan;
    ended_.push_back(ran ? tenant : "error");
    if (!ran) std::printf("%s\n", report.error.message.c_str());
  }

  flowguard::Executor& executor_;
  std::mutex mutex_;
  std::vector<std::string> ended_;
};

}  // namespace

int main() {
  auto guard = flowguard::Guard::Create(Rules());
  if (!guard.ok()) {
    std::fprintf(stderr, "%s\n", guard.error().message.c_str());
    return 1;
  }
  auto executor = flowguard::Executor::Create(**guard, {.threads = 2, .capacity = 100});
  if (!executor.ok()) {
    std::fprintf(stderr, "%s\n", executor.error().message.c_str());
    return 1;
  }
  Exports exports(**executor);
  const auto start = std::chrono::steady_clock::now();
  bool queued = true;
  for (int i = 0; i < 6; ++i)
    queued &= exports.Order("acme");
  queued &= exports.Order("globex");
  queued &= exports.Order("initech", 3);  // more than its rule can ever grant

  (*executor)->Shutdown(flowguard::ShutdownMode::kDrain);

  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const flowguard::ExecutorCounters counters = (*executor)->counters();
  const std::vector<std::string> ended = exports.ended();
  std::printf("%d exports ran in %.2f s, %d can never go\n", static_cast<int>(counters.ran),
              took.count(), static_cast<int>(counters.refused));
  const bool kept_the_rate = took >= 200ms;  // four of acme's six had to wait for a unit each
  const bool went_past = ended.size() == 8 && ended.back() == "acme";
  std::printf("another tenant went past those that waited: %s\n", went_past ? "yes" : "no");
  return queued && counters.ran == 7 && counters.refused == 1 && kept_the_rate && went_past ? 0 : 1;
}
