// SPDX-License-Identifier: Apache-2.0
//
// The QuotaStore of a process that has both: shared rules are asked of a store that all
// processes share, and behind that cluster rules of token servers, which take nothing back.
//
// Takes of one request that are all of one kind go to their store as they are.  Of others
// the shared ones are asked first; where one of them refuses the cluster ones are not asked,
// and where one of these refuses the shared ones are given back.
//
// Threads: the loop's.
// Memory:  a copy of the takes of each request of both kinds that waits; at most
//          kStoreAsksMax of them, more are answered as failed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/quota_store.h"
#include "net/loop.h"

namespace flowguard::quota {

class RoutedStore final : public engine::QuotaStore, private engine::TakeSink {
 public:
  // All must outlive it, and the stores live on the loop.  Shared rules are given
  // `shared_deadline` at most, so that there is time for the others; a token client has a
  // time-out of its own.
  RoutedStore(net::Loop& loop, engine::QuotaStore& shared, Duration shared_deadline,
              engine::QuotaStore& cluster) noexcept
      : loop_(loop), shared_(shared), shared_deadline_(shared_deadline), cluster_(cluster) {}
  RoutedStore(const RoutedStore&) = delete;
  RoutedStore& operator=(const RoutedStore&) = delete;

  void Take(std::span<const engine::RemoteTake> takes, Instant now, Instant deadline,
            uint64_t ticket, engine::TakeSink* sink) noexcept override;
  void Abandon(uint64_t ticket, bool refused) noexcept override;
  void GiveBack(const engine::RemoteTake& take, const limit::Receipt& receipt,
                Instant now) noexcept override;
  void Charge(const engine::RemoteTake& take, int64_t units, Instant now) noexcept override;
  // Those of the shared store, which counts processes and not connections.
  [[nodiscard]] int Nodes() const noexcept override;

  // Requests of both kinds that wait for an answer.
  [[nodiscard]] size_t pending() const noexcept { return calls_.size(); }

 private:
  // A take with the key that it views.
  struct OwnTake {
    engine::RemoteTake take;
    std::string key;
  };
  struct Call {
    engine::TakeSink* sink = nullptr;
    Instant deadline;
    std::vector<OwnTake> takes;
    std::vector<engine::TakeOutcome> outcomes;  // of all; those not answered yet are failed
    bool shared_answered = false;
  };

  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override;
  [[nodiscard]] static bool Refuses(const Call& call) noexcept;
  void AskPart(const Call& call, uint64_t ticket, Scope scope) noexcept;
  // `all`: or only the slots of calls, which would be held for ever.
  void GiveSharedBack(Call& call, bool all) noexcept;
  [[nodiscard]] engine::QuotaStore& StoreOf(const engine::RemoteTake& take) noexcept;

  net::Loop& loop_;
  engine::QuotaStore& shared_;
  const Duration shared_deadline_;
  engine::QuotaStore& cluster_;
  std::unordered_map<uint64_t, Call> calls_;  // by ticket
};

}  // namespace flowguard::quota
