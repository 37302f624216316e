// SPDX-License-Identifier: Apache-2.0
//
// Breaker rules on a walk.  A breaker is asked twice: first whether it refuses, before
// anything is taken; and when all local rules let the request pass, it admits the call or
// gives it a probe.  So no probe is spent on a request that something else refuses.
#include "base/check.h"
#include "engine/walk.h"

namespace flowguard::engine {

void Walk::Breaks(const LoadedRule& loaded, const Meeting& met) noexcept {
  const LiveRule& rule = *loaded.live;
  Hold hold{.rule = &rule,
            .spec = nullptr,
            .key = {},
            .receipt = {},
            .cost = 0,
            .state = Hold::State::kCallLater,
            .share_nodes = 0,
            .settles = false,
            .waits = false,
            .remote = 0};
  if (!loaded.compiled->by.empty()) {
    RequestKey<rules::KeyHash> key;
    if (!MakeKey(loaded, met, ground_.seed, key)) return;
    hold.key = key.key.Hash();
  }
  const Duration refused_for = BreakerOf(hold).RefusedFor(now_);
  if (refused_for > Duration::zero()) {
    RefusedByBreaker(hold, refused_for);
    if (hold.state != Hold::State::kDegraded) return;
  } else if (attempt_.mode_ == Mode::kCheck) {
    hold.state = Hold::State::kNone;  // nobody will tell how the call ended
  }
  if (peek() || refused_by_ != nullptr) return;
  breakers_ |= hold.state == Hold::State::kCallLater;
  AddHold(rule, nullptr, 0) = hold;
}

void Walk::EnterBreakers() noexcept {
  for (Hold& hold : holds()) {
    if (hold.state != Hold::State::kCallLater || refused_by_ != nullptr) continue;
    breaker::BreakerAdmission admission = BreakerOf(hold).TryEnter(now_);
    if (admission.admitted()) {
      hold.ticket = admission.ticket;
      hold.state = Hold::State::kCall;
    } else {
      RefusedByBreaker(hold, admission.retry_after);
    }
  }
}

void Walk::RefusedByBreaker(Hold& hold, Duration retry_after) noexcept {
  limit::Numbers numbers;
  numbers.retry_after = retry_after;
  hold.state = Refused(*hold.rule, nullptr, numbers, Reason::kBreaker);
}

breaker::Breaker& Walk::BreakerOf(const Hold& hold) noexcept {
  BreakerTable& table = *hold.rule->breakers;
  return hold.rule->keyed ? table.Of(hold.key) : table.shared();
}

}  // namespace flowguard::engine
