// SPDX-License-Identifier: Apache-2.0
//
// System rules on a walk.  All that a request meets are looked at together: the strictest of
// their numbers is the one that counts, and is compared and counted against in one step.  A
// request that meets none is counted all the same, for the rules are about the process.
#include "engine/walk.h"

namespace flowguard::engine {
namespace {

// When there will be room again is not known.
constexpr Duration kRetry = std::chrono::seconds(1);

limit::Numbers NoRoom() noexcept {
  limit::Numbers numbers;
  numbers.retry_after = kRetry;
  return numbers;
}

// Decides without keeping anybody out, so what it says is told after the others' take.
bool OnlyTells(const LiveRule& rule) noexcept {
  return rule.info.shadow || rule.info.degrade.enabled;
}

}  // namespace

// The least number of the rules that keep requests out, and the rule that has it.
struct Walk::Strictest {
  int64_t most = kAnyNumber;
  const LiveRule* rule = nullptr;

  void Meet(const std::optional<int64_t>& number, const LiveRule& of) noexcept {
    if (!number.has_value() || *number >= most) return;
    most = *number;
    rule = &of;
  }
};

void Walk::Systems(const Snapshot& snapshot, const RequestView& request,
                   const rules::MatchSet& matches) noexcept {
  systems_done_ = true;
  if (snapshot.systems.looks) ground_.gate.Look(ground_.statistics.entrance(), now_);
  Strictest calls;
  Strictest requests;
  for (const rules::MatchSet::Match& match : matches) {
    const LoadedRule& loaded = snapshot.rules[match.rule];
    if (loaded.compiled->rule.kind != RuleKind::kSystem || OnlyTells(*loaded.live)) continue;
    const SystemRule& most = loaded.compiled->rule.system;
    if (IsOverloaded(most)) {
      Refused(*loaded.live, nullptr, NoRoom(), Reason::kSystem);
      continue;
    }
    calls.Meet(most.inflight, *loaded.live);
    requests.Meet(most.qps, *loaded.live);
  }
  const bool counts_calls = snapshot.systems.calls && !request.skip_calls;
  const bool counts_requests = snapshot.systems.requests && !request.skip_limits;
  if (counts_calls && refused_by_ == nullptr) TakePlace(calls);
  if (counts_requests && refused_by_ == nullptr) TakeTurn(requests);
  TellSystems(snapshot, request, matches);
}

// Rules that only tell say what they would have done; all that the request passed are held.
void Walk::TellSystems(const Snapshot& snapshot, const RequestView& request,
                       const rules::MatchSet& matches) noexcept {
  for (const rules::MatchSet::Match& match : matches) {
    const LoadedRule& loaded = snapshot.rules[match.rule];
    if (loaded.compiled->rule.kind != RuleKind::kSystem) continue;
    const LiveRule& rule = *loaded.live;
    Hold::State state = Hold::State::kNone;
    const SystemRule& most = loaded.compiled->rule.system;
    if (OnlyTells(rule) && (IsOverloaded(most) || IsExceeded(most, request))) {
      state = Refused(rule, nullptr, NoRoom(), Reason::kSystem);
      if (state != Hold::State::kDegraded) continue;
    }
    if (!peek() && refused_by_ == nullptr) AddHold(rule, nullptr, 0).state = state;
  }
}

void Walk::PeekSystem(const LoadedRule& loaded, const Meeting& met) noexcept {
  const SystemRule& most = loaded.compiled->rule.system;
  ground_.gate.Look(ground_.statistics.entrance(), now_);
  if (IsOverloaded(most) || IsExceeded(most, met.request)) {
    Refused(*loaded.live, nullptr, NoRoom(), Reason::kSystem);
  }
}

bool Walk::IsOverloaded(const SystemRule& most) const noexcept {
  const SystemGate& gate = ground_.gate;
  const SystemReading reading = gate.Reading();
  if (most.cpu && reading.cpu && *reading.cpu > *most.cpu) return true;
  if (most.load && reading.load && *reading.load > *most.load &&
      gate.IsFull(ground_.statistics.entrance().InProgress())) {
    return true;
  }
  const std::optional<Duration> mean = gate.MeanTime();
  return most.avg_rt && mean && *mean > *most.avg_rt;
}

bool Walk::IsExceeded(const SystemRule& most, const RequestView& request) const noexcept {
  SystemGate& gate = ground_.gate;
  if (most.inflight && !request.skip_calls) {
    const int64_t calls = gate.Inside() + (attempt_.inside_ ? 0 : 1);
    if (calls > *most.inflight) return true;
  }
  if (!most.qps || request.skip_limits) return false;
  return gate.Taken(now_) + (attempt_.turn_.cost > 0 ? 0 : 1) > *most.qps;
}

// A check has no end to give a place back at: it looks.
void Walk::TakePlace(const Strictest& calls) noexcept {
  bool room = ground_.gate.Inside() < calls.most;
  if (attempt_.mode_ == Mode::kEnter) {
    attempt_.calls_most_ = calls.most;
    attempt_.calls_rule_ = calls.rule;
    attempt_.inside_ = room = ground_.gate.TryEnter(calls.most);
  }
  // Without a rule that says a number there is room for all that can be counted.
  if (!room && calls.rule != nullptr) Refused(*calls.rule, nullptr, NoRoom(), Reason::kSystem);
}

void Walk::TakeTurn(const Strictest& requests) noexcept {
  const bool room = peek() ? ground_.gate.Taken(now_) < requests.most
                           : ground_.gate.Take(requests.most, now_, attempt_.turn_);
  if (room) return;
  attempt_.turn_ = {};
  // Without a rule that says a number it is the most that can be counted at all.
  if (requests.rule != nullptr) Refused(*requests.rule, nullptr, NoRoom(), Reason::kSystem);
}

void Walk::LeavePlace() noexcept {
  if (attempt_.inside_) ground_.gate.Leave();
  attempt_.inside_ = false;
}

void Walk::GiveTurnBack() noexcept {
  if (attempt_.turn_.cost > 0) ground_.gate.GiveBack(attempt_.turn_, now_);
  attempt_.turn_ = {};
}

void Walk::TakePlaceAgain() noexcept {
  if (!attempt_.inside_later_) return;
  attempt_.inside_later_ = false;
  attempt_.inside_ = ground_.gate.TryEnter(attempt_.calls_most_);
  if (!attempt_.inside_) {
    Refused(*attempt_.calls_rule_, nullptr, NoRoom(), Reason::kSystem);
  }
}

}  // namespace flowguard::engine
