// SPDX-License-Identifier: Apache-2.0
//
// The decision API with rules, and a client on a loopback connection.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "serve/decision_api.h"
#include "serve/handler_client_test.h"
#include "testing/manual_clock.h"

namespace flowguard::serve {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline Rule Limit(std::string name, int64_t limit, Duration window) {
  Rule rule;
  rule.name = std::move(name);
  rule.rate = {limit, window};
  return rule;
}

inline Rule PerIp(int64_t limit) {
  Rule rule = Limit("per-ip", limit, seconds(60));
  rule.by = {"ip"};
  return rule;
}

inline Rule Concurrency(int64_t most) {
  Rule rule;
  rule.name = "db";
  rule.kind = RuleKind::kConcurrency;
  rule.concurrency = most;
  return rule;
}

inline DecisionApiOptions Trusting() {
  DecisionApiOptions options;
  const std::string loopback[] = {"127.0.0.0/8"};
  options.view.client.trusted = http::IpBlocks::Create(loopback).value();
  return options;
}

// The API with these rules, and a client on a loopback connection.
class Api {
 public:
  explicit Api(std::vector<Rule> rules, DecisionApiOptions options = Trusting())
      : options_(std::move(options)) {
    RuleSet set;
    set.rules = std::move(rules);
    EXPECT_TRUE(engine_->Load(set).ok());
  }

  HandlerClient& client() { return client_; }
  engine::Engine& engine() { return *engine_; }
  OpenEntries& entries() { return entries_; }
  // As a worker does it.
  void Drain() {
    client_.server().Drain(seconds(10));
    api_.Drain();
  }
  void Advance(Duration by) {
    clock_.Advance(by);
    loop_->RunOnce(Duration::zero());
  }

 private:
  DecisionApiOptions options_;
  flowguard::testing::ManualClock clock_;
  std::unique_ptr<net::Loop> loop_ = net::Loop::Create(clock_).value();
  std::unique_ptr<engine::Engine> engine_ = engine::Engine::Create({}).value();
  OpenEntries entries_{*engine_, 2, 2};
  DecisionApi api_{*loop_, *engine_, entries_, options_};
  HandlerClient client_{*loop_, api_};
};

}  // namespace flowguard::serve
