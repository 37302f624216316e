// SPDX-License-Identifier: Apache-2.0
//
// An engine with rules and a time that the test moves.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "flowguard/rule.h"

#include "engine/attempt.h"
#include "engine/engine.h"
#include "testing/fake_request.h"

namespace flowguard::testing {

class EngineFixture : public ::testing::Test {
 protected:
  void Build(std::vector<Rule> rules, int nodes = 0) {
    engine::EngineOptions options;
    options.cell_capacity = 10'000;
    options.hash_seed = 42;
    options.remote_allowed = true;
    options.cluster_allowed = true;
    options.fallback_nodes = nodes;
    options.breaker_listener = breaker_listener_;
    options.statistics = statistics_;
    options.stats_max = stats_max_;
    auto made = engine::Engine::Create(options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    engine_ = *std::move(made);
    Load(std::move(rules));
  }
  void Load(std::vector<Rule> rules) {
    RuleSet set;
    set.rules = std::move(rules);
    const Result<void> loaded = engine_->Load(set);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  }
  Decision Check(const engine::RequestView& request) {
    engine::Attempt attempt;
    engine_->Begin(attempt, request, engine::Mode::kCheck, now_);
    return attempt.decision();
  }
  Decision Check() { return Check(FakeRequest("r")); }
  // A check whose answer does not matter.
  void Spend(int times = 1) {
    for (int i = 0; i < times; ++i)
      static_cast<void>(Check());
  }
  Decision Peek(const engine::RequestView& request) {
    engine::Attempt attempt;
    engine_->Begin(attempt, request, engine::Mode::kPeek, now_);
    return attempt.decision();
  }
  Decision Peek() { return Peek(FakeRequest("r")); }
  void Enter(engine::Attempt& attempt, const engine::RequestView& request) {
    engine_->Begin(attempt, request, engine::Mode::kEnter, now_);
  }
  void Settle(engine::Attempt& attempt, Outcome outcome = Outcome::kOk,
              std::optional<int64_t> actual = std::nullopt) {
    engine_->Settle(attempt, outcome, actual, now_);
  }
  engine::RuleCounters CountersOf(std::string_view rule) {
    for (const engine::RuleCounters& one : engine_->Counters().rules) {
      if (one.rule == rule) return one;
    }
    return {};
  }

  // Of engines that are built from now on.
  BreakerListener* breaker_listener_ = nullptr;
  bool statistics_ = false;
  size_t stats_max_ = 100;
  std::unique_ptr<engine::Engine> engine_;
  Instant now_ = Instant(std::chrono::hours(24 * 8));
};

}  // namespace flowguard::testing
