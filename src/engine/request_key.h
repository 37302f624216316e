// SPDX-License-Identifier: Apache-2.0
//
// The key of a request under one rule: its dimension values, found and normalised,
// and the quota that they choose.
#pragma once

#include <array>
#include <cstdint>
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
// The same for a list of access: an address whole.
[[nodiscard]] std::string_view RawListValue(const Meeting& met, const rules::KeyPart& part,
                                            ValueRoom& room) noexcept;
// The same of the value at `place` of a list.
[[nodiscard]] std::string_view RawListValueAt(const Meeting& met, const rules::KeyPart& part,
                                              size_t place, ValueRoom& room) noexcept;
// As RawValue, normalised and with the dimension's value for missing ones.
[[nodiscard]] std::string_view ValueOf(const Meeting& met, const rules::KeyPart& part,
                                       ValueRoom& room) noexcept;

enum class KeyState : uint8_t {
  kReady,
  kSkip,     // a value is missing, and the rule does not apply then
  kMissing,  // a value is missing, and such requests are refused
};

// `Key`: rules::KeyHash for local cells, rules::KeyBuilder for a store.
template <typename Key>
struct RequestKey {
  const rules::Quota* quota;  // which the first value chose
  Key key;

  RequestKey() noexcept {}  // NOLINT(modernize-use-equals-default): Make writes it
  // Requires of quota and key: it said kReady.
  [[nodiscard]] KeyState Make(const Meeting& met, uint64_t seed) noexcept;
};

inline std::string_view RawValue(const Meeting& met, const rules::KeyPart& part,
                                 ValueRoom& room) noexcept {
  switch (part.dimension->kind) {
    case rules::DimensionKind::kMethod:
      return met.request.method.empty() ? std::string_view() : met.request.method;
    case rules::DimensionKind::kResource:
      return met.request.resource.empty() ? std::string_view() : met.request.resource;
    case rules::DimensionKind::kPath:
      if (!met.by_route || part.segment < 0) return {};
      return met.matches.Segment(static_cast<size_t>(part.segment));
    default:
      return met.request.Value(*part.dimension, room.composed);
  }
}

template <typename Key>
KeyState RequestKey<Key>::Make(const Meeting& met, uint64_t seed) noexcept {
  quota = &met.rule.quota;
  if (met.rule.by.empty()) key.Start(quota->identity, seed);
  for (const rules::KeyPart& part : met.rule.by) {
    ValueRoom room;
    const std::string_view raw = RawValue(met, part, room);
    if (raw.data() == nullptr && part.dimension->missing != MissingPolicy::kShare) [[unlikely]] {
      return part.dimension->missing == MissingPolicy::kSkip ? KeyState::kSkip : KeyState::kMissing;
    }
    const std::string_view value = rules::Normalise(*part.dimension, raw, room.lowered);
    if (&part == met.rule.by.data()) {
      quota = &met.rule.QuotaFor(value);
      key.Start(quota->identity, seed);
    }
    key.Add(*part.dimension, value);
  }
  return KeyState::kReady;
}

// "ip=192.0.2.7, tenant=acme", for people; with each value of a list.
[[nodiscard]] std::string ReadableKey(const Meeting& met);

}  // namespace flowguard::engine
