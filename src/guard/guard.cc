// SPDX-License-Identifier: Apache-2.0
#include "flowguard/guard.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/system_now.h"
#include "base/try.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/quota_store.h"
#include "guard/request_adapter.h"
#include "guard/sampler_thread.h"
#include "guard/store_driver.h"

namespace flowguard {

using engine::Attempt;
using engine::Mode;
using engine::Step;
using guard::RequestAdapter;

Guard::Guard(const GuardOptions& options, std::unique_ptr<engine::Engine> engine)
    : clock_(options.clock == &SystemClock() ? nullptr : options.clock),
      engine_(std::move(engine)),
      reads_system_(options.read_system),
      system_root_(options.system_root) {
  if (options.store != nullptr) {
    driver_ = std::make_unique<guard::StoreDriver>(
        *engine_, *options.store, options.clock != nullptr ? *options.clock : SystemClock(),
        options.store_deadline);
  }
}

Guard::~Guard() = default;

Result<std::unique_ptr<Guard>> Guard::Create(RuleSet rules, GuardOptions options) {
  if (options.store_deadline <= Duration::zero()) {
    return Error::InvalidArgument(
        "store_deadline: " + std::to_string(options.store_deadline.count()) +
        " ns; it is at least 1 ns");
  }
  engine::EngineOptions with;
  with.cell_capacity = options.cell_capacity;
  with.state_bytes = options.state_bytes;
  with.hash_seed = options.hash_seed;
  with.breaker_listener = options.breaker_listener;
  with.statistics = options.statistics;
  with.remote_allowed = options.store != nullptr;
  with.fallback_nodes = options.store != nullptr ? options.store->Nodes() : 0;
  FG_ASSIGN_OR_RETURN(auto engine, engine::Engine::Create(with));
  std::unique_ptr<Guard> guard(new Guard(options, std::move(engine)));
  FG_RETURN_IF_ERROR(guard->Reload(std::move(rules)));
  return guard;
}

Instant Guard::Now() const noexcept {
  return clock_ == nullptr ? base::SystemNow() : clock_->Now();
}

void Guard::SleepUntil(Instant until) const noexcept {
  clock_ == nullptr ? base::SystemSleepUntil(until) : clock_->SleepUntil(until);
}

// --- rules

Result<void> Guard::Reload(RuleSet rules) {
  const std::lock_guard lock(rules_mutex_);
  std::swap(loaded_, rules);
  Result<void> result = LoadMerged();
  if (!result.ok()) std::swap(loaded_, rules);
  return result;
}

Result<void> Guard::Declare(Rule rule) {
  const std::lock_guard lock(rules_mutex_);
  const auto same_name = [&rule](const Rule& other) { return other.name == rule.name; };
  if (std::any_of(declared_.begin(), declared_.end(), same_name)) {
    return Error{ErrorCode::kAlreadyExists,
                 "rule \"" + rule.name + "\" is declared twice; names are unique"};
  }
  declared_.push_back(std::move(rule));
  Result<void> result = LoadMerged();
  if (!result.ok()) declared_.pop_back();
  return result;
}

Result<void> Guard::LoadMerged() {
  RuleSet merged = loaded_;
  for (const Rule& rule : declared_) {
    const auto same_name = [&rule](const Rule& other) { return other.name == rule.name; };
    if (std::none_of(loaded_.rules.begin(), loaded_.rules.end(), same_name)) {
      merged.rules.push_back(rule);
    }
  }
  Result<void> loaded = engine_->Load(merged, nullptr, Now());
  const bool needed = engine_->LimitsCpu() || engine_->LimitsLoad();
  if (loaded.ok() && needed && reads_system_ && sampler_ == nullptr) {
    // The rules are in force: what is not read refuses nothing, and the next load tries again.
    try {
      sampler_ = std::make_unique<guard::SamplerThread>(*engine_, system_root_);
    } catch (const std::system_error& error) {
      base::Log(base::LogLevel::kWarn,
                std::string("system rules: no thread reads CPU usage and load: ") + error.what());
    }
  }
  return loaded;
}

// --- decisions

Decision Guard::CheckWithin(Instant now, const Request& request, Duration wait_max) noexcept {
  Attempt attempt;
  if (engine_->Begin(attempt, RequestAdapter(request, wait_max), Mode::kCheck, now) ==
      Step::kRemote) [[unlikely]] {
    driver_->Run(attempt, now);
  }
  return attempt.decision();
}

Decision Guard::Check(const Request& request) noexcept {
  return CheckWithin(Now(), request, kNever);
}

Decision Guard::CheckAt(Instant now, const Request& request) noexcept {
  return CheckWithin(now, request, kNever);
}

Decision Guard::Peek(const Request& request) noexcept {
  const Instant now = Now();
  Attempt attempt;
  if (engine_->Begin(attempt, RequestAdapter(request, kNever), Mode::kPeek, now) == Step::kRemote) {
    driver_->Run(attempt, now);
  }
  return attempt.decision();
}

Decision Guard::CheckFor(const Request& request, Duration timeout) noexcept {
  const Instant now = Now();
  Decision decision = CheckWithin(now, request, std::max(timeout, Duration::zero()));
  if (decision.verdict == Verdict::kWait) {
    SleepUntil(now + decision.wait);
    decision.verdict = Verdict::kAllow;
    decision.wait = Duration::zero();
  }
  return decision;
}

void Guard::CheckAsync(const Request& request, std::function<void(const Decision&)> done) {
  const Instant now = Now();
  auto attempt = std::make_unique<Attempt>();
  if (engine_->Begin(*attempt, RequestAdapter(request, kNever), Mode::kCheck, now) == Step::kDone) {
    done(attempt->decision());
    return;
  }
  driver_->Start(std::move(attempt), now, std::move(done));
}

}  // namespace flowguard
