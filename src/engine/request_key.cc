// SPDX-License-Identifier: Apache-2.0
#include "engine/request_key.h"

#include "rules/dimension.h"

namespace flowguard::engine {

std::string_view RawListValue(const Meeting& met, const rules::KeyPart& part,
                              ValueRoom& room) noexcept {
  if (part.dimension->kind == rules::DimensionKind::kIp)
    return met.request.WholeAddress(*part.dimension, room.composed);
  return RawValue(met, part, room);
}

std::string_view ValueOf(const Meeting& met, const rules::KeyPart& part, ValueRoom& room) noexcept {
  return rules::Normalise(*part.dimension, RawValue(met, part, room), room.lowered);
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
