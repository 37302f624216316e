// SPDX-License-Identifier: Apache-2.0
//
// A circuit breaker: watches how calls end, refuses them for a while when too many end
// badly, and lets a few through to see whether that is over.
//
//   closed --condition met--> open --open_for over, a call comes--> half-open
//   half-open --a bad probe--> open          half-open --enough good probes--> closed
//
//   BreakerAdmission admission = breaker.TryEnter(now);
//   if (!admission.admitted()) return Refuse(admission.retry_after);
//   ...
//   breaker.Settle(admission.ticket, Outcome::kOk, took, later);
//
// Every transition begins a new phase, with a number of its own; the state and the number
// of the phase are one atomic word.  A ticket names the phase that admitted it.
//
// Invariants
//   (1) The word is written with the lock held, after turn_at_: who reads the word and
//       then turn_at_ sees the one that belongs to it, or a later one.
//   (2) A call is counted only in the phase that admitted it: CallWindow asks for the word
//       between its read and its swap, and the window is cleared after the word has turned
//       to open.  Calls of an earlier closed phase are nobody's.
//   (3) In one half-open phase each of the N places is given to one probe at a time.  It is
//       free again when its probe says nothing (neutral, given back), and it is given to
//       another when its probe has taken open_for.  A good probe keeps its place, a bad one
//       ends the phase.  So N probes at most are out, N results at most are waited for, and
//       from every half-open state a call can come in after open_for at the latest.
//   (4) A good or bad probe settles its place, once, whoever is out there by now: what takes
//       longer than open_for is heard too.  One that says nothing frees its place only by its
//       number, which is never used twice.  After the phase it settles nothing.
//   (5) Who is refused waits at most open_for by its own `now`: a turn_at_ beyond that is
//       from before the clock stepped back, and is moved.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "flowguard/decision.h"
#include "flowguard/result.h"
#include "flowguard/time.h"

#include "base/bounds.h"
#include "base/mutex.h"
#include "breaker/call_window.h"
#include "breaker/observer.h"
#include "breaker/spec.h"

namespace flowguard::breaker {

// What an admitted call brings back.  A copy is the same call; Settle and GiveBack blank
// the one they are given, and do nothing with a blank one.
struct BreakerTicket {
  uint64_t phase = 0;  // 0: blank
  uint64_t probe = 0;  // 0: an ordinary call; else its number, and below its place

  [[nodiscard]] bool is_probe() const noexcept { return probe != 0; }
};

struct [[nodiscard]] BreakerAdmission {
  BreakerTicket ticket;    // blank when refused
  Duration retry_after{};  // when refused, above 0 and at most open_for: then another call
                           // may probe.  Half-open it may close earlier

  [[nodiscard]] bool admitted() const noexcept { return ticket.phase != 0; }
};

// Memory:   under 800 bytes, 16 a bucket and 24 a probe; nothing is allocated after Create.
// Threads:  all methods from any thread.
// Time:     stamps may be out of order; see CallWindow::Count and (5).
class Breaker {
 public:
  // `observer` may be null; else it outlives the breaker.  `number` is for its events.
  // Errors: as CheckSpec.
  static Result<std::unique_ptr<Breaker>> Create(const BreakerSpec& spec,
                                                 BreakerObserver* observer = nullptr,
                                                 uint64_t number = 0);

  // Requires: CheckSpec(spec).
  Breaker(const BreakerSpec& spec, BreakerObserver* observer, uint64_t number);
  Breaker(const Breaker&) = delete;
  Breaker& operator=(const Breaker&) = delete;

  // Admits a call, as an ordinary one or as a probe, or refuses it.  Who is admitted
  // settles or gives back, exactly once.
  // Cost:  closed: one load.  Refused: two.  A lock to probe.
  BreakerAdmission TryEnter(Instant now) noexcept {
    const uint64_t word = word_.load(std::memory_order_acquire);
    if (StateOf(word) == BreakerState::kClosed) [[likely]]
      return {{PhaseOf(word), 0}, {}};
    return TryProbe(now);
  }

  // How long TryEnter(now) would refuse; 0: it would admit, as things stand.  Takes no
  // probe.  Who asks several breakers asks them all first, so that none gives a probe to
  // a call that another refuses.
  // Cost:  as TryEnter.
  [[nodiscard]] Duration RefusedFor(Instant now) noexcept {
    if (state() == BreakerState::kClosed) [[likely]]
      return {};
    return WaitAt(now);
  }

