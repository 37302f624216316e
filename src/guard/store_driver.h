// SPDX-License-Identifier: Apache-2.0
//
// Takes an attempt's remote takes through a QuotaStore: blocking up to a deadline,
// or with a callback.
//
// The deadline of a call with a callback is the store's to keep: its contract is to
// answer by then, as failed if need be, and nothing here wakes up by itself.  Against a
// store that breaks its word, every call also looks whether older ones are overdue.
//
// A store that answers late, twice, or never can neither change a decision that was
// made nor keep units of a request that was refused:
//   answers in time               the decision
//   answers while it is given up  ignored; given back if the request was refused, and slots
//                                 in any case
//   answers after it was given up the store gives back, as Abandon told it
//   answers again                 ignored, and given back while the call lasts
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "flowguard/clock.h"
#include "flowguard/decision.h"

#include "base/bounds.h"
#include "engine/attempt.h"
#include "engine/engine.h"
#include "engine/quota_store.h"

namespace flowguard::guard {

// Threads: all methods from any thread.
class StoreDriver final : public engine::TakeSink {
 public:
  using Done = std::function<void(const Decision&)>;

  // All must outlive the driver.
  StoreDriver(engine::Engine& engine, engine::QuotaStore& store, const Clock& clock,
              Duration deadline) noexcept
      : engine_(engine), store_(store), clock_(clock), deadline_(deadline) {}
  // Ends the calls that are still out, as failed.
  ~StoreDriver() override;

  // Asks for attempt.remote_takes() and resumes the attempt, blocking at most the
  // deadline.  Requires: attempt.remote_pending().
  // Time: blocks by the process's steady clock, whatever the Clock, for a thread sleeps
  // in real time; the store is given `now` and a deadline on the line of the Clock.
  void Run(engine::Attempt& attempt, Instant now) noexcept;

  // The same without blocking; `done` runs once, when the store answers.  A call that
  // it leaves overdue for as long again as the deadline is ended, as failed, by a later
  // Run or Start, or by the destructor.
  void Start(std::unique_ptr<engine::Attempt> attempt, Instant now, Done done);

  // Passes on what a step left to be given back or charged.
  void PassOnDues(const engine::Attempt& attempt, Instant now) noexcept;

  void OnTaken(uint64_t ticket, std::span<const engine::TakeOutcome> outcomes) noexcept override;

 private:
  struct Answer {
    std::array<engine::TakeOutcome, base::kRemoteTakesPerRequestMax> outcomes;
    size_t count = 0;

    void Copy(std::span<const engine::TakeOutcome> from) noexcept;
    [[nodiscard]] std::span<const engine::TakeOutcome> view() const noexcept {
      return {outcomes.data(), count};
    }
  };
  struct BlockedCall {
    std::condition_variable answered;
    Answer first;
    Answer late;  // came after it was given up, or a second time
    bool has_first = false;
    bool given_up = false;
  };
  struct AsyncCall {
    std::unique_ptr<engine::Attempt> attempt;
    Done done;
    Instant deadline;
  };
  struct Call {
    BlockedCall* blocked = nullptr;
    std::unique_ptr<AsyncCall> async;
  };

  // Resumes with the store's present count of nodes, which may have to do without it.
  void Resume(engine::Attempt& attempt, std::span<const engine::TakeOutcome> outcomes,
              Instant now) noexcept;
  void Finish(AsyncCall& call, std::span<const engine::TakeOutcome> outcomes, Instant now) noexcept;
  // Moves from `call` on success.  False: kStoreCallsMax are out already.
  bool Register(uint64_t ticket, Call& call) noexcept;
  void Unregister(uint64_t ticket) noexcept;
  // Ends async calls as failed: a few that are overdue, or all.
  // Cost: constant while the oldest is not overdue.
  enum class Which : uint8_t { kOverdue, kAll };
  void GiveUpOn(Which which, Instant now) noexcept;
  bool GiveUpOnOldest(Which which, Instant now) noexcept;
  void GiveBack(std::span<const engine::RemoteTake> takes,
                std::span<const engine::TakeOutcome> outcomes, bool slots_only,
                Instant now) noexcept;

  engine::Engine& engine_;
  engine::QuotaStore& store_;
  const Clock& clock_;
  const Duration deadline_;
  std::mutex mutex_;
  std::map<uint64_t, Call> calls_;  // under mutex_
  // Tickets of async calls that may be given up, the oldest first; under mutex_.  Not
  // those that the store is still being asked: it looks at their attempts.
  std::set<uint64_t> asked_;
};

}  // namespace flowguard::guard
