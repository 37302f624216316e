// SPDX-License-Identifier: Apache-2.0
//
// A QuotaStore that does what a test tells it: answers at once, late, twice, out of
// order, from another thread, with a failure, or never.  It counts the units that
// it holds for each key (limit: the take's rate.limit; nothing drains).
//
// As a real store, it takes the units when it is asked; how and when it answers is
// another matter.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/quota_store.h"

namespace flowguard::testing {

// Threads: any.
class FakeQuotaStore final : public engine::QuotaStore {
 public:
  enum class Script : uint8_t {
    kAtOnce,         // within Take
    kWhenTold,       // by AnswerAll, or never
    kTwice,          // within Take, two times
    kFromThread,     // on another thread
    kFails,          // within Take, as failed
    kAfterGivingUp,  // within Abandon, before the store knows of it
  };

  ~FakeQuotaStore() override {
    for (std::thread& thread : threads_)
      thread.join();
  }

  // The next Take follows `script`; those without one answer at once.
  void Next(Script script) {
    const std::lock_guard lock(mutex_);
    scripts_.push_back(script);
  }
  void set_nodes(int nodes) { nodes_ = nodes; }

  // Answers what was asked with kWhenTold, the last first.
  void AnswerAll() {
    std::vector<Asked> asked;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [ticket, one] : waiting_)
        asked.push_back(one);
      waiting_.clear();
    }
    std::reverse(asked.begin(), asked.end());
    for (const Asked& one : asked)
      one.sink->OnTaken(one.ticket, one.outcomes);
  }

  // Units held over all keys.
  [[nodiscard]] int64_t Held() const {
    const std::lock_guard lock(mutex_);
    int64_t sum = 0;
    for (const auto& [key, units] : held_)
      sum += units;
    return sum;
  }
  [[nodiscard]] int takes() const {
    const std::lock_guard lock(mutex_);
    return takes_;
  }
  [[nodiscard]] int abandoned() const {
    const std::lock_guard lock(mutex_);
    return abandoned_;
  }

  void Take(std::span<const engine::RemoteTake> takes, Instant /*now*/, Instant /*deadline*/,
            uint64_t ticket, engine::TakeSink* sink) noexcept override {
    Script script = Script::kAtOnce;
    Asked asked{
        .ticket = ticket, .sink = sink, .keys = {}, .outcomes = {}, .answers_abandon = false};
    {
      const std::lock_guard lock(mutex_);
      ++takes_;
      if (!scripts_.empty()) {
        script = scripts_.front();
        scripts_.pop_front();
      }
      for (const engine::RemoteTake& take : takes)
        asked.keys.emplace_back(take.key);
      asked.outcomes =
          script == Script::kFails ? std::vector<engine::TakeOutcome>(takes.size()) : Decide(takes);
      // A second answer tells of a second take.
      if (script == Script::kTwice) Decide(takes);
      asked.answers_abandon = script == Script::kAfterGivingUp;
      if (script == Script::kWhenTold || script == Script::kAfterGivingUp ||
          script == Script::kFromThread) {
        waiting_[ticket] = asked;
      }
    }
    switch (script) {
      case Script::kAtOnce:
      case Script::kFails:
        sink->OnTaken(ticket, asked.outcomes);
        break;
      case Script::kTwice:
        sink->OnTaken(ticket, asked.outcomes);
        sink->OnTaken(ticket, asked.outcomes);
        break;
      case Script::kFromThread: {
        const std::lock_guard lock(mutex_);
        threads_.emplace_back([this, ticket] { Deliver(ticket); });
        break;
      }
      case Script::kWhenTold:
      case Script::kAfterGivingUp:
        break;
    }
  }

  void Abandon(uint64_t ticket, bool refused) noexcept override {
    Asked asked;
    {
      // The sink must not be called once this has returned.
      const std::lock_guard delivered(delivering_);
      const std::lock_guard lock(mutex_);
      ++abandoned_;
      const auto found = waiting_.find(ticket);
      if (found == waiting_.end()) return;
      asked = found->second;
      waiting_.erase(found);
      if (!asked.answers_abandon && refused) {
        for (size_t i = 0; i < asked.keys.size(); ++i) {
          held_[asked.keys[i]] -= asked.outcomes[i].receipt.cost;
        }
      }
    }
    if (asked.answers_abandon) asked.sink->OnTaken(ticket, asked.outcomes);
  }

  void GiveBack(const engine::RemoteTake& take, const limit::Receipt& receipt,
                Instant /*now*/) noexcept override {
    const std::lock_guard lock(mutex_);
    held_[std::string(take.key)] -= receipt.cost;
  }
  void Charge(const engine::RemoteTake& take, int64_t units, Instant /*now*/) noexcept override {
    const std::lock_guard lock(mutex_);
    held_[std::string(take.key)] += units;
  }
  [[nodiscard]] int Nodes() const noexcept override { return nodes_; }

 private:
  struct Asked {
    uint64_t ticket = 0;
    engine::TakeSink* sink = nullptr;
    std::vector<std::string> keys;
    std::vector<engine::TakeOutcome> outcomes;
    bool answers_abandon = false;
  };

  void Deliver(uint64_t ticket) {
    const std::lock_guard delivering(delivering_);
    Asked asked;
    {
      const std::lock_guard lock(mutex_);
      const auto found = waiting_.find(ticket);
      if (found == waiting_.end()) return;
      asked = found->second;
      waiting_.erase(found);
    }
    asked.sink->OnTaken(ticket, asked.outcomes);
  }

  // All or nothing.
  std::vector<engine::TakeOutcome> Decide(std::span<const engine::RemoteTake> takes) {
    std::vector<engine::TakeOutcome> outcomes;
    bool refused = false;
    for (const engine::RemoteTake& take : takes) {
      engine::TakeOutcome& outcome = outcomes.emplace_back();
      const int64_t limit = take.config.rate.limit;
      const int64_t left = limit - held_[std::string(take.key)];
      outcome.numbers.limit = limit;
      outcome.numbers.remaining = std::clamp<int64_t>(left, 0, limit);
      outcome.numbers.allowed = take.cost <= left;
      if (outcome.numbers.allowed) {
        outcome.status = engine::TakeOutcome::Status::kTaken;
        outcome.numbers.remaining -= take.cost;
      } else {
        outcome.status = engine::TakeOutcome::Status::kRefused;
        outcome.numbers.retry_after = std::chrono::seconds(1);
        refused = true;
      }
    }
    for (size_t i = 0; i < takes.size() && !refused; ++i) {
      outcomes[i].receipt = {.cost = takes[i].cost, .mark = 0};
      held_[std::string(takes[i].key)] += takes[i].cost;
    }
    return outcomes;
  }

  std::mutex delivering_;  // held while a thread answers; before mutex_
  mutable std::mutex mutex_;
  std::deque<Script> scripts_;
  std::map<uint64_t, Asked> waiting_;
  std::map<std::string, int64_t> held_;
  std::vector<std::thread> threads_;
  int takes_ = 0;
  int abandoned_ = 0;
  int nodes_ = 0;
};

}  // namespace flowguard::testing
