// SPDX-License-Identifier: Apache-2.0
#include "quota/routed_store.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bounds.h"
#include "quota/soft_rule.h"
#include "rules/compiled_rule.h"

namespace flowguard::quota {

using engine::RemoteTake;
using engine::TakeOutcome;

namespace {

bool IsCluster(const RemoteTake& take) noexcept {
  return take.rule->rule.scope == Scope::kCluster;
}

// Of a take that is not asked, for another one has refused: nothing is held.
TakeOutcome NotAsked(const RemoteTake& take) noexcept {
  TakeOutcome outcome;
  outcome.status = TakeOutcome::Status::kTaken;
  outcome.numbers.allowed = true;
  outcome.numbers.limit = take.config.rate.limit;
  return outcome;
}

}  // namespace

engine::QuotaStore& RoutedStore::StoreOf(const RemoteTake& take) noexcept {
  return IsCluster(take) ? cluster_ : shared_;
}

void RoutedStore::Take(std::span<const RemoteTake> takes, Instant now, Instant deadline,
                       uint64_t ticket, engine::TakeSink* sink) noexcept {
  const auto cluster = static_cast<size_t>(std::ranges::count_if(takes, IsCluster));
  if (cluster == 0) {
    return shared_.Take(takes, now, std::min(deadline, now + shared_deadline_), ticket, sink);
  }
  if (cluster == takes.size()) return cluster_.Take(takes, now, deadline, ticket, sink);
  if (calls_.size() >= base::kStoreAsksMax) {
    const std::array<TakeOutcome, base::kRemoteTakesPerRequestMax> none{};
    return sink->OnTaken(ticket, std::span(none).first(takes.size()));
  }
  Call& call = calls_[ticket];
  call.sink = sink;
  call.deadline = deadline;
  call.outcomes.resize(takes.size());
  call.takes.reserve(takes.size());
  for (const RemoteTake& take : takes)
    call.takes.push_back({take, std::string(take.key)});
  AskPart(call, ticket, Scope::kShared);
}

// The stores copy what they are asked before they answer.
void RoutedStore::AskPart(const Call& call, uint64_t ticket, Scope scope) noexcept {
  const bool cluster = scope == Scope::kCluster;
  std::array<RemoteTake, base::kRemoteTakesPerRequestMax> part;
  size_t count = 0;
  for (const OwnTake& own : call.takes) {
    if (IsCluster(own.take) != cluster) continue;
    part[count] = own.take;
    part[count++].key = own.key;
  }
  const Instant now = loop_.Now();
  const std::span<const RemoteTake> takes = std::span(part).first(count);
  if (cluster) return cluster_.Take(takes, now, call.deadline, ticket, this);
  shared_.Take(takes, now, std::min(call.deadline, now + shared_deadline_), ticket, this);
}

bool RoutedStore::Refuses(const Call& call) noexcept {
  for (size_t i = 0; i < call.takes.size(); ++i) {
    const bool refused = call.outcomes[i].status == TakeOutcome::Status::kRefused;
    if (refused && !IsSoft(call.takes[i].take.rule->rule)) return true;
  }
  return false;
}

void RoutedStore::OnTaken(uint64_t ticket, std::span<const TakeOutcome> outcomes) noexcept {
  const auto found = calls_.find(ticket);
  if (found == calls_.end()) return;
  Call& call = found->second;
  size_t next = 0;
  for (size_t i = 0; i < call.takes.size() && next < outcomes.size(); ++i) {
    if (IsCluster(call.takes[i].take) == call.shared_answered) call.outcomes[i] = outcomes[next++];
  }
  const bool refuses = Refuses(call);
  if (!std::exchange(call.shared_answered, true)) {
    if (!refuses) return AskPart(call, ticket, Scope::kCluster);
    for (size_t i = 0; i < call.takes.size(); ++i) {
      if (IsCluster(call.takes[i].take)) call.outcomes[i] = NotAsked(call.takes[i].take);
    }
  } else if (refuses) {
    GiveSharedBack(call, /*all=*/true);
  }
  // The sink may take again.
  const Call ended = std::move(call);
  calls_.erase(found);
  ended.sink->OnTaken(ticket, ended.outcomes);
}

void RoutedStore::GiveSharedBack(Call& call, bool all) noexcept {
  for (size_t i = 0; i < call.takes.size(); ++i) {
    TakeOutcome& outcome = call.outcomes[i];
    const OwnTake& own = call.takes[i];
    const bool taken = outcome.status == TakeOutcome::Status::kTaken;
    if (IsCluster(own.take) || !taken || outcome.receipt.cost == 0) continue;
    if (!all && own.take.rule->rule.kind != RuleKind::kConcurrency) continue;
    RemoteTake take = own.take;
    take.key = own.key;
    shared_.GiveBack(take, std::exchange(outcome.receipt, {}), loop_.Now());
  }
}

void RoutedStore::Abandon(uint64_t ticket, bool refused) noexcept {
  auto call = calls_.extract(ticket);
  // Of one kind, it is known to one of them alone.
  shared_.Abandon(ticket, refused);
  cluster_.Abandon(ticket, refused);
  if (!call.empty() && call.mapped().shared_answered) GiveSharedBack(call.mapped(), refused);
}

void RoutedStore::GiveBack(const RemoteTake& take, const limit::Receipt& receipt,
                           Instant now) noexcept {
  StoreOf(take).GiveBack(take, receipt, now);
}

void RoutedStore::Charge(const RemoteTake& take, int64_t units, Instant now) noexcept {
  StoreOf(take).Charge(take, units, now);
}

int RoutedStore::Nodes() const noexcept {
  return shared_.Nodes();
}

}  // namespace flowguard::quota
