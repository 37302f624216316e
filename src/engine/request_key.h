// SPDX-License-Identifier: Apache-2.0
//
// The key of a request under one rule: its dimension values, found and normalised,
// and the quota that they choose.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "engine/engine.h"
#include "rules/compiled_rule.h"
#include "rules/key.h"
#include "rules/matcher.h"

namespace flowguard::engine {

// Room for the values of one key part.  Not cleared.
struct ValueRoom {
  ValueRoom() noexcept {}  // NOLINT(modernize-use-equals-default)
  std::array<char, 4096> composed;
  std::array<char, base::kKeyValueInlineMax> lowered;
};

// A rule that a request meets.
struct Meeting {
  const rules::CompiledRule& rule;
  const RequestView& request;
  const rules::MatchSet& matches;
  bool by_route;  // the path captures of the rule have values
};

// The value as the request has it; data() == nullptr: it has none.
[[nodiscard]] std::string_view RawValue(const Meeting& met, const rules::KeyPart& part,
                                        ValueRoom& room) noexcept;
// The same, normalised and with the dimension's value for missing ones.
[[nodiscard]] std::string_view ValueOf(const Meeting& met, const rules::KeyPart& part,
                                       ValueRoom& room) noexcept;

class RequestKey {
 public:
  enum class State : uint8_t {
    kReady,
    kSkip,     // a value is missing, and the rule does not apply then
    kMissing,  // a value is missing, and such requests are refused
  };

  RequestKey() noexcept {}  // NOLINT(modernize-use-equals-default): nothing to clear

  [[nodiscard]] State Make(const Meeting& met, uint64_t seed) noexcept;

  // Requires: Make said kReady.
  [[nodiscard]] const rules::Quota& quota() const noexcept { return *quota_; }
  [[nodiscard]] base::Hash128 Hash() const noexcept { return builder_->Hash(); }
  [[nodiscard]] std::string_view encoded() const noexcept { return builder_->encoded(); }

 private:
  const rules::Quota* quota_ = nullptr;
  std::optional<rules::KeyBuilder> builder_;
};

// "ip=192.0.2.7, tenant=acme", for people.
[[nodiscard]] std::string ReadableKey(const Meeting& met);

}  // namespace flowguard::engine
