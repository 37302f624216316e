// SPDX-License-Identifier: Apache-2.0
//
// Breaker rules on a walk.  A breaker is asked twice: first whether it refuses, before
// anything is taken; and when all other rules let the request go, those of a store too, it
// admits the call or gives it a probe.  So no probe is held by a request that does not go.
#include <algorithm>
#include <new>

#include "engine/walk.h"

namespace flowguard::engine {

void Walk::Breaks(const LoadedRule& loaded, const Meeting& met) noexcept {
  if (loaded.compiled->by.empty()) {
    AskBreaker(loaded, loaded.breakers->shared());
    return;
  }
  if (met.request.lists && EachOfLists(loaded, met)) return;
  RequestKey<rules::KeyHash> key;
  if (MakeKey(loaded, met, ground_.seed, key)) AskBreakerOf(loaded, key.key.Hash());
}

void Walk::AskBreakerOf(const LoadedRule& loaded, const base::Hash128& key) noexcept {
  BreakerTable& table = *loaded.breakers;
  breaker::Breaker* const breaker = peek() ? table.Find(key) : &table.Of(key);
  if (breaker == nullptr) return;  // never met yet, and closed
  // Values of a list may be all one breaker's, where there are too many for each to have one.
  const auto has_it = [&](const Hold& hold) {
    return hold.rule == loaded.live && hold.breaker == breaker;
  };
  if (std::ranges::none_of(holds(), has_it)) AskBreaker(loaded, *breaker);
}

void Walk::AskBreaker(const LoadedRule& loaded, breaker::Breaker& breaker) noexcept {
  const LiveRule& rule = *loaded.live;
  Hold hold{.rule = &rule,
            .spec = nullptr,
            .breaker = &breaker,
            .receipt = {},
            .cost = 0,
            .state = Hold::State::kCallLater,
            .share_nodes = 0,
            .settles = false,
            .waits = false,
            .remote = 0};
  const Duration refused_for = breaker.RefusedFor(now_);
  if (refused_for > Duration::zero()) {
    RefusedByBreaker(hold, refused_for);
    if (hold.state != Hold::State::kDegraded) return;
  } else if (attempt_.mode_ == Mode::kCheck) {
    hold.state = Hold::State::kNone;  // nobody will tell how the call ended
  }
  if (peek() || refused_by_ != nullptr) return;
  attempt_.breakers_ |= hold.state == Hold::State::kCallLater;
  AddHold(rule, nullptr, 0) = hold;
}

// Not yet for a request that has to wait: it is asked again when it goes.  Nor for one that
// is answered here, by a rule that degrades: it calls nothing.
void Walk::EnterBreakers() noexcept {
  const Decision& decision = attempt_.decision_;
  if (decision.wait > Duration::zero()) return;
  if (decision.degraded && decision.rule->degrade.status != 0) return;
  EachHold([&](Hold& hold) {
    if (hold.state != Hold::State::kCallLater || refused_by_ != nullptr) return;
    const breaker::BreakerAdmission admission = hold.breaker->TryEnter(now_);
    if (admission.admitted()) {
      new (&hold.ticket) breaker::BreakerTicket(admission.ticket);
      hold.state = Hold::State::kCall;
    } else {
      RefusedByBreaker(hold, admission.retry_after);
    }
  });
}

void Walk::TellBreakers(Outcome outcome, Duration took) noexcept {
  if (!attempt_.entered()) return;
  CountedAt& counted = attempt_.counted_;
  if (counted.counts && !counted.told) {
    counted.told = true;
    counted.outcome = outcome;
    counted.took = took;
  }
  if (!attempt_.breakers_) return;
  for (Hold& hold : holds()) {
    if (hold.state != Hold::State::kCall) continue;
    hold.breaker->Settle(hold.ticket, outcome, took, now_);
    hold.state = Hold::State::kNone;
  }
}

void Walk::RefusedByBreaker(Hold& hold, Duration retry_after) noexcept {
  limit::Numbers numbers;
  numbers.retry_after = retry_after;
  hold.state = Refused(*hold.rule, nullptr, numbers, Reason::kBreaker);
}

}  // namespace flowguard::engine
