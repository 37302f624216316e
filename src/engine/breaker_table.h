// SPDX-License-Identifier: Apache-2.0
//
// The breakers of one rule: one, or one a key.
//
// Meant for few keys that matter (a method, a vendor, a region), not for clients: a key
// has its breaker for as long as the table lives.  Keys beyond kBreakersPerRuleMax
// share the one of a rule without keys.
//
// Invariants
//   (1) A place goes from empty to one breaker, once, by a compare-and-swap.
//   (2) A key's breaker lies at the first place from its hash on that was empty when the
//       key was first seen; so a search ends at its breaker or at an empty place.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "flowguard/breaker_listener.h"

#include "base/bounds.h"
#include "base/hash.h"
#include "breaker/breaker.h"

namespace flowguard::engine {

// Threads: all methods from any thread, without a lock.
class BreakerTable {
 public:
  // `rule`, `listener` (may be null) and `opened`, a count of openings, outlive the table.
  // Requires: breaker::CheckSpec(spec).
  BreakerTable(const breaker::BreakerSpec& spec, bool keyed, std::string_view rule,
               BreakerListener* listener, std::atomic<uint64_t>& opened);
  ~BreakerTable();
  BreakerTable(const BreakerTable&) = delete;
  BreakerTable& operator=(const BreakerTable&) = delete;

  // That of a rule without keys, and of the keys for which there is no room.
  [[nodiscard]] breaker::Breaker& shared() noexcept { return shared_; }
  // Requires: the rule has keys.
  // Cost:     a short search; an allocation the first time for a key.
  [[nodiscard]] breaker::Breaker& Of(const base::Hash128& key) noexcept;
  // The same for who only looks: null for a key that Of was not asked for.
  [[nodiscard]] breaker::Breaker* Find(const base::Hash128& key) noexcept;

  // How many are in this state now.  Cost: all places of a rule with keys.
  [[nodiscard]] size_t Count(breaker::BreakerState state) const noexcept;

  // How often one of them opened by what its calls came to; those of the rule's earlier
  // tables too.
  [[nodiscard]] uint64_t opened() const noexcept { return teller_.opened(); }

 private:
  struct Keyed;
  // Twice the bound: an empty place is never far.
  static constexpr size_t kPlaces = 2 * base::kBreakersPerRuleMax;
  using Places = std::array<std::atomic<Keyed*>, kPlaces>;

  // Counts, and tells the listener what the breakers tell.
  class Teller final : public breaker::BreakerObserver {
   public:
    Teller(std::string_view rule, BreakerListener* listener, std::atomic<uint64_t>& opened) noexcept
        : rule_(rule), listener_(listener), opened_(opened) {}
    void OnTransition(const breaker::BreakerEvent& event) override;
    [[nodiscard]] uint64_t opened() const noexcept {
      return opened_.load(std::memory_order_relaxed);
    }

   private:
    const std::string_view rule_;
    BreakerListener* const listener_;
    std::atomic<uint64_t>& opened_;
  };

  Teller teller_;
  breaker::Breaker shared_;
  const std::unique_ptr<Places> places_;  // null: no keys
  std::atomic<size_t> used_{0};
};

}  // namespace flowguard::engine
