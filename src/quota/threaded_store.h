// SPDX-License-Identifier: Apache-2.0
//
// A store that lives on an IoThread, for callers on any thread: the library's driver.
//
//   caller's thread                          the IoThread
//   Take: copies, posts ───────────────────► store.Take
//   sink.OnTaken ◄─── (on the IoThread) ──── OnTaken
//   Abandon: marks, posts ─────────────────► store.Abandon; an answer that came between
//                                            is given back if the request was refused
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "flowguard/time.h"

#include "engine/quota_store.h"
#include "quota/io_thread.h"

namespace flowguard::quota {

// Threads: all methods from any thread.  Sinks are called on the IoThread, or inside Take.
// Time:    `now` and deadlines of callers may be on another line than the IoThread's clock;
//          what counts is how far they are apart.
// Memory:  bounded (base/bounds.h): kStoreCallsMax takes, kStoreDuesMax give-backs and
//          charges that the IoThread has not come to yet; more fail, or are lost and counted.
class ThreadedStore final : public engine::QuotaStore, private engine::TakeSink {
 public:
  // `store` lives on the thread's loop.  Both must outlive this, and so must callers be
  // gone: whose Quiesce has returned.
  ThreadedStore(IoThread& io, engine::QuotaStore& store, int nodes) noexcept
      : io_(io), store_(store), nodes_(nodes) {}
  ThreadedStore(const ThreadedStore&) = delete;
  ThreadedStore& operator=(const ThreadedStore&) = delete;

  void Take(std::span<const engine::RemoteTake> takes, Instant now, Instant deadline,
            uint64_t ticket, engine::TakeSink* sink) noexcept override;
  void Abandon(uint64_t ticket, bool refused) noexcept override;
  void GiveBack(const engine::RemoteTake& take, const limit::Receipt& receipt,
                Instant now) noexcept override;
  void Charge(const engine::RemoteTake& take, int64_t units, Instant now) noexcept override;
  [[nodiscard]] int Nodes() const noexcept override {
    return nodes_.load(std::memory_order_relaxed);
  }
  // Requires: not on the IoThread.
  void Quiesce() noexcept override;

  void set_nodes(int nodes) noexcept { nodes_.store(nodes, std::memory_order_relaxed); }
  // Give-backs and charges that did not fit.
  [[nodiscard]] uint64_t dues_lost() const noexcept {
    return dues_lost_.load(std::memory_order_relaxed);
  }

 private:
  // A take with the key that it views.
  struct OwnTake {
    explicit OwnTake(const engine::RemoteTake& from) : take(from), key(from.key) {}
    [[nodiscard]] engine::RemoteTake View() const noexcept;

    engine::RemoteTake take;
    std::string key;
  };
  // Made by Take; ended on the IoThread alone, so that its place stays the same there.
  struct Call {
    engine::TakeSink* sink = nullptr;
    Instant deadline;  // by the IoThread's clock
    std::vector<OwnTake> takes;
    bool telling = false;    // the sink is being called
    bool abandoned = false;  // it is not called any more
    bool refused = false;    // once abandoned: the request did not go
  };

  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override;
  // On the IoThread.
  void StartTake(uint64_t ticket) noexcept;
  void EndAbandoned(uint64_t ticket) noexcept;
  void ReturnLate(const Call& call, std::span<const engine::TakeOutcome> outcomes) noexcept;
  // Room for one more give-back or charge; false: it is lost, and counted.
  [[nodiscard]] bool ReserveDue() noexcept;

  IoThread& io_;
  engine::QuotaStore& store_;
  std::atomic<int> nodes_;
  std::atomic<uint64_t> dues_lost_{0};
  std::atomic<size_t> dues_waiting_{0};
  std::mutex mutex_;
  std::condition_variable told_;
  std::unordered_map<uint64_t, Call> calls_;  // by ticket; under mutex_
};

}  // namespace flowguard::quota