  // The call ended, `took` after it began.  Blanks the ticket.
  // Cost:  closed: a load and a compare-and-swap.  A lock for a probe, and when it opens.
  void Settle(BreakerTicket& ticket, Outcome outcome, Duration took, Instant now) noexcept;

  // The call was not made after all: something else refused it.  Nothing is counted, and a
  // probe's place is free at once; was it the only one, the breaker is open again and the
  // next call probes.  Blanks the ticket.
  void GiveBack(BreakerTicket& ticket, Instant now) noexcept;

  // The state at this moment.  Open stays open until a call comes, however long that takes.
  [[nodiscard]] BreakerState state() const noexcept {
    return StateOf(word_.load(std::memory_order_acquire));
  }
  // The window as of `now`; empty unless closed.  Cost: a lock, O(buckets).
  [[nodiscard]] CallCounts Look(Instant now) const noexcept { return window_.Look(now); }
  [[nodiscard]] const BreakerSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] uint64_t observer_failures() const noexcept {
    return observer_failures_.load(std::memory_order_relaxed);
  }

 private:
  enum class Place : uint8_t { kFree, kOut, kGood };
  struct Probe {
    Place place = Place::kFree;
    uint64_t number = 0;
    int64_t overdue_at = 0;  // ns

    [[nodiscard]] bool IsBefore(const Probe& other) const noexcept {
      return overdue_at != other.overdue_at ? overdue_at < other.overdue_at : number < other.number;
    }
  };
  static constexpr int64_t kAtOnce = 0;  // of turn_at_

  static BreakerState StateOf(uint64_t word) noexcept {
    return static_cast<BreakerState>(word & 3);
  }
  // The place of a probe in its ticket.
  static constexpr int kPlaceBits = 8;
  static_assert(base::kBreakerProbesMax <= 1 << kPlaceBits);

  static uint64_t PhaseOf(uint64_t word) noexcept { return word >> 2; }
  [[nodiscard]] bool InPhase(uint64_t phase, BreakerState state) const noexcept {
    return word_.load(std::memory_order_acquire) == (phase << 2 | static_cast<uint64_t>(state));
  }

  BreakerAdmission TryProbe(Instant now) noexcept;
  BreakerAdmission ProbeLocked(Instant now) noexcept FG_REQUIRES(mutex_);
  // Of a breaker that is not closed.
  Duration WaitAt(Instant now) noexcept;
  void MoveTurn(int64_t now) noexcept FG_REQUIRES(mutex_);

  void SettleProbe(const BreakerTicket& ticket, CallMark mark, Instant now) noexcept;
  void OpenBy(uint64_t phase, const CallCounts& counts, Instant now) noexcept;
  // The place of a probe, whoever is out there by now.  Null: its phase is over, or the
  // place is settled or free.
  [[nodiscard]] Probe* FindPlace(const BreakerTicket& ticket) noexcept FG_REQUIRES(mutex_);
  [[nodiscard]] int CountPlaces(Place place) const noexcept FG_REQUIRES(mutex_);
  // turn_at_ by the places.
  void SetTurn() noexcept FG_REQUIRES(mutex_);

  void Open(BreakerReason reason, const CallCounts& counts, Instant now) noexcept
      FG_REQUIRES(mutex_);
  void Enter(BreakerState to, BreakerReason reason, const CallCounts& counts, Instant now) noexcept
      FG_REQUIRES(mutex_);
  // Tells the observer what waits, unless another thread is at it.
  void Tell() noexcept FG_EXCLUDES(mutex_);
  [[nodiscard]] bool NextEvent(bool first, BreakerEvent& event) noexcept FG_EXCLUDES(mutex_);

  const BreakerSpec spec_;
  const int successes_needed_;
  BreakerObserver* const observer_;
  const uint64_t number_;

  std::atomic<uint64_t> word_{1 << 2};  // phase 1, closed
  // Not closed: from when on a call may probe, if it may at all before something settles.
  std::atomic<int64_t> turn_at_{kAtOnce};
  CallWindow window_;

  mutable base::Mutex mutex_;
  std::vector<Probe> probes_ FG_GUARDED_BY(mutex_);
  uint64_t probes_ever_ FG_GUARDED_BY(mutex_) = 0;

  std::array<BreakerEvent, base::kBreakerEventsMax> events_ FG_GUARDED_BY(mutex_);
  size_t first_event_ FG_GUARDED_BY(mutex_) = 0;
  size_t event_count_ FG_GUARDED_BY(mutex_) = 0;
  uint64_t missed_ FG_GUARDED_BY(mutex_) = 0;
  bool telling_ FG_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> observer_failures_{0};
};

}  // namespace flowguard::breaker
