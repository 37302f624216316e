// SPDX-License-Identifier: Apache-2.0
//
// A slow and obvious model of a breaker, written from what it promises and not from its
// code: a list of all calls, a list of the probes that are out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bounds.h"
#include "breaker/observer.h"
#include "breaker/spec.h"

namespace flowguard::breaker {

class SlowModel {
 public:
  struct Ticket {
    int64_t phase = 0;
    int64_t probe = 0;
    int place = 0;  // of the probe
  };
  struct Answer {
    bool admitted = false;
    Ticket ticket;
    int64_t wait = 0;
  };
  struct Transition {
    BreakerState from{};
    BreakerState to{};
    BreakerReason reason{};
    CallCounts counts;
    friend bool operator==(const Transition&, const Transition&) = default;
  };

  explicit SlowModel(const BreakerSpec& spec)
      : spec_(spec),
        open_for_(spec.open_for.count()),
        bucket_(spec.window.count() / spec.buckets),
        needed_(spec.probe_successes == 0 ? spec.probes : spec.probe_successes) {}

  Answer Enter(int64_t now) {
    if (state == BreakerState::kClosed) return {true, {phase_, 0, 0}, 0};
    if (state == BreakerState::kOpen) {
      until_ = std::min(until_, now + open_for_);
      if (until_ > now) return {false, {}, until_ - now};
      good_.clear();
      out_.clear();
      Turn(BreakerState::kHalfOpen, BreakerReason::kOpenForOver, {});
    }
    std::sort(out_.begin(), out_.end());
    const bool full = static_cast<int>(good_.size() + out_.size()) == spec_.probes;
    const int64_t wait = full ? out_.front().overdue_at - now : 0;
    if (wait > 0 && wait <= open_for_) return {false, {}, wait};
    for (Probe& probe : out_)
      probe.overdue_at = std::min(probe.overdue_at, now + open_for_);
    std::sort(out_.begin(), out_.end());
    int place = 0;
    if (full) {
      if (wait > open_for_) return {false, {}, out_.front().overdue_at - now};
      place = out_.front().place;
      out_.erase(out_.begin());
      ++replaced;
    } else {
      while (IsTaken(place))
        ++place;
    }
    out_.push_back({now + open_for_, ++probes_, place});
    return {true, {phase_, probes_, place}, 0};
  }

  void Settle(const Ticket& ticket, CallMark mark, int64_t now) {
    if (ticket.phase != phase_) {
      ++late;
      return;
    }
    if (ticket.probe == 0) {
      if (mark != CallMark::kNeutral) Count(mark == CallMark::kBad, now);
      return;
    }
    if (mark == CallMark::kNeutral) {
      Remove(ticket);
      return;
    }
    const auto of_place = [&](const Probe& p) { return p.place == ticket.place; };
    if (std::erase_if(out_, of_place) == 0) return;
    const auto good = static_cast<int64_t>(good_.size());
    if (mark == CallMark::kBad) {
      until_ = now + open_for_;
      Turn(BreakerState::kOpen, BreakerReason::kProbeBad, {good + 1, 1});
      return;
    }
    good_.push_back(ticket.place);
    if (good + 1 == needed_) Turn(BreakerState::kClosed, BreakerReason::kProbesGood, {needed_, 0});
  }

  void GiveBack(const Ticket& ticket) {
    if (ticket.phase != phase_ || ticket.probe == 0 || !Remove(ticket)) return;
    if (!good_.empty() || !out_.empty()) return;
    until_ = 0;
    Turn(BreakerState::kOpen, BreakerReason::kProbeGivenBack, {});
  }

  [[nodiscard]] CallCounts Look(int64_t now) const {
    return CountsAt(std::max(now / bucket_, newest_));
  }

  BreakerState state = BreakerState::kClosed;
  std::vector<Transition> transitions;
  int64_t replaced = 0;  // probes that were overdue
  int64_t late = 0;      // calls that ended in another phase
  int64_t steps = 0;     // windows begun anew because the clock stepped back

 private:
  struct Call {
    int64_t bucket;
    bool bad;
  };
  struct Probe {
    int64_t overdue_at;
    int64_t number;
    int place;
    friend auto operator<=>(const Probe&, const Probe&) = default;
  };

  void Count(bool bad, int64_t now) {
    if (now < newest_ * bucket_ - Duration(base::kLateStampMax).count()) {
      calls_.clear();
      newest_ = now / bucket_;
      ++steps;
    }
    newest_ = std::max(newest_, now / bucket_);
    calls_.push_back({newest_, bad});
    const CallCounts counts = CountsAt(newest_);
    if (!IsTooBad(counts)) return;
    until_ = now + open_for_;
    calls_.clear();
    Turn(BreakerState::kOpen, BreakerReason::kCondition, counts);
  }

  [[nodiscard]] CallCounts CountsAt(int64_t bucket) const {
    CallCounts counts;
    for (const Call& call : calls_) {
      if (call.bucket <= bucket - spec_.buckets) continue;
      ++counts.calls;
      counts.bad += call.bad ? 1 : 0;
    }
    return counts;
  }

  // Ratios in the model's timelines are quarters: no rounding.
  [[nodiscard]] bool IsTooBad(const CallCounts& counts) const {
    if (counts.calls < spec_.min_calls) return false;
    if (spec_.condition == BreakerCondition::kErrorCount) return counts.bad > spec_.errors;
    const auto quarters = static_cast<int64_t>(spec_.ratio * 4);
    if (quarters < 4) return counts.bad * 4 > quarters * counts.calls;
    const bool sentinels_errors =
        spec_.condition == BreakerCondition::kErrorRatio && !spec_.all_errors_open;
    return counts.bad == counts.calls && !sentinels_errors;
  }

  [[nodiscard]] bool IsTaken(int place) const {
    return std::find(good_.begin(), good_.end(), place) != good_.end() ||
           std::any_of(out_.begin(), out_.end(), [&](const Probe& p) { return p.place == place; });
  }

  bool Remove(const Ticket& ticket) {
    return std::erase_if(out_, [&](const Probe& p) { return p.number == ticket.probe; }) > 0;
  }

  void Turn(BreakerState to, BreakerReason reason, const CallCounts& counts) {
    transitions.push_back({state, to, reason, counts});
    state = to;
    ++phase_;
  }

  const BreakerSpec spec_;
  const int64_t open_for_;
  const int64_t bucket_;
  const int needed_;
  int64_t phase_ = 1;
  int64_t until_ = 0;
  int64_t newest_ = 0;
  std::vector<Call> calls_;
  std::vector<Probe> out_;
  int64_t probes_ = 0;
  std::vector<int> good_;  // places
};

}  // namespace flowguard::breaker
