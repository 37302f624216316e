// SPDX-License-Identifier: Apache-2.0
#include "guard/store_driver.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "rules/compiled_rule.h"

namespace flowguard::guard {

using engine::Attempt;
using engine::RemoteTake;
using engine::TakeOutcome;

namespace {

// More than one, so that overdue calls become fewer while new ones come.
constexpr int kGiveUpsPerCallMax = 16;

// Distinct over all drivers, for they may share a store.
uint64_t NextTicket() noexcept {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void StoreDriver::Answer::Copy(std::span<const TakeOutcome> from) noexcept {
  count = std::min(from.size(), outcomes.size());
  std::copy_n(from.begin(), count, outcomes.begin());
}

StoreDriver::~StoreDriver() {
  GiveUpOn(Which::kAll, clock_.Now());
  store_.Quiesce();
}

bool StoreDriver::Register(uint64_t ticket, Call& call) noexcept {
  const std::lock_guard lock(mutex_);
  if (calls_.size() >= base::kStoreCallsMax) return false;
  calls_.emplace(ticket, std::move(call));
  return true;
}

void StoreDriver::Unregister(uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  calls_.erase(ticket);
}

void StoreDriver::Run(Attempt& attempt, Instant now) noexcept {
  GiveUpOn(Which::kOverdue, now);
  const uint64_t ticket = NextTicket();
  BlockedCall call;
  Call entry;
  entry.blocked = &call;
  if (!Register(ticket, entry)) {
    Resume(attempt, {}, now);
    return;
  }
  store_.Take(attempt.remote_takes(), now, now + deadline_, ticket, this);
  bool answered = false;
  {
    std::unique_lock lock(mutex_);
    answered = call.answered.wait_for(lock, deadline_, [&call] { return call.has_first; });
    call.given_up = !answered;
  }
  // Nobody writes `first` from here on.
  Resume(attempt, answered ? call.first.view() : std::span<const TakeOutcome>(), now);
  const bool refused = !attempt.decision().allowed();
  if (!answered) store_.Abandon(ticket, refused);
  Unregister(ticket);
  GiveBack(attempt.remote_takes(), call.late.view(), /*slots_only=*/!answered && !refused, now);
  PassOnDues(attempt, now);
}

void StoreDriver::Start(std::unique_ptr<Attempt> attempt, Instant now, Done done) {
  GiveUpOn(Which::kOverdue, now);
  const uint64_t ticket = NextTicket();
  // The call may have ended before Take returns.
  const std::span<const RemoteTake> takes = attempt->remote_takes();
  Call call;
  call.async = std::make_unique<AsyncCall>();
  call.async->attempt = std::move(attempt);
  call.async->done = std::move(done);
  call.async->deadline = now + deadline_;
  if (!Register(ticket, call)) {
    Finish(*call.async, {}, now);
    return;
  }
  store_.Take(takes, now, now + deadline_, ticket, this);
  const std::lock_guard lock(mutex_);
  if (calls_.find(ticket) != calls_.end()) asked_.insert(ticket);
}

void StoreDriver::OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept {
  std::unique_ptr<AsyncCall> async;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(ticket);
    if (found == calls_.end()) return;
    BlockedCall* blocked = found->second.blocked;
    if (blocked != nullptr) {
      if (!blocked->has_first && !blocked->given_up) {
        blocked->first.Copy(outcomes);
        blocked->has_first = true;
        blocked->answered.notify_one();
      } else if (blocked->late.count == 0) {
        blocked->late.Copy(outcomes);
      }
      return;
    }
    async = std::move(found->second.async);
    calls_.erase(found);
    asked_.erase(ticket);
  }
  Finish(*async, outcomes, clock_.Now());
}

void StoreDriver::Resume(Attempt& attempt, std::span<const TakeOutcome> outcomes,
                         Instant now) noexcept {
  engine_.SetFallbackNodes(store_.Nodes());
  engine_.Resume(attempt, outcomes, now);
}

void StoreDriver::Finish(AsyncCall& call, std::span<const TakeOutcome> outcomes,
                         Instant now) noexcept {
  Resume(*call.attempt, outcomes, now);
  PassOnDues(*call.attempt, now);
  call.done(call.attempt->decision());
}

void StoreDriver::GiveUpOn(Which which, Instant now) noexcept {
  for (int i = 0; which == Which::kAll || i < kGiveUpsPerCallMax; ++i)
    if (!GiveUpOnOldest(which, now)) return;
}

bool StoreDriver::GiveUpOnOldest(Which which, Instant now) noexcept {
  uint64_t ticket = 0;
  std::unique_ptr<AsyncCall> async;
  BlockedCall late;  // catches an answer that comes before the store knows
  late.given_up = true;
  {
    const std::lock_guard lock(mutex_);
    if (asked_.empty()) return false;
    ticket = *asked_.begin();
    Call& call = calls_.find(ticket)->second;
    // The store had its deadline, and as long again to say that it failed.
    const Instant overdue = call.async->deadline + deadline_;
    if (which == Which::kOverdue && overdue >= now) return false;
    async = std::move(call.async);
    call.blocked = &late;
    asked_.erase(asked_.begin());
  }
  Resume(*async->attempt, {}, now);
  const bool refused = !async->attempt->decision().allowed();
  store_.Abandon(ticket, refused);
  Unregister(ticket);
  GiveBack(async->attempt->remote_takes(), late.late.view(), /*slots_only=*/!refused, now);
  PassOnDues(*async->attempt, now);
  async->done(async->attempt->decision());
  return true;
}

// Of an answer that no attempt was told.  A slot comes back in any case: nobody would say when
// its call ends.
void StoreDriver::GiveBack(std::span<const RemoteTake> takes, std::span<const TakeOutcome> outcomes,
                           bool slots_only, Instant now) noexcept {
  for (size_t i = 0; i < std::min(takes.size(), outcomes.size()); ++i) {
    const bool took = outcomes[i].status == TakeOutcome::Status::kTaken;
    const bool slot = takes[i].rule->rule.kind == RuleKind::kConcurrency;
    if (!took || outcomes[i].receipt.cost <= 0 || (slots_only && !slot)) continue;
    store_.GiveBack(takes[i], outcomes[i].receipt, now);
  }
}

void StoreDriver::PassOnDues(const Attempt& attempt, Instant now) noexcept {
  for (const Attempt::StoreDue& due : attempt.store_dues()) {
    if (due.charge > 0) {
      store_.Charge(*due.take, due.charge, now);
    } else {
      store_.GiveBack(*due.take, due.receipt, now);
    }
  }
}

}  // namespace flowguard::guard
