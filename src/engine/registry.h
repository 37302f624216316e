// SPDX-License-Identifier: Apache-2.0
//
// Interns what outlives rule sets: names (with their counters), rule texts, specs,
// cells of rules without a key.
//
// Memory: bounded by kRuleNamesEverMax entries of each kind.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "flowguard/result.h"
#include "flowguard/time.h"

#include "engine/breaker_table.h"
#include "engine/live_rule.h"

namespace flowguard::engine {

// Threads: one at a time.  What it returns is constant (cells apart) and may be
// read by any thread until the registry is destroyed.
class Registry {
 public:
  // `listener` may be null; else it outlives the registry.
  explicit Registry(BreakerListener* listener = nullptr) noexcept : listener_(listener) {}

  // Errors: kResourceExhausted beyond kRuleNamesEverMax.
  Result<const LiveRule*> Intern(const rules::CompiledRule& rule);
  // A load begins: what the one before did not ask for is gone from the rules.
  void BeginLoad() noexcept { ++load_; }
  // The breakers of a breaker rule: those that it had, with their state, if the load before
  // had them by the same numbers; else new ones.
  Result<BreakerTable*> BreakersOf(const rules::CompiledRule& rule);
  // `now`: when cells of an identity that was not loaded before come to be.
  Result<const LiveSpec*> InternSpec(const rules::CompiledRule& rule, const rules::Quota& quota,
                                     Instant now);

  // The rule names by the number of their account.
  [[nodiscard]] const std::vector<std::string_view>& names() const noexcept { return names_; }
  [[nodiscard]] size_t entries() const noexcept { return rules_.size() + specs_.size(); }

 private:
  using Specs = std::unordered_map<std::string, std::unique_ptr<LiveSpec>>;
  struct LoadedShapes {
    Shapes shapes;
    std::array<uint64_t, Shapes::kMax> loaded_at{};  // by the count of calls
  };

  // Of one identity.
  struct BreakerHome {
    breaker::BreakerSpec spec;
    std::unique_ptr<BreakerTable> table;
    uint64_t loaded_at = 0;
    std::atomic<uint64_t> opened{0};  // by all that it ever had
  };

  Result<uint32_t> AccountOf(const std::string& name);
  SingleCell* CellOf(uint64_t identity);
  // Puts `spec` among the shapes of `identity`, in the place of the one that was
  // loaded longest ago if there are kMax.
  void AddShape(uint64_t identity, LiveSpec* spec);

  BreakerListener* const listener_;
  std::unordered_map<std::string, uint32_t> account_by_name_;
  std::vector<std::string_view> names_;  // of account_by_name_
  std::unordered_map<std::string, std::unique_ptr<const LiveRule>> rules_;
  Specs specs_;
  std::unordered_map<uint64_t, std::unique_ptr<SingleCell>> cells_;
  std::unordered_map<uint64_t, std::unique_ptr<BreakerHome>> breakers_;
  std::vector<std::unique_ptr<BreakerTable>> old_breakers_;  // calls may still end at them
  uint64_t load_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<LoadedShapes>> shapes_;
  uint64_t shapes_added_ = 0;
  std::unordered_map<uint64_t, Instant> starts_;  // by identity, where that matters
};

}  // namespace flowguard::engine
