// SPDX-License-Identifier: Apache-2.0
#include "engine/request_key.h"

#include "rules/dimension.h"

namespace flowguard::engine {

std::string_view RawValue(const Meeting& met, const rules::KeyPart& part,
                          ValueRoom& room) noexcept {
  switch (part.dimension->kind) {
    case rules::DimensionKind::kMethod:
      return met.request.method.empty() ? std::string_view() : met.request.method;
    case rules::DimensionKind::kPath:
      if (!met.by_route || part.segment < 0) return {};
      return met.matches.Segment(static_cast<size_t>(part.segment));
    default:
      return met.request.Value(*part.dimension, room.composed);
  }
}

std::string_view ValueOf(const Meeting& met, const rules::KeyPart& part, ValueRoom& room) noexcept {
  return rules::Normalise(*part.dimension, RawValue(met, part, room), room.lowered);
}

RequestKey::State RequestKey::Make(const Meeting& met, uint64_t seed) noexcept {
  quota_ = &met.rule.quota;
  if (met.rule.by.empty()) builder_.emplace(quota_->identity, seed);
  for (const rules::KeyPart& part : met.rule.by) {
    ValueRoom room;
    const std::string_view raw = RawValue(met, part, room);
    if (raw.data() == nullptr && part.dimension->missing != MissingPolicy::kShare) [[unlikely]] {
      return part.dimension->missing == MissingPolicy::kSkip ? State::kSkip : State::kMissing;
    }
    const std::string_view value = rules::Normalise(*part.dimension, raw, room.lowered);
    if (&part == met.rule.by.data()) {
      quota_ = &met.rule.QuotaFor(value);
      builder_.emplace(quota_->identity, seed);
    }
    builder_->Add(*part.dimension, value);
  }
  return State::kReady;
}

std::string ReadableKey(const Meeting& met) {
  std::string text;
  for (const rules::KeyPart& part : met.rule.by) {
    ValueRoom room;
    rules::AppendReadable(*part.dimension, ValueOf(met, part, room), text);
  }
  return text;
}

}  // namespace flowguard::engine
