// SPDX-License-Identifier: Apache-2.0
#include "engine/breaker_table.h"

#include "base/check.h"

namespace flowguard::engine {

namespace {

BreakerState Public(breaker::BreakerState state) noexcept {
  switch (state) {
    case breaker::BreakerState::kClosed:
      return BreakerState::kClosed;
    case breaker::BreakerState::kOpen:
      return BreakerState::kOpen;
    case breaker::BreakerState::kHalfOpen:
      break;
  }
  return BreakerState::kHalfOpen;
}

}  // namespace

struct BreakerTable::Keyed {
  Keyed(const base::Hash128& of, const breaker::BreakerSpec& spec,
        breaker::BreakerObserver* observer, uint64_t number)
      : key(of), breaker(spec, observer, number) {}

  const base::Hash128 key;
  breaker::Breaker breaker;
};

BreakerTable::BreakerTable(const breaker::BreakerSpec& spec, bool keyed, std::string_view rule,
                           BreakerListener* listener, std::atomic<uint64_t>& opened)
    : teller_(rule, listener, opened),
      shared_(spec, &teller_, 0),
      places_(keyed ? std::make_unique<Places>() : nullptr) {}

void BreakerTable::Teller::OnTransition(const breaker::BreakerEvent& event) {
  const bool by_calls = event.reason == breaker::BreakerReason::kCondition ||
                        event.reason == breaker::BreakerReason::kProbeBad;
  if (by_calls) opened_.fetch_add(1, std::memory_order_relaxed);
  if (listener_ == nullptr) return;
  listener_->OnBreaker({.rule = rule_,
                        .number = event.breaker,
                        .from = Public(event.from),
                        .to = Public(event.to),
                        .at = event.time,
                        .calls = event.counts.calls,
                        .bad = event.counts.bad,
                        .missed = event.missed});
}

BreakerTable::~BreakerTable() {
  if (places_ == nullptr) return;
  for (std::atomic<Keyed*>& place : *places_)
    delete place.load(std::memory_order_relaxed);
}

breaker::Breaker& BreakerTable::Of(const base::Hash128& key) noexcept {
  FG_DCHECK(places_ != nullptr);
  for (size_t at = key.low % kPlaces;; at = (at + 1) % kPlaces) {
    std::atomic<Keyed*>& place = (*places_)[at];
    Keyed* found = place.load(std::memory_order_acquire);
    if (found == nullptr) {
      // Counted before it is there, so that no more than the bound ever are.
      if (used_.load(std::memory_order_relaxed) >= base::kBreakersPerRuleMax) return shared_;
      if (used_.fetch_add(1, std::memory_order_relaxed) >= base::kBreakersPerRuleMax) {
        used_.fetch_sub(1, std::memory_order_relaxed);
        return shared_;
      }
      auto* made = new Keyed(key, shared_.spec(), &teller_, at + 1);
      if (place.compare_exchange_strong(found, made, std::memory_order_acq_rel)) {
        return made->breaker;
      }
      delete made;
      used_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (found->key == key) return found->breaker;
  }
}

breaker::Breaker* BreakerTable::Find(const base::Hash128& key) noexcept {
  FG_DCHECK(places_ != nullptr);
  for (size_t at = key.low % kPlaces;; at = (at + 1) % kPlaces) {
    Keyed* const found = (*places_)[at].load(std::memory_order_acquire);
    if (found == nullptr) return nullptr;
    if (found->key == key) return &found->breaker;
  }
}

size_t BreakerTable::Count(breaker::BreakerState state) const noexcept {
  size_t count = shared_.state() == state ? 1 : 0;
  if (places_ == nullptr) return count;
  for (const std::atomic<Keyed*>& place : *places_) {
    const Keyed* keyed = place.load(std::memory_order_acquire);
    if (keyed != nullptr && keyed->breaker.state() == state) ++count;
  }
  return count;
}

}  // namespace flowguard::engine
