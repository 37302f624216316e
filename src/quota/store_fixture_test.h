// SPDX-License-Identifier: Apache-2.0
//
// A store with a clock that the test moves and servers that answer when they are told.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "quota/shared_store.h"
#include "rules/compiled_rule.h"
#include "testing/rules.h"
#include "testing/scripted_cell_server.h"

namespace flowguard::quota {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Status = engine::TakeOutcome::Status;

// A loop of one store, without descriptors.
class ManualStoreLoop final : public StoreLoop {
 public:
  [[nodiscard]] Instant Now() const noexcept override { return now_; }
  void WakeAt(Instant when) noexcept override { wake_ = std::min(wake_, when); }

  // One turn, if the store wants one by now.  False: it does not.
  bool Turn(SharedStore& store) {
    if (wake_ > now_) return false;
    wake_ = Instant::max();
    store.Turn(now_);
    return true;
  }
  // Turns until the store has nothing to do now.
  void Settle(SharedStore& store) {
    while (Turn(store)) {
    }
  }
  void Advance(Duration by) { now_ += by; }
  [[nodiscard]] Instant wake() const noexcept { return wake_; }

 private:
  Instant now_ = Instant(std::chrono::hours(24 * 8));
  Instant wake_ = Instant::max();
};

// A rule with what the engine would give a store of it.
class TestRule {
 public:
  explicit TestRule(Rule rule) {
    compiled_.rule = std::move(rule);
    key_ = std::string("12345678") + compiled_.rule.name;
  }
  [[nodiscard]] engine::RemoteTake Take(int64_t cost = 1) const { return TakeAs(key_, cost); }
  // As another client.
  [[nodiscard]] engine::RemoteTake TakeAs(std::string_view key, int64_t cost = 1) const {
    engine::RemoteTake take;
    take.rule = &compiled_;
    take.key = key;
    take.cost = cost;
    const Rule& rule = compiled_.rule;
    if (rule.kind == RuleKind::kConcurrency) {
      take.config.rate = {rule.concurrency, base::kSlotExpiry};
    } else {
      take.config.rate = rule.rate;
      take.config.burst = rule.burst.value_or(0);
      take.config.wait = rule.wait;
    }
    return take;
  }

 private:
  rules::CompiledRule compiled_;
  std::string key_;
};

class StoreFixture : public ::testing::Test, public engine::TakeSink {
 protected:
  struct Answer {
    std::vector<engine::TakeOutcome> outcomes;
    int times = 0;
  };

  void SetUp() override { Build({}); }
  void Build(SharedStoreOptions options) {
    if (options.owner.empty()) options.owner = "node-a";
    options.seed = 7;
    store_ = std::make_unique<SharedStore>(std::move(options), loop_, server_);
  }

  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override {
    Answer& answer = answers_[ticket];
    answer.outcomes.assign(outcomes.begin(), outcomes.end());
    ++answer.times;
    order_.push_back(ticket);
  }

  uint64_t Ask(const std::vector<engine::RemoteTake>& takes, Duration within = milliseconds(20)) {
    store_->Take(takes, loop_.Now(), loop_.Now() + within, ++last_ticket_, this);
    return last_ticket_;
  }
  // The server answers everything that is asked, and what comes of that.
  void Run() {
    for (loop_.Settle(*store_); !server_.asked().empty(); loop_.Settle(*store_))
      server_.AnswerAll(loop_.Now());
  }
  // As Ask, until there is an answer.
  engine::TakeOutcome AskAndRun(const engine::RemoteTake& take) {
    const uint64_t ticket = Ask({take});
    Run();
    return OutcomeOf(ticket);
  }
  engine::TakeOutcome OutcomeOf(uint64_t ticket, size_t index = 0) {
    EXPECT_EQ(answers_[ticket].times, 1) << "ticket " << ticket;
    if (answers_[ticket].outcomes.size() <= index) return {};
    return answers_[ticket].outcomes[index];
  }
  [[nodiscard]] bool Answered(uint64_t ticket) { return answers_[ticket].times > 0; }
  // Time passes, and the store does what is due.
  void Pass(Duration time) {
    loop_.Advance(time);
    loop_.Settle(*store_);
  }

  ManualStoreLoop loop_;
  testing::ScriptedCellServer server_;
  std::unique_ptr<SharedStore> store_;
  std::map<uint64_t, Answer> answers_;
  std::vector<uint64_t> order_;
  uint64_t last_ticket_ = 0;
};

}  // namespace flowguard::quota
