// SPDX-License-Identifier: Apache-2.0
#include "breaker/breaker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/try.h"

namespace flowguard::breaker {
namespace {

int64_t Nanos(Instant now) noexcept {
  return now.time_since_epoch().count();
}

}  // namespace

Result<std::unique_ptr<Breaker>> Breaker::Create(const BreakerSpec& spec, BreakerObserver* observer,
                                                 uint64_t number) {
  FG_RETURN_IF_ERROR(CheckSpec(spec));
  return std::make_unique<Breaker>(spec, observer, number);
}

Breaker::Breaker(const BreakerSpec& spec, BreakerObserver* observer, uint64_t number)
    : spec_(spec),
      successes_needed_(spec.probe_successes == 0 ? spec.probes : spec.probe_successes),
      observer_(observer),
      number_(number),
      window_(spec),
      probes_(static_cast<size_t>(spec.probes)) {
  FG_DCHECK(CheckSpec(spec).ok());
}

BreakerAdmission Breaker::TryProbe(Instant now) noexcept {
  if (const Duration wait = WaitAt(now); wait > Duration::zero()) return {{}, wait};
  BreakerAdmission admission;
  {
    base::MutexLock lock(mutex_);
    admission = ProbeLocked(now);
  }
  Tell();
  return admission;
}

BreakerAdmission Breaker::ProbeLocked(Instant now) noexcept {
  const uint64_t word = word_.load(std::memory_order_relaxed);
  const int64_t at = Nanos(now);
  if (StateOf(word) == BreakerState::kClosed) return {{PhaseOf(word), 0}, {}};
  if (StateOf(word) == BreakerState::kOpen) {
    const int64_t wait = turn_at_.load(std::memory_order_relaxed) - at;
    if (wait > 0) return {{}, std::min(Duration(wait), spec_.open_for)};
    std::fill(probes_.begin(), probes_.end(), Probe{});
    turn_at_.store(kAtOnce, std::memory_order_relaxed);
    Enter(BreakerState::kHalfOpen, BreakerReason::kOpenForOver, {}, now);
  }
  MoveTurn(at);
  Probe* given = nullptr;  // a free place, else that of the probe that is overdue for longest
  for (Probe& probe : probes_) {
    if (probe.place == Place::kFree) {
      given = &probe;
      break;
    }
    if (probe.place == Place::kGood || probe.overdue_at > at) continue;
    if (given == nullptr || probe.IsBefore(*given)) given = &probe;
  }
  if (given == nullptr) {
    return {{}, Duration(turn_at_.load(std::memory_order_relaxed) - at)};
  }
  const auto place = static_cast<uint64_t>(given - &*probes_.begin());
  *given = {Place::kOut, ++probes_ever_ << kPlaceBits | place, at + spec_.open_for.count()};
  SetTurn();
  return {{PhaseOf(word_.load(std::memory_order_relaxed)), given->number}, {}};
}

Duration Breaker::WaitAt(Instant now) noexcept {
  const Duration wait(turn_at_.load(std::memory_order_acquire) - Nanos(now));
  if (wait <= spec_.open_for) [[likely]]
    return std::max(wait, Duration::zero());
  // The clock stepped back, or this stamp is older than the transition.
  base::MutexLock lock(mutex_);
  MoveTurn(Nanos(now));
  return std::clamp(Duration(turn_at_.load(std::memory_order_relaxed) - Nanos(now)),
                    Duration::zero(), spec_.open_for);
}

// Invariant (5).
void Breaker::MoveTurn(int64_t now) noexcept {
  const int64_t latest = now + spec_.open_for.count();
  switch (StateOf(word_.load(std::memory_order_relaxed))) {
    case BreakerState::kClosed:
      return;
    case BreakerState::kOpen:
      if (turn_at_.load(std::memory_order_relaxed) > latest)
        turn_at_.store(latest, std::memory_order_release);
      return;
    case BreakerState::kHalfOpen:
      for (Probe& probe : probes_)
        probe.overdue_at = std::min(probe.overdue_at, latest);
      SetTurn();
      return;
  }
}

void Breaker::Settle(BreakerTicket& ticket, Outcome outcome, Duration took, Instant now) noexcept {
  const BreakerTicket mine = std::exchange(ticket, {});
  if (mine.phase == 0) return;
  const CallMark mark = MarkOf(spec_, outcome, took);
  if (mine.is_probe()) {
    SettleProbe(mine, mark, now);
    return;
  }
  if (mark == CallMark::kNeutral) return;
  const auto still_mine = [&] { return InPhase(mine.phase, BreakerState::kClosed); };
  CallCounts counts;
  if (!still_mine() || !window_.Count(now, mark == CallMark::kBad, still_mine, counts)) return;
  if (Opens(spec_, counts)) [[unlikely]]
    OpenBy(mine.phase, counts, now);
}

void Breaker::OpenBy(uint64_t phase, const CallCounts& counts, Instant now) noexcept {
  {
    base::MutexLock lock(mutex_);
    if (!InPhase(phase, BreakerState::kClosed)) return;  // another thread saw it too
    Open(BreakerReason::kCondition, counts, now);
    window_.Clear();
  }
  Tell();
}

void Breaker::SettleProbe(const BreakerTicket& ticket, CallMark mark, Instant now) noexcept {
  {
    base::MutexLock lock(mutex_);
    Probe* const probe = FindPlace(ticket);
    if (probe == nullptr) return;
    if (mark == CallMark::kNeutral) {
      if (probe->number != ticket.probe) return;  // another has its place
      *probe = {};
      SetTurn();
      return;
    }
    const int good = CountPlaces(Place::kGood);
    if (mark == CallMark::kBad) {
      Open(BreakerReason::kProbeBad, {good + 1, 1}, now);
    } else if (good + 1 < successes_needed_) {
      probe->place = Place::kGood;
      SetTurn();
      return;
    } else {
      Enter(BreakerState::kClosed, BreakerReason::kProbesGood, {good + 1, 0}, now);
    }
  }
  Tell();
}

void Breaker::GiveBack(BreakerTicket& ticket, Instant now) noexcept {
  const BreakerTicket mine = std::exchange(ticket, {});
  if (!mine.is_probe()) return;
  {
    base::MutexLock lock(mutex_);
    Probe* const probe = FindPlace(mine);
    if (probe == nullptr || probe->number != mine.probe) return;
    *probe = {};
    SetTurn();
    if (CountPlaces(Place::kFree) < spec_.probes) return;
    Enter(BreakerState::kOpen, BreakerReason::kProbeGivenBack, {}, now);
  }
  Tell();
}

Breaker::Probe* Breaker::FindPlace(const BreakerTicket& ticket) noexcept {
  if (!InPhase(ticket.phase, BreakerState::kHalfOpen)) return nullptr;
  Probe& probe = probes_[ticket.probe & ((1U << kPlaceBits) - 1)];
  return probe.place == Place::kOut ? &probe : nullptr;
}

int Breaker::CountPlaces(Place place) const noexcept {
  return static_cast<int>(std::count_if(probes_.begin(), probes_.end(),
                                        [&](const Probe& probe) { return probe.place == place; }));
}

void Breaker::SetTurn() noexcept {
  int64_t turn = INT64_MAX;
  for (const Probe& probe : probes_) {
    if (probe.place == Place::kFree) turn = kAtOnce;
    if (probe.place == Place::kOut) turn = std::min(turn, probe.overdue_at);
  }
  turn_at_.store(turn, std::memory_order_release);
}

void Breaker::Open(BreakerReason reason, const CallCounts& counts, Instant now) noexcept {
  turn_at_.store(Nanos(now) + spec_.open_for.count(), std::memory_order_release);
  Enter(BreakerState::kOpen, reason, counts, now);
}

void Breaker::Enter(BreakerState to, BreakerReason reason, const CallCounts& counts,
                    Instant now) noexcept {
  const uint64_t word = word_.load(std::memory_order_relaxed);
  word_.store((PhaseOf(word) + 1) << 2 | static_cast<uint64_t>(to), std::memory_order_release);
  if (observer_ == nullptr) return;
  if (event_count_ == events_.size()) {  // the oldest goes, so that the last state is told
    first_event_ = (first_event_ + 1) % events_.size();
    --event_count_;
    ++missed_;
  }
  events_[(first_event_ + event_count_++) % events_.size()] = {number_, StateOf(word), to, reason,
                                                               now,     counts,        0};
}

void Breaker::Tell() noexcept {
  if (observer_ == nullptr) return;
  BreakerEvent event;
  for (bool first = true; NextEvent(first, event); first = false) {
    try {
      observer_->OnTransition(event);
    } catch (...) {
      observer_failures_.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

// Whoever finds telling_ set leaves its events to that thread.
bool Breaker::NextEvent(bool first, BreakerEvent& event) noexcept {
  base::MutexLock lock(mutex_);
  if (first && telling_) return false;
  telling_ = event_count_ > 0;
  if (!telling_) return false;
  event = events_[first_event_];
  event.missed = std::exchange(missed_, 0);
  first_event_ = (first_event_ + 1) % events_.size();
  --event_count_;
  return true;
}

}  // namespace flowguard::breaker
