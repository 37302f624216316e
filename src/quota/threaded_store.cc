// SPDX-License-Identifier: Apache-2.0
#include "quota/threaded_store.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bounds.h"
#include "rules/compiled_rule.h"

namespace flowguard::quota {

using engine::RemoteTake;
using engine::TakeOutcome;

RemoteTake ThreadedStore::OwnTake::View() const noexcept {
  RemoteTake view = take;
  view.key = key;
  return view;
}

void ThreadedStore::Take(std::span<const RemoteTake> takes, Instant now, Instant deadline,
                         uint64_t ticket, engine::TakeSink* sink) noexcept {
  Call call;
  call.sink = sink;
  call.deadline = io_.loop().clock().Now() + (deadline - now);
  call.takes.reserve(takes.size());
  for (const RemoteTake& take : takes)
    call.takes.emplace_back(take);
  bool room = takes.size() <= base::kRemoteTakesPerRequestMax;
  {
    const std::lock_guard lock(mutex_);
    room = room && calls_.size() < base::kStoreCallsMax;
    if (room) calls_.emplace(ticket, std::move(call));
  }
  if (!room) {
    const std::array<TakeOutcome, base::kRemoteTakesPerRequestMax> failed{};
    return sink->OnTaken(ticket, {failed.data(), std::min(takes.size(), failed.size())});
  }
  io_.Post([this, ticket] { StartTake(ticket); });
}

void ThreadedStore::StartTake(uint64_t ticket) noexcept {
  std::array<RemoteTake, base::kRemoteTakesPerRequestMax> takes;
  size_t count = 0;
  Instant deadline;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(ticket);
    if (found == calls_.end()) return;
    if (found->second.abandoned) {
      calls_.erase(found);
      return;
    }
    for (const OwnTake& take : found->second.takes)
      takes[count++] = take.View();
    deadline = found->second.deadline;
  }
  store_.Take({takes.data(), count}, io_.loop().Now(), deadline, ticket, this);
}

void ThreadedStore::OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept {
  engine::TakeSink* sink = nullptr;
  Call late;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(ticket);
    if (found == calls_.end()) return;
    if (found->second.abandoned) {
      late = std::move(found->second);
      calls_.erase(found);
    } else {
      found->second.telling = true;
      sink = found->second.sink;
    }
  }
  // Abandon was faster than the answer, and its word to the store is on the way still.
  if (sink == nullptr) return ReturnLate(late, outcomes);
  sink->OnTaken(ticket, outcomes);
  {
    const std::lock_guard lock(mutex_);
    calls_.erase(ticket);
  }
  told_.notify_all();
}

void ThreadedStore::ReturnLate(const Call& call, std::span<const TakeOutcome> outcomes) noexcept {
  for (size_t i = 0; i < std::min(call.takes.size(), outcomes.size()); ++i) {
    const limit::Receipt& receipt = outcomes[i].receipt;
    if (outcomes[i].status != TakeOutcome::Status::kTaken || receipt.cost <= 0) continue;
    const RemoteTake take = call.takes[i].View();
    // A slot in any case: nobody will say when its call ends.
    const bool slot = take.rule->rule.kind == RuleKind::kConcurrency;
    if (call.refused || slot) store_.GiveBack(take, receipt, io_.loop().Now());
  }
}

void ThreadedStore::Abandon(uint64_t ticket, bool refused) noexcept {
  {
    std::unique_lock lock(mutex_);
    const auto found = calls_.find(ticket);
    if (found == calls_.end()) return;
    if (found->second.telling) {
      told_.wait(lock, [&] { return calls_.find(ticket) == calls_.end(); });
      return;
    }
    found->second.abandoned = true;
    found->second.refused = refused;
  }
  io_.Post([this, ticket] { EndAbandoned(ticket); });
}

void ThreadedStore::EndAbandoned(uint64_t ticket) noexcept {
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(ticket);
    if (found == calls_.end()) return;
    refused = found->second.refused;
    calls_.erase(found);
  }
  store_.Abandon(ticket, refused);
}

bool ThreadedStore::ReserveDue() noexcept {
  if (dues_waiting_.fetch_add(1, std::memory_order_relaxed) < base::kStoreDuesMax) return true;
  dues_waiting_.fetch_sub(1, std::memory_order_relaxed);
  dues_lost_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void ThreadedStore::GiveBack(const RemoteTake& take, const limit::Receipt& receipt,
                             Instant /*now*/) noexcept {
  if (!ReserveDue()) return;
  io_.Post([this, own = OwnTake(take), receipt] {
    dues_waiting_.fetch_sub(1, std::memory_order_relaxed);
    store_.GiveBack(own.View(), receipt, io_.loop().Now());
  });
}

void ThreadedStore::Charge(const RemoteTake& take, int64_t units, Instant /*now*/) noexcept {
  if (!ReserveDue()) return;
  io_.Post([this, own = OwnTake(take), units] {
    dues_waiting_.fetch_sub(1, std::memory_order_relaxed);
    store_.Charge(own.View(), units, io_.loop().Now());
  });
}

void ThreadedStore::Quiesce() noexcept {
  io_.PostAndWait([] {});
}

}  // namespace flowguard::quota
